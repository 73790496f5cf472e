"""Executors by name: any `concurrent.futures.Executor` that carries `worker.work` to where it is done."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any, cast

from execcritic_scaffold.errors import UsageError

CHOICES = "local or ray"


def create(spec: str, workers: int, options: Mapping[str, Any]) -> Executor:
    """An executor for `workers` runs at a time: one of CHOICES, or `package.module.Class` of the user's own, which is
    called with them. `options` are for Ray (`address`).

    Raises UsageError for what is none, or is not installed.
    """
    if spec == "local":
        from execcritic.batch.local import LocalExecutor

        return LocalExecutor(workers)
    if spec == "ray":
        try:
            ray = importlib.import_module("execcritic.batch.ray")
        except ImportError as error:
            raise UsageError(
                f"Ray cannot be used here ({error}); install it: `pip install 'execcritic[ray]'`."
            ) from None
        return cast(Executor, ray.RayExecutor(workers, **options))
    module, dot, attribute = spec.rpartition(".")
    try:
        if not dot:
            raise ImportError("it is neither a name nor a path")
        factory = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"The executor {spec!r} cannot be loaded ({error}); use {CHOICES}.") from None
    return cast(Executor, factory(workers))
