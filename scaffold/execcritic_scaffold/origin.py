"""Is a failure on Base the behaviour the issue reports, and how strong is that evidence? (HARNESS 2, B2 and B3)"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass

from execcritic_scaffold import classify
from execcritic_scaffold.outcome import Failure, NodeResult, Origin, Outcome
from execcritic_scaffold.paths import Discovery
from execcritic_scaffold.syntax import parse
from execcritic_scaffold.valueshape import concerns_source, consumes_result

_UNEXPECTED_KEYWORD = re.compile(r"(?:unexpected keyword argument|invalid keyword argument) '(\w+)'")
_NO_ATTRIBUTE = re.compile(r"has no attribute '(\w+)'")
_NO_NAME = re.compile(r"cannot import name '(\w+)'(?: from (?:partially initialized module )?'([\w.]+)')?")
_OF_MODULE = re.compile(r"module '([\w.]+)' has no attribute")
_NO_MODULE = re.compile(r"No module named '([\w.]+)'")


@dataclass(frozen=True)
class Judgement:
    """`tier` of an admissible failure ("assertion", "source-exception", "value-shape", "api-absent"), or the `code`
    and `detail` of why it is none, with what to do `next`."""

    tier: str | None
    code: str = ""
    detail: str = ""
    next: str = ""


@dataclass(frozen=True)
class Context:
    """What judging needs: discovery, the repository's names, the issue, and the text of a test file."""

    discovery: Discovery
    tops: frozenset[str]
    issue: str
    read: Callable[[str], bytes | None]
    value_shape: bool = True
    api_absent: bool = True


_NOT_BEHAVIOURAL: dict[Outcome, tuple[str, str, str]] = {
    Outcome.PASSED: (
        "PASSES_ON_BASE",
        "passes on the unfixed code",
        "Exercise the reported trigger and assert the outcome that the issue says is missing.",
    ),
    Outcome.SKIPPED: ("SKIPPED", "is skipped", "Remove the skip, or pick a place where the test runs."),
    Outcome.XFAILED: ("XFAIL", "is marked as expected to fail", "Remove the xfail mark."),
    Outcome.XPASSED: ("XFAIL", "is marked as expected to fail and passes", "Remove the xfail mark."),
    Outcome.ERROR_SETUP: ("SETUP_ERROR", "fails in its set-up", "Use fixtures that exist and work on Base."),
    Outcome.ERROR_TEARDOWN: ("SETUP_ERROR", "fails in its clean-up", "Make the clean-up work on Base."),
    Outcome.COLLECT_ERROR: ("COLLECTION_ERROR", "cannot be collected", "Make the test file importable on Base."),
    Outcome.NOT_COLLECTED: (
        "NO_TESTS_COLLECTED",
        "is not collected by the runner",
        "Name the test as the runner's discovery rules ask and declare the id that it reports.",
    ),
    Outcome.TIMEOUT: ("TIMEOUT", "does not end within the time limit", "Make the test quick and bounded."),
    Outcome.CRASHED: ("CRASHED", "kills the test process", "Observe the crash from a child process and assert on it."),
    Outcome.OUT_OF_MEMORY: ("OUT_OF_MEMORY", "needs more memory than allowed", "Use a smaller input."),
    Outcome.ENVIRONMENT: ("ENVIRONMENT", "cannot run on this machine", "Test without what is missing here."),
    Outcome.NOT_AWAITED: (
        "NOT_AWAITED",
        "is a coroutine that nothing runs",
        "Use the asynchronous test support that the neighbouring tests use, or asyncio.run.",
    ),
}


def judge(result: NodeResult, context: Context) -> Judgement:
    """Whether this is a clean Base failure, and of which tier."""
    if not result.outcome.behavioural:
        code, what, advice = _NOT_BEHAVIOURAL[result.outcome]
        because = f": {_brief(result.failure)}" if result.failure else ""
        return Judgement(None, code, f"{result.node} {what}{because}", advice)
    failure = result.failure
    if result.outcome is Outcome.FAILED_ASSERT or failure is None:
        return Judgement("assertion")
    where = classify.origin(failure, context.discovery)
    frame = classify.deepest(failure)
    text = context.read(frame.path) if frame else None
    symbol = absent_symbol(failure) if context.api_absent else None
    if symbol and names_symbol(context.issue, symbol) and (where is Origin.SOURCE or _is_own(failure, text, context)):
        return Judgement("api-absent", detail=f"{symbol} does not exist on Base and the issue names it")
    if where is Origin.SOURCE:
        return Judgement("source-exception")
    if context.value_shape and frame and text and consumes_result(failure, frame, text, context.tops):
        return Judgement("value-shape", detail=f"{_brief(failure)}: assert the returned value before using it")
    return Judgement(
        None,
        "WRONG_REASON",
        f"{result.node} fails by an error of the test itself ({_brief(failure)})",
        "Correct the test so that it reaches the behaviour the issue reports and asserts on it.",
    )


def judge_collection(path: str, failure: Failure, context: Context) -> Judgement:
    """A file that cannot be imported on Base: admissible only for a symbol that the issue names."""
    symbol = absent_symbol(failure) if failure.is_a("builtins.ImportError", "builtins.AttributeError") else None
    own = symbol is not None and _is_own(failure, context.read(path), context)
    if context.api_absent and symbol and own and names_symbol(context.issue, symbol):
        return Judgement("api-absent", detail=f"{symbol} cannot be imported on Base and the issue names it")
    return Judgement(
        None,
        "COLLECTION_ERROR",
        f"{path} cannot be imported on Base ({_brief(failure)})",
        "Import only what Base has; reach a symbol that is yet to come inside the test function.",
    )


def absent_symbol(failure: Failure) -> str | None:
    """The symbol a failure says does not exist: an attribute, keyword, importable name or module; else None."""
    if failure.is_a("builtins.ModuleNotFoundError"):
        found = _NO_MODULE.search(failure.message)
        return (failure.name or (found[1] if found else "")).rsplit(".", 1)[-1] or None
    if failure.is_a("builtins.ImportError"):
        found = _NO_NAME.search(failure.message)
        return found[1] if found else None
    if failure.is_a("builtins.AttributeError") and "'NoneType' object" not in failure.message:
        found = _NO_ATTRIBUTE.search(failure.message)
        return failure.name or (found[1] if found else None)
    if failure.is_a("builtins.TypeError"):
        found = _UNEXPECTED_KEYWORD.search(failure.message)
        return found[1] if found else None
    return None


def _is_own(failure: Failure, text: bytes | None, context: Context) -> bool:
    """Whether what is absent would be the repository's: by the module the message names, else by the test's text."""
    if failure.is_a("builtins.ImportError"):
        found = _NO_MODULE.search(failure.message)
        named = found[1] if found else failure.name
        if not failure.is_a("builtins.ModuleNotFoundError"):
            missing = _NO_NAME.search(failure.message)
            named = missing[2] if missing else None
            if missing and named is None:  # old interpreters do not say from where
                return text is not None and _imports_own(text, missing[1], context.tops)
        return named is not None and named.split(".")[0] in context.tops
    if module := _OF_MODULE.search(failure.message):
        return module[1].split(".")[0] in context.tops
    frame = classify.deepest(failure)
    return bool(frame and text and concerns_source(failure, frame, text, context.tops))


def _imports_own(text: bytes, name: str, tops: frozenset[str]) -> bool:
    """Whether the text imports this name from the repository."""
    module = parse(text)
    return any(
        isinstance(n, ast.ImportFrom)
        and any(a.name == name for a in n.names)
        and (n.level > 0 or (n.module or "").split(".")[0] in tops)
        for n in (ast.walk(module) if module else ())
    )


def names_symbol(issue: str, symbol: str) -> bool:
    """Whether the issue's text holds the symbol as a word of its own (three characters at least)."""
    return len(symbol) >= 3 and re.search(rf"(?<!\w){re.escape(symbol)}(?!\w)", issue) is not None


def _brief(failure: Failure | None) -> str:
    if failure is None:
        return "no detail"
    first = failure.message.strip().splitlines()[:1]
    return f"{failure.kind.removeprefix('builtins.')}: {first[0][:200] if first else ''}".rstrip(": ")
