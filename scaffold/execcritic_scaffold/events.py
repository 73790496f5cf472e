"""From a reporter's event stream and the exit status the supervisor waited for to a RunReport (HARNESS 1).

Everything in the stream was written by a process that also ran code under test, so each thing is cross-checked:
numbers without a gap, one outcome an item and phase, the node set that was asked for, both canaries, the exit
status against what was declared and against what the outcomes imply. What does not fit is not believed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from execcritic_scaffold import classify
from execcritic_scaffold.outcome import Failure, Frame, NodeResult, Outcome, RunReport, RunStatus
from execcritic_scaffold.sandbox.protocol import Completed


@dataclass(frozen=True)
class Expected:
    """What a run was asked to do, for the cross-check. `nodes` None: every node of the files."""

    nonce: str
    nodes: tuple[str, ...] | None
    canary_pass: str | None
    canary_fail: str | None


class Contradiction(Exception):
    """The stream contradicts itself: whoever wrote it is not (only) our reporter."""


@dataclass
class _Stream:
    start: dict[str, Any] = field(default_factory=dict)
    end: dict[str, Any] | None = None
    collected: list[str] = field(default_factory=list)
    selected: list[str] | None = None
    collect_errors: dict[str, Failure] = field(default_factory=dict)
    collect_skips: dict[str, str] = field(default_factory=dict)
    executed: list[str] = field(default_factory=list)
    phases: dict[int, dict[str, dict[str, Any]]] = field(default_factory=dict)
    subtests: dict[int, Failure] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)


def interpret(done: Completed, stdout: bytes, exit_code: int | None, expected: Expected) -> RunReport:
    """The report of one run. Never raises for what the run did."""
    try:
        stream = _read(stdout, expected.nonce)
        status, detail, results = _judge(stream, done, exit_code, expected)
    except Contradiction as error:
        stream, status, detail, results = _Stream(), RunStatus.TAMPERED, str(error), {}
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        detail = f"an event of the report has not its form ({type(error).__name__}: {error})"
        stream, status, results = _Stream(), RunStatus.TAMPERED, {}
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
        unenforced=done.unenforced,
    )


def _read(stdout: bytes, nonce: str) -> _Stream:
    stream = _Stream()
    lines = stdout.split(b"\n")
    cut_off = lines.pop()
    if cut_off and not lines:
        raise Contradiction("the report channel holds something that is no report")
    for number, line in enumerate(lines):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            raise Contradiction(f"line {number + 1} of the report channel is no event") from None
        if not isinstance(event, dict) or event.get("nonce") != nonce:
            raise Contradiction("the report channel holds an event of another run")
        if event.get("n") != number:
            raise Contradiction(f"event {number} of the report is numbered {event.get('n')}")
        if stream.end is not None:
            raise Contradiction("the report goes on after its end")
        _take(stream, event)
    if cut_off and stream.end is not None:
        raise Contradiction("the report goes on after its end")
    return stream


def _take(stream: _Stream, event: dict[str, Any]) -> None:
    kind = event.get("e")
    if kind == "start":
        if stream.start:
            raise Contradiction("the runner started twice in one run")
        stream.start = event
    elif kind == "collected":
        stream.collected += event["nodes"]
    elif kind == "selected":
        stream.selected = (stream.selected or []) + event["nodes"]
    elif kind == "collect_error":
        stream.collect_errors[event["path"]] = failure_of(event["failure"])
    elif kind == "collect_skip":
        stream.collect_skips[event["path"]] = event["reason"]
    elif kind == "begin":
        stream.begun.append(event["node"])
    elif kind == "subtest":
        stream.subtests.setdefault(event["item"], failure_of(event["failure"]))
    elif kind == "executed":
        stream.executed += event["files"]
    elif kind == "phase":
        phases = stream.phases.setdefault(event["item"], {})
        if event["item"] < 0 or event["phase"] in phases:
            raise Contradiction(f"{event['node']} has a second outcome for its {event['phase']} phase")
        phases[event["phase"]] = event
    elif kind == "end":
        if not isinstance(event["exit"], int) or not all(isinstance(p, str) for p in event["imports"].values()):
            raise Contradiction("the end of the report has not its form")
        stream.end = event
    else:
        raise Contradiction(f"the report holds an event of unknown kind {kind!r}")


def _judge(
    stream: _Stream, done: Completed, exit_code: int | None, expected: Expected
) -> tuple[RunStatus, str, dict[str, NodeResult]]:
    results = _results(stream)
    wanted = expected.nodes if expected.nodes is not None else tuple(stream.collected)
    canaries = {n for n in (expected.canary_pass, expected.canary_fail) if n}
    broken = _stopped(stream, done, exit_code)
    if broken:
        status, detail, last = broken
        if last is not None and stream.begun and not _finished(stream):
            node = stream.begun[-1]
            results[node] = NodeResult(node, last)
        return status, detail, _only(results, wanted)
    assert stream.end is not None
    if stream.end["exit"] != exit_code:
        return (
            RunStatus.REPORT_EXIT_MISMATCH,
            f"the runner said it would exit with {stream.end['exit']}, the process exited with {exit_code}",
            _only(results, wanted),
        )
    if stream.end["exit"] == 3 and stream.begun and _tail(stream.begun[-1]) in canaries:
        return RunStatus.TAMPERED, "the runner broke down over a control test", _only(results, wanted)
    if stream.end["exit"] not in (0, 1, 5):
        status = RunStatus.RUNNER_USAGE if stream.end["exit"] == 4 else RunStatus.CRASHED
        return status, f"the runner stopped with exit status {stream.end['exit']}", _only(results, wanted)
    rewritten = [r["node"] for p in stream.phases.values() for r in p.values() if _rewritten(r)]
    if rewritten:
        raise Contradiction(f"{rewritten[0]} failed and was reported as passed")
    problem = _set_problem(stream, results, wanted, canaries, expected)
    return (*problem, _only(results, wanted)) if problem else (RunStatus.VALID, "", _only(results, wanted))


def _stopped(stream: _Stream, done: Completed, exit_code: int | None) -> tuple[RunStatus, str, Outcome | None] | None:
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


def _finished(stream: _Stream) -> bool:
    """Whether the node that began last has an outcome."""
    last = stream.begun[-1]
    return any(r["node"] == last for p in stream.phases.values() for r in p.values())


def _rewritten(record: Mapping[str, Any]) -> bool:
    return bool(record["raw_failed"] and record["outcome"] == "passed" and not record["xfail"])


def _set_problem(
    stream: _Stream,
    results: Mapping[str, NodeResult],
    wanted: Sequence[str],
    canaries: set[str],
    expected: Expected,
) -> tuple[RunStatus, str] | None:
    selected = stream.selected or []
    tails = {_last(n): n for n in selected}
    ran = [n for n in selected if _last(n) not in canaries]
    if canaries and ran:
        for name, outcome in ((expected.canary_pass, Outcome.PASSED), (expected.canary_fail, Outcome.FAILED_ASSERT)):
            got = results.get(tails.get(name or "", ""))
            if got is None or got.outcome is not outcome:
                seen = got.outcome if got else "nothing"
                return RunStatus.TAMPERED, f"a control test that must be {outcome} was reported as {seen}"
        if stream.end and stream.end["exit"] != 1:
            return RunStatus.TAMPERED, "a control test failed and the runner did not exit with 1"
    missing = [n for n in wanted if n not in results]
    strange = [n for n in ran if n not in set(wanted)]
    if missing and not stream.collect_errors and not stream.collect_skips:
        return RunStatus.NODE_SET_MISMATCH, f"{missing[0]} was not run"
    if strange:
        return RunStatus.NODE_SET_MISMATCH, f"{strange[0]} was run and not asked for"
    return None


def _last(node: str) -> str:
    """The last part of a node id of either form: `path::Class::name` or `module.Class.name`."""
    return node.rsplit("::", 1)[-1].rsplit(".", 1)[-1]


def _tail(node: str) -> str:
    """The last part of a node id in either form (`path::Class::name`, `module.Class.name`)."""
    return re.split(r"::|\.", node)[-1]


def _only(results: Mapping[str, NodeResult], wanted: Sequence[str]) -> dict[str, NodeResult]:
    return {n: results[n] for n in wanted if n in results}


def _results(stream: _Stream) -> dict[str, NodeResult]:
    """One result a node id; an id that was collected more than once takes its worst outcome."""
    results: dict[str, NodeResult] = {}
    for item, phases in stream.phases.items():
        node = next(iter(phases.values()))["node"]
        result = _node_result(node, phases, stream.subtests.get(item))
        before = results.get(node)
        if before is None or before.outcome is Outcome.PASSED:
            results[node] = result
    return results


def _node_result(node: str, phases: Mapping[str, Mapping[str, Any]], subtest: Failure | None) -> NodeResult:
    """The first phase that did not pass decides; within the call, the first sub-test that failed does."""
    seconds = sum(p["seconds"] for p in phases.values())
    for phase in ("setup", "call", "teardown"):
        record = phases.get(phase)
        if record is None:
            continue
        if phase == "call" and subtest is not None and not record["xfail"]:
            return NodeResult(node, classify.outcome_of(subtest, phase), subtest, seconds)
        failure = failure_of(record["failure"]) if record.get("failure") else None
        outcome = _phase_outcome(phase, record, failure)
        if outcome is not Outcome.PASSED:
            return NodeResult(node, outcome, failure, seconds)
    if "call" not in phases:
        return NodeResult(node, Outcome.CRASHED, None, seconds)
    return NodeResult(node, Outcome.PASSED, None, seconds)


def _phase_outcome(phase: str, record: Mapping[str, Any], failure: Failure | None) -> Outcome:
    if record.get("not_awaited"):
        return Outcome.NOT_AWAITED
    if record["xfail"]:
        return Outcome.XPASSED if record["outcome"] == "passed" else Outcome.XFAILED
    if record["outcome"] == "skipped":
        return Outcome.SKIPPED
    if record["outcome"] == "passed":
        return Outcome.PASSED
    if failure is None and phase == "call" and not record["raw_failed"]:
        return Outcome.XPASSED  # nothing was raised and it is a failure all the same: expected to fail, strictly
    return classify.outcome_of(failure, record.get("part", phase))


def failure_of(record: Mapping[str, Any]) -> Failure:
    """A Failure from its form in the stream."""
    frames = tuple(Frame(str(f[0]), int(f[1]), str(f[2]), bool(f[3]), f[4], f[5]) for f in record["frames"])
    return Failure(tuple(record["mro"]), record["message"], frames, record["text"], record["name"])
