"""From what a reporter saw to an Outcome, and from a failure to where it comes from (HARNESS 1, 2 B3).

By cause, never by text: the classes in the exception's MRO and the frames of its traceback.
"""

from __future__ import annotations

import errno

from execcritic_scaffold.outcome import Failure, Frame, Origin, Outcome
from execcritic_scaffold.paths import Discovery, PathKind

ASSERTIONS = (
    "builtins.AssertionError",
    "builtins.Failed",  # how pytest presents its own `_pytest.outcomes.Failed`
    "_pytest.outcomes.Failed",
    "doctest.DocTestFailure",
    "_pytest.doctest.MultipleDoctestFailures",
    "sympy.testing.pytest.Failed",
    "sympy.utilities.pytest.Failed",
)
"""What the language and the frameworks raise to say "not as expected"."""
MEMORY = ("builtins.MemoryError",)
MACHINE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM))
"""Refusals of the operating system for want of disk, descriptors or memory."""


def of_the_machine(failure: Failure) -> bool:
    """Whether the machine refused, rather than the code failed."""
    return failure.errno in MACHINE


def outcome_of(failure: Failure | None, phase: str) -> Outcome:
    """The outcome of a failed phase ("setup", "call" or "teardown")."""
    if failure is not None and failure.exhausted and failure.is_a(*MEMORY):
        return Outcome.OUT_OF_MEMORY
    if failure is not None and of_the_machine(failure):
        return Outcome.ENVIRONMENT
    if phase == "setup":
        return Outcome.ERROR_SETUP
    if phase == "teardown":
        return Outcome.ERROR_TEARDOWN
    if failure is None or failure.is_a(*ASSERTIONS):
        return Outcome.FAILED_ASSERT
    return Outcome.FAILED_EXCEPTION


def deepest(failure: Failure) -> Frame | None:
    """The deepest frame inside the repository; None where there is none."""
    return next((frame for frame in reversed(failure.frames) if frame.inside), None)


def origin(failure: Failure, discovery: Discovery) -> Origin:
    """Where the deepest repository frame lies."""
    frame = deepest(failure)
    if frame is None:
        return Origin.THIRD_PARTY if failure.frames else Origin.NONE
    if frame.function.startswith("<doctest "):
        return Origin.TEST  # the example itself, whatever file it is written in
    kind = discovery.kind(frame.path)
    return Origin.TEST if kind in (PathKind.TEST, PathKind.SUPPORT, PathKind.CONFTEST) else Origin.SOURCE
