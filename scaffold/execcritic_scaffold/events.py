"""From a reporter's events and the exit status the supervisor waited for to a RunReport (HARNESS 1).

Everything is cross-checked: numbers without a gap, one outcome an item and phase, the node set that was asked for,
the control tests, the exit status against what was declared and against what the outcomes imply. What does not fit
is not believed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from execcritic_scaffold import classify
from execcritic_scaffold.outcome import NodeResult, Outcome, RunReport, RunStatus
from execcritic_scaffold.sandbox.protocol import Completed
from execcritic_scaffold.stream import PHASES, Contradiction, Part, Phase, Stream, read

_WELL = (Outcome.PASSED, Outcome.SKIPPED, Outcome.XFAILED)
_EITHER = (Outcome.XPASSED, Outcome.NOT_AWAITED)
"""Outcomes that are a failure to some runners, or with some settings, and none to others."""


@dataclass(frozen=True)
class Expected:
    """What a run was asked to do, for the cross-check. `nodes` None: every node of the files. `passing` and `failing`
    are the names of the control tests, none where the run has no such tests."""

    nonce: str
    nodes: tuple[str, ...] | None
    passing: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()

    @property
    def controls(self) -> frozenset[str]:
        return frozenset((*self.passing, *self.failing))


def interpret(done: Completed, stdout: bytes, exit_code: int | None, expected: Expected) -> RunReport:
    """The report of one run. Never raises for what the run did."""
    try:
        stream = read(stdout, expected.nonce)
        status, detail, results = _judge(stream, done, exit_code, expected)
    except Contradiction as error:
        stream, status, detail, results = Stream(), RunStatus.TAMPERED, str(error), {}
    return RunReport(
        status=status,
        detail=detail,
        results=results,
        collected=tuple(stream.collected),
        collect_errors=stream.collect_errors,
        collect_skips=stream.collect_skips,
        seconds=done.seconds,
        log=done.stderr[-64_000:],
        writes=done.writes or (),
        left_behind=done.left_behind,
        runner={k: str(stream.start[k]) for k in ("runner", "version", "python", "plugins") if k in stream.start},
        executed=tuple(stream.executed),
        sockets=tuple(stream.sockets),
        unenforced=done.unenforced,
    )


def _judge(
    stream: Stream, done: Completed, exit_code: int | None, expected: Expected
) -> tuple[RunStatus, str, dict[str, NodeResult]]:
    results = _results(stream)
    wanted = expected.nodes if expected.nodes is not None else tuple(stream.collected)
    if broken := _stopped(stream, done, exit_code):
        status, detail, last = broken
        if last is not None and stream.begun and not _finished(stream):
            results[stream.begun[-1]] = NodeResult(stream.begun[-1], last)
        return status, detail, _only(results, wanted)
    if stream.end != exit_code:
        detail = f"the runner said it would exit with {stream.end}, the process exited with {exit_code}"
        return RunStatus.REPORT_EXIT_MISMATCH, detail, _only(results, wanted)
    if stream.end == 3 and stream.begun and _last(stream.begun[-1]) in expected.controls:
        return RunStatus.TAMPERED, "the runner broke down over a control test", _only(results, wanted)
    if stream.end not in (0, 1, 5):
        status = RunStatus.RUNNER_USAGE if stream.end == 4 else RunStatus.CRASHED
        return status, f"the runner stopped with exit status {stream.end}", _only(results, wanted)
    for phases in stream.phases.values():
        for phase in phases.values():
            if phase.raw_failed and phase.outcome == "passed" and not phase.xfail:
                raise Contradiction(f"{phase.node} failed and was reported as passed")
    problem = (
        _controls(stream, results, expected)
        or _other_nodes(stream, results, wanted, expected.controls)
        or _exit_status(stream, [result.outcome for result in results.values()])
        or _machine(stream, results, expected)
    )
    results = {**_skipped_files(stream, wanted), **results}
    status, detail = problem or (RunStatus.VALID, "")
    return status, detail, _only(results, wanted)


def _stopped(stream: Stream, done: Completed, exit_code: int | None) -> tuple[RunStatus, str, Outcome | None] | None:
    """Why a run did not come to its end by itself, None when it did."""
    if done.out_of_memory:
        return RunStatus.OUT_OF_MEMORY, "the memory limit was reached", Outcome.OUT_OF_MEMORY
    if done.timed_out or exit_code is None:
        return RunStatus.TIMEOUT, f"the time limit was reached after {done.seconds:.0f} s", Outcome.TIMEOUT
    if stream.end is None:
        if not stream.start and not stream.begun:
            return RunStatus.NO_REPORT, f"the runner ended with status {exit_code} and without a report", None
        how = f"signal {-exit_code}" if exit_code < 0 else f"status {exit_code}"
        return RunStatus.CRASHED, f"the process ended with {how} in the middle of the run", Outcome.CRASHED
    return None


def _finished(stream: Stream) -> bool:
    """Whether the node that began last has an outcome."""
    return any(p.node == stream.begun[-1] for phases in stream.phases.values() for p in phases.values())


def _controls(stream: Stream, results: Mapping[str, NodeResult], expected: Expected) -> tuple[RunStatus, str] | None:
    """A control test that did not end as it must."""
    selected = {_last(node): node for node in stream.selected}
    if all(name in expected.controls for name in selected):
        return None  # nothing but control tests was to be run
    must = [(name, Outcome.PASSED) for name in expected.passing]
    must += [(name, Outcome.FAILED_ASSERT) for name in expected.failing]
    for name, outcome in must:
        got = results.get(selected.get(name, ""))
        if got is None or got.outcome is not outcome:
            seen = got.outcome if got else "nothing"
            return RunStatus.TAMPERED, f"a control test that must be {outcome} was reported as {seen}"
    return None


def _exit_status(stream: Stream, outcomes: Sequence[Outcome]) -> tuple[RunStatus, str] | None:
    """An exit status that does not follow from the outcomes, by the numbers of pytest, which all our runners use."""
    if stream.collect_errors or any(outcome not in _WELL + _EITHER for outcome in outcomes):
        implied = {1}
    elif not outcomes:
        implied = {5}
        if stream.end == 1:
            return RunStatus.CRASHED, "the runner ended with status 1 before any test"
    else:
        implied = {0, 1} if any(outcome in _EITHER for outcome in outcomes) else {0}
    if stream.end in implied:
        return None
    status = " or ".join(str(code) for code in sorted(implied))
    return RunStatus.TAMPERED, f"the outcomes mean exit status {status}, and the runner ended with {stream.end}"


def _other_nodes(
    stream: Stream, results: Mapping[str, NodeResult], wanted: Sequence[str], controls: frozenset[str]
) -> tuple[RunStatus, str] | None:
    missing = [node for node in wanted if node not in results]
    if missing and not stream.collect_errors and not stream.collect_skips:
        return RunStatus.NODE_SET_MISMATCH, f"{missing[0]} was not run"
    asked = set(wanted)
    strange = [node for node in stream.selected if node not in asked and _last(node) not in controls]
    return (RunStatus.NODE_SET_MISMATCH, f"{strange[0]} was run and not asked for") if strange else None


def _machine(stream: Stream, results: Mapping[str, NodeResult], expected: Expected) -> tuple[RunStatus, str] | None:
    """A file or a node that was asked for by name could not be run for want of disk, descriptors or memory."""
    for path, failure in stream.collect_errors.items():
        if classify.of_the_machine(failure):
            return RunStatus.ENVIRONMENT, f"{path or 'the suite'} could not be loaded: {failure.message[:200]}"
    for node in expected.nodes or ():
        result = results.get(node)
        if result is not None and result.outcome is Outcome.ENVIRONMENT:
            because = result.failure.message[:200] if result.failure else ""
            return RunStatus.ENVIRONMENT, f"{node} could not be run on this machine: {because}"
    return None


def _skipped_files(stream: Stream, wanted: Iterable[str]) -> dict[str, NodeResult]:
    """The wanted nodes of files (or classes) that were skipped as a whole while they were collected."""
    return {
        node: NodeResult(node, Outcome.SKIPPED)
        for node in wanted
        if any(_lies_in(node, path) for path in stream.collect_skips)
    }


def _lies_in(node: str, path: str) -> bool:
    """Whether a node is of the collector `path`: `path::name` or below a folder; `module.Class.name` likewise."""
    if node.startswith((f"{path}::", f"{path.removesuffix('__init__.py').rstrip('/')}/")):
        return True
    module = path.removesuffix(".py").replace("/", ".")
    parts = node.split(".")
    heads = [".".join(parts[:count]) for count in range(1, len(parts))]
    return "::" not in node and any(module == head or module.endswith(f".{head}") for head in heads)


def _last(node: str) -> str:
    """The last part of a node id in either form (`path::Class::name`, `module.Class.name`)."""
    return re.split(r"::|\.", node)[-1]


def _only(results: Mapping[str, NodeResult], wanted: Sequence[str]) -> dict[str, NodeResult]:
    return {n: results[n] for n in wanted if n in results}


def _results(stream: Stream) -> dict[str, NodeResult]:
    """One result a node id; an id that was collected more than once takes its worst outcome."""
    results: dict[str, NodeResult] = {}
    for item, phases in stream.phases.items():
        node = next(iter(phases.values())).node
        if any(phase.node != node for phase in phases.values()):
            raise Contradiction(f"{node} has an outcome under another name")
        before = results.get(node)
        if before is None or before.outcome is Outcome.PASSED:
            results[node] = _node_result(node, phases, stream.parts.get(item, []))
    return results


def _node_result(node: str, phases: Mapping[str, Phase], parts: Sequence[Part]) -> NodeResult:
    """The first phase that did not pass decides. Within the call, the first sub-test that failed does, then one that
    was skipped: what was skipped has not passed."""
    seconds = sum(phase.seconds for phase in phases.values())
    for name in PHASES:
        phase = phases.get(name)
        if phase is None:
            continue
        failed = next((part for part in parts if part.outcome == "failed" and not part.xfail), None)
        if name == "call" and failed is not None and not phase.xfail:
            return NodeResult(node, classify.outcome_of(failed.failure, name), failed.failure, seconds)
        outcome = _phase_outcome(phase)
        if outcome is not Outcome.PASSED:
            return NodeResult(node, outcome, phase.failure, seconds)
        other = next((part for part in parts if part.outcome == "skipped"), None)
        if name == "call" and other is not None:
            return NodeResult(node, Outcome.XFAILED if other.xfail else Outcome.SKIPPED, other.failure, seconds)
    return NodeResult(node, Outcome.PASSED if "call" in phases else Outcome.CRASHED, None, seconds)


def _phase_outcome(phase: Phase) -> Outcome:
    if phase.not_awaited:
        return Outcome.NOT_AWAITED
    if phase.xfail:
        return Outcome.XPASSED if phase.outcome == "passed" else Outcome.XFAILED
    if phase.outcome == "skipped":
        return Outcome.SKIPPED
    if phase.outcome == "passed":
        return Outcome.PASSED
    if phase.failure is None and phase.name == "call" and not phase.raw_failed:
        return Outcome.XPASSED  # nothing was raised and it is a failure all the same: expected to fail, strictly
    return classify.outcome_of(phase.failure, phase.part)
