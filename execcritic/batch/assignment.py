"""What a worker is given and what it gives back: plain data that pickles, whichever executor carries it.

An executor is a `concurrent.futures.Executor`: `submit(function, Assignment) -> Future[Ended]`. Only the process that
owns the batch folder writes its journal and predictions; a worker writes its own run directory alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from execcritic.batch.instance import Instance


class Mode(StrEnum):
    """The condition. RESOLVE: both roles. TEST: only the test. REPAIR: repair under a given frozen bundle. NO_TEST:
    repair without any test (Round 0 is submitted). ORACLE: repair under a bundle made of the official test."""

    RESOLVE = "resolve"
    TEST = "test"
    REPAIR = "repair"
    NO_TEST = "no-test"
    ORACLE = "oracle"


class Ending(StrEnum):
    """How one run of one instance ended. Only FINISHED and MODEL_FAILED count as done; the others are run again."""

    FINISHED = "finished"
    MODEL_FAILED = "model-failed"
    INFRA_FAILED = "infra-failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Assignment:
    """One run of one instance. `repeat` counts from 0; `run` is the run directory's path; `bundle` is the folder of the
    frozen bundle to repair under, `round0` a finished run whose recorded Round 0 is the start, where there is one."""

    instance: Instance
    mode: Mode
    repeat: int
    run: str
    bundle: str | None = None
    round0: str | None = None


@dataclass(frozen=True)
class Ended:
    """`body` is the run's verdict.json (empty where there is none); `reason` is one sentence for any ending but
    FINISHED; `patch` is the Base-relative patch to be submitted, empty where there is none."""

    instance: str
    repeat: int
    ending: Ending
    reason: str | None = None
    patch: bytes = b""
    cost: float | None = 0.0
    """US dollars paid for what the run directory holds, over all attempts; None where a price is unknown."""
    body: Mapping[str, Any] = field(default_factory=dict)
