"""Reading a reporter's event stream: numbered JSON lines, each in exactly the form that our reporters write.

Everything in the stream was written by a process that also ran code under test, so no value is used before its type
is known. What is not in form is a Contradiction, which is an answer (TAMPERED), never an error of ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from execcritic_scaffold.outcome import Failure, Frame

PHASES = ("setup", "call", "teardown")
_OUTCOMES = ("passed", "failed", "skipped")


class Contradiction(Exception):
    """The stream contradicts itself: whoever wrote it is not (only) our reporter."""


@dataclass(frozen=True)
class Phase:
    """How one phase of an item ended. `raw_failed`: something was raised, whatever the runner made of it.
    `part`: where inside a unittest-style call it was raised, which decides instead of the phase."""

    node: str
    name: str
    outcome: str
    raw_failed: bool
    xfail: bool
    seconds: float
    failure: Failure | None
    part: str
    not_awaited: bool


@dataclass(frozen=True)
class Part:
    """A sub-test that did not pass."""

    outcome: str
    xfail: bool
    failure: Failure | None


@dataclass
class Stream:
    """What one runner said. `end` is its exit status as declared, None while it has not ended."""

    start: Mapping[str, Any] = field(default_factory=dict)
    end: int | None = None
    imports: Mapping[str, str] = field(default_factory=dict)
    """Modules of the repository's own names that came from outside the checkout: name to file."""
    collected: list[str] = field(default_factory=list)
    selected: list[str] = field(default_factory=list)
    collect_errors: dict[str, Failure] = field(default_factory=dict)
    collect_skips: dict[str, str] = field(default_factory=dict)
    executed: list[str] = field(default_factory=list)
    sockets: list[str] = field(default_factory=list)
    phases: dict[int, dict[str, Phase]] = field(default_factory=dict)
    parts: dict[int, list[Part]] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)


def read(stdout: bytes, nonce: str) -> Stream:
    """The events of one run. Raises Contradiction."""
    stream = Stream()
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
        if type(event.get("n")) is not int or event["n"] != number:
            raise Contradiction(f"event {number} of the report is numbered {str(event.get('n'))[:40]}")
        if stream.end is not None:
            raise Contradiction("the report goes on after its end")
        _take(stream, event)
    if cut_off and stream.end is not None:
        raise Contradiction("the report goes on after its end")
    return stream


def _take(stream: Stream, event: Mapping[str, Any]) -> None:
    kind = event.get("e")
    if kind == "start":
        if stream.start:
            raise Contradiction("the runner started twice in one run")
        stream.start = event
    elif kind == "collected":
        stream.collected += _texts(event, "nodes")
    elif kind == "selected":
        stream.selected += _texts(event, "nodes")
    elif kind == "collect_error":
        stream.collect_errors[_text(event, "path")] = failure_of(event.get("failure"))
    elif kind == "collect_skip":
        stream.collect_skips[_text(event, "path")] = _shown(event, "reason")
    elif kind == "begin":
        stream.begun.append(_text(event, "node"))
    elif kind == "subtest":
        part = Part(_choice(event, "outcome", _OUTCOMES), _flag(event, "xfail"), _failure(event))
        stream.parts.setdefault(_item(event), []).append(part)
    elif kind == "executed":
        stream.executed += _texts(event, "files")
    elif kind == "sockets":
        stream.sockets += [_writable(address) for address in _texts(event, "addresses")]
    elif kind == "phase":
        phase = _phase(event)
        phases = stream.phases.setdefault(_item(event), {})
        if phase.name in phases:
            raise Contradiction(f"{phase.node} has a second outcome for its {phase.name} phase")
        phases[phase.name] = phase
    elif kind == "end":
        imports = _of(event, "imports", dict)
        if not all(isinstance(path, str) for path in imports.values()):
            raise _malformed("imports")
        stream.imports, stream.end = imports, _integer(event, "exit")
    else:
        raise Contradiction(f"the report holds an event of unknown kind {str(kind)[:40]!r}")


def _phase(event: Mapping[str, Any]) -> Phase:
    name = _choice(event, "phase", PHASES)
    return Phase(
        node=_text(event, "node"),
        name=name,
        outcome=_choice(event, "outcome", _OUTCOMES),
        raw_failed=_flag(event, "raw_failed"),
        xfail=_flag(event, "xfail"),
        seconds=_number(event, "seconds"),
        failure=_failure(event),
        part=_choice(event, "part", PHASES) if "part" in event else name,
        not_awaited="not_awaited" in event and _flag(event, "not_awaited"),
    )


def _failure(event: Mapping[str, Any]) -> Failure | None:
    return failure_of(event["failure"]) if "failure" in event else None


def failure_of(record: object) -> Failure:
    """A Failure from its form in the stream. Raises Contradiction where it is not in that form."""
    if not isinstance(record, dict):
        raise _malformed("failure")
    errno, name = record.get("errno"), record.get("name")
    if not (errno is None or type(errno) is int) or not (name is None or isinstance(name, str)):
        raise _malformed("failure")
    exhausted = record.get("exhausted", False)
    if not isinstance(exhausted, bool):
        raise _malformed("failure")
    return Failure(
        exhausted=exhausted,
        mro=tuple(_writable(name) for name in _texts(record, "mro")),
        message=_shown(record, "message"),
        frames=tuple(_frame(frame) for frame in _of(record, "frames", list)),
        text=_shown(record, "text"),
        name=name and _writable(name),
        errno=errno,
    )


def _frame(record: object) -> Frame:
    if not isinstance(record, list) or len(record) != 6:
        raise _malformed("frame")
    path, line, function, inside, column, end = record
    whole = type(line) is int and all(c is None or type(c) is int for c in (column, end))
    if not (whole and isinstance(path, str) and isinstance(function, str) and isinstance(inside, bool)):
        raise _malformed("frame")
    return Frame(_writable(path), line, _writable(function), inside, column, end)


def _of(event: Mapping[str, Any], key: str, kind: type[Any]) -> Any:
    value = event.get(key)
    if type(value) is not kind:
        raise _malformed(key)
    return value


def _text(event: Mapping[str, Any], key: str) -> str:
    return str(_of(event, key, str))


def _texts(event: Mapping[str, Any], key: str) -> list[str]:
    values: list[str] = _of(event, key, list)
    if not all(isinstance(value, str) for value in values):
        raise _malformed(key)
    return values


def _shown(event: Mapping[str, Any], key: str) -> str:
    return _writable(_text(event, key))


def _writable(text: str) -> str:
    """A text for people and models: half a surrogate pair in it could not be written anywhere."""
    return text.encode("utf-8", "replace").decode()


def _flag(event: Mapping[str, Any], key: str) -> bool:
    return bool(_of(event, key, bool))


def _integer(event: Mapping[str, Any], key: str) -> int:
    return int(_of(event, key, int))


def _item(event: Mapping[str, Any]) -> int:
    number = _integer(event, "item")
    if number < 0:
        raise Contradiction("the report holds an outcome of something that was not selected")
    return number


def _number(event: Mapping[str, Any], key: str) -> float:
    value = event.get(key)
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9:  # no NaN, no infinity
        return float(value)
    raise _malformed(key)


def _choice(event: Mapping[str, Any], key: str, among: tuple[str, ...]) -> str:
    value = _text(event, key)
    if value not in among:
        raise _malformed(key)
    return value


def _malformed(key: str) -> Contradiction:
    return Contradiction(f"an event of the report has not its form ({key})")
