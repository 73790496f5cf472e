"""What happened, as a timeline: submissions and their qualification, patches and their verdicts, disputes, ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from execcritic.report import diffs
from execcritic.report.diffs import Diff
from execcritic.report.reading import Folder
from execcritic.report.shown import cut, each, number

STEPS = 500
FEEDBACK = 8000
_ROWS = 300
_GOOD, _BAD, _OPEN = "good", "bad", "open"
_TONES = {"PASS": _GOOD, "QUALIFIED": _GOOD, "INCONCLUSIVE": _OPEN, "RESOLVED": _GOOD, "INFRASTRUCTURE": _OPEN}


@dataclass
class Step:
    """One step. `after`: seconds since the first one; `tone`: good, bad, open, or nothing."""

    who: str
    title: str
    after: float | None = None
    tone: str = ""
    text: str = ""
    said: str = ""
    nodes: Mapping[str, Any] = field(default_factory=dict)
    findings: list[Any] = field(default_factory=list)
    patch: Diff | None = None
    since: str = ""
    changes: list[tuple[str, str]] = field(default_factory=list)


def read(folder: Folder) -> list[Step]:
    """The steps that the journal tells of, at most STEPS of them."""
    steps: list[Step] = []
    last: dict[str, tuple[str, bytes | None]] = {}
    began: float | None = None
    for line, event in folder.lines("journal.jsonl"):
        step = _step(folder, event, last, f"journal.jsonl, line {line}")
        if step is None:
            continue
        if len(steps) >= STEPS:
            folder.note(f"The timeline shows the first {STEPS} steps; journal.jsonl has all.")
            break
        when = number(event.get("time"))
        began = when if began is None else began
        step.after = when - began if when is not None and began is not None else None
        steps.append(step)
    return steps


def _step(
    folder: Folder, event: Mapping[str, Any], last: dict[str, tuple[str, bytes | None]], whole: str
) -> Step | None:
    episode = event.get("episode")
    test, repair = (episode if isinstance(episode, str) else role for role in ("test", "repair"))
    named = f" ({episode})" if episode else ""
    count = event.get("number")
    match event.get("event"):
        case "run.started":
            return Step("Run", f"started: {event.get('command')}")
        case "run.broken":
            return Step("Run", "broke off", tone=_OPEN, text=cut(str(event.get("error")), FEEDBACK, whole))
        case "run.ended":
            return Step("Run", f"ended: {event.get('status')}", tone=_TONES.get(str(event.get("status")), _BAD))
        case "test.submitted":
            step = Step(f"Test agent{named}", f"submission {count}", text=", ".join(map(str, each(event.get("nodes")))))
            return _patched(step, folder, f"{test}/submissions/{count}.patch", f"submission {count}", test, last)
        case "test.rejected":
            return Step(
                f"Test agent{named}", f"submission {count} cannot be taken", tone=_BAD, text=_of(event, "detail")
            )
        case "test.qualification":
            return _judged(
                f"Harness{named}", f"submission {count}", _in(event, "qualification"), "status", "code", whole
            )
        case "test.review":
            word = "accepts" if event.get("accepted") else "refuses"
            return Step("Reviewer", f"{word} the test", text=_of(event, "reason"))
        case "test.ended":
            bundle = _in(event, "gate").get("bundle")
            title = f"test frozen as {str(bundle)[:12]}" if bundle else "no test is frozen"
            return Step(f"Harness{named}", title, tone=_GOOD if bundle else _BAD)
        case "round.started":
            name = "Round 0, before any feedback" if event.get("round") == 0 else f"revision {event.get('round')}"
            return Step(f"Repair agent{named}", f"{name}, at most {event.get('turns')} turns")
        case "check":
            step = _judged(f"Harness{named}", f"check {count}", _in(event, "verdict"), "decision", "reason", whole)
            return _patched(step, folder, f"{repair}/checks/{count}.patch", f"check {count}", repair, last)
        case "check.repeated":
            return Step(f"Harness{named}", f"the same patch as before: {event.get('decision')}")
        case "patch.refused":
            return Step(f"Harness{named}", "the workspace is no patch", tone=_BAD, text=_of(event, "detail"))
        case "dispute":
            said = cut(str(event.get("answer")), FEEDBACK, whole)
            text = f"{_of(event, 'node')}: “{_of(event, 'quote')}” {_of(event, 'reason')}"
            return Step(f"Repair agent{named}", "disputes the test", text=text, said=said)
    return None


def _judged(who: str, what: str, body: Mapping[str, Any], decision: str, reason: str, whole: str) -> Step:
    first, why = str(body.get(decision)), str(body.get(reason))
    title = f"{what}: {first}" + (f" {why}" if why not in (first, "None", "") else "")
    said = str(body.get("feedback") or body.get("next_action") or "")
    return Step(
        who,
        title,
        tone=_TONES.get(first, _BAD),
        text=str(body.get("detail") or ""),
        said=cut(said, FEEDBACK, whole),
        nodes=_in(body, "nodes"),
        findings=each(body.get("findings")),
    )


def _patched(
    step: Step, folder: Folder, file: str, name: str, episode: str, last: dict[str, tuple[str, bytes | None]]
) -> Step:
    data = folder.data(file, diffs.PATCH_BYTES, needed=True)
    step.patch = diffs.read(data, file, _ROWS)
    if episode in last:
        before, earlier = last[episode]
        step.since, step.changes = before, diffs.changes(earlier, data)
    last[episode] = (name, data)
    return step


def _in(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = body.get(key)
    return found if isinstance(found, Mapping) else {}


def _of(body: Mapping[str, Any], key: str) -> str:
    found = body.get(key)
    return "" if found is None else str(found)
