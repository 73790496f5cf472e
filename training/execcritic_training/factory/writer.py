"""A model that words the issues, opened from its specification."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from execcritic_training.factory.issue import Writer, by_model


@contextmanager
def open_writer(spec: str | None) -> Iterator[Writer | None]:
    """The writer for the time of a `with` block; None without a model.

    Raises UsageError for a specification that is no model, ModelError where an issue is asked for and not given.
    """
    if spec is None:
        yield None
        return
    from execcritic_roles.models import registry

    model = registry.create(spec, "test")
    alone = threading.Lock()  # a recorded model gives its replies in one order

    def complete(prompt: str) -> str:
        with alone:
            reply = model.complete([{"role": "user", "content": prompt}], [])
        return str(reply.message.get("content") or "")

    try:
        yield by_model(complete)
    finally:
        model.close()
