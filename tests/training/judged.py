"""Judged episodes for the trainers: ids below 256 are bytes, as the tiny tokenizer has them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from execcritic_training.evidence import Outcome, RepairEvidence, TestEvidence
from execcritic_training.recipes import RlRecipe, SftRecipe
from execcritic_training.records import Record, Task, Tokens, Turn
from tests.training.making import record

TEMPLATE = "ab" * 32
OPTIMISER: dict[str, Any] = {"lr": 1e-3, "weight_decay": 0.0}


def rl_recipe(**changes: Any) -> RlRecipe:
    body: dict[str, Any] = {
        "stage": "rl",
        "role": "test",
        "model": "tiny",
        "precision": "fp32",
        "steps": 4,
        "window": {"tokens": 256},
        "episodes": {"groups": 1, "samples": 4, "response": 64, "turns": 4},
        "optimiser": OPTIMISER,
        "batch": 4,
        "save_every": 1,
    }
    return RlRecipe.model_validate({**body, **changes})


def sft_recipe(**changes: Any) -> SftRecipe:
    body: dict[str, Any] = {
        "stage": "sft",
        "role": "test",
        "model": "tiny",
        "precision": "fp32",
        "steps": 6,
        "window": {"tokens": 256},
        "optimiser": {**OPTIMISER, "schedule": "cosine"},
        "batch": 2,
        "save_every": 3,
    }
    return SftRecipe.model_validate({**body, **changes})


def good(turns: int = 2) -> TestEvidence:
    """Base-to-Gold with no candidates: 0.2."""
    return TestEvidence(submitted=True, turns=turns, base=Outcome.FAIL, gold=Outcome.PASS)


def bad() -> TestEvidence:
    """No submission: -0.2."""
    return TestEvidence(submitted=False, turns=2)


def broken() -> TestEvidence:
    return TestEvidence(submitted=False, turns=2, operational="the sandbox died")


def episode(
    name: str,
    evidence: TestEvidence | RepairEvidence | None,
    *,
    task: str = "spans-1",
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]] = (((1, 2, 3), (4, 5)),),
    logprobs: Sequence[Sequence[float]] | None = None,
    version: int = 0,
    **more: Any,
) -> Record:
    """An episode of turns given as what is new in the prompt, and the output; each continues the one before."""
    turns, held = [], 0
    for n, (prompt, output) in enumerate(pairs):
        said = list(logprobs[n]) if logprobs else [-5.0] * len(output)
        tokens = Tokens(keep=held, prompt=list(prompt), output=list(output), logprobs=said)
        turns.append(
            Turn(
                keep=0, messages=[], reply={"role": "assistant"}, tokens=tokens, policy_version=version, finish="length"
            )
        )
        held += len(prompt) + len(output)
    more.setdefault("template", TEMPLATE)
    return record(
        *turns,
        id=name,
        evidence=evidence,
        task=Task(instance_id=task, base="ab" * 20, split="train"),
        **more,
    )


def write(path: Path, records: Sequence[Record]) -> Path:
    path.write_text("".join(json.dumps(one.to_json()) + "\n" for one in records))
    return path
