"""From a run directory of ours, and what the proxy captured of its session, to a record.

The conversation of each turn is what the endpoint got (the capture) or, for a text-only teacher without one, what the
trajectory says. The trajectory is the judge of which replies there were: an answer that the agent had given up on, or
that an interrupted attempt got, is in the capture and in no turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from execcritic_roles.trajectory import read
from execcritic_scaffold.agents import StopKind
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.errors import UsageError
from execcritic_training.capture import Chain, Exchange, read_capture
from execcritic_training.evidence import RepairEvidence, TestEvidence
from execcritic_training.records import (
    Artifact,
    Artifacts,
    Observation,
    Outcome,
    Policy,
    Record,
    Role,
    Sampling,
    Task,
    Tokens,
    Turn,
    group_key,
)

_LIMITS = {StopKind.TURNS, StopKind.SECONDS, StopKind.TOKENS, StopKind.COST, StopKind.CONTEXT}


@dataclass(frozen=True)
class About:
    """What no run directory knows: the instance and its part of the data, the policy, the hash of the chat template,
    and what the judge found."""

    instance_id: str
    policy: Policy
    split: Literal["train", "validation", "test"] | None = None
    template: str | None = None
    evidence: TestEvidence | RepairEvidence | None = None


def to_record(
    run: Path,
    role: Role,
    about: About,
    capture: Path | None = None,
    *,
    episode: str | None = None,
    id: str | None = None,
) -> Record:
    """The record of one episode; `episode` names one of several ("repair-2"). `id` None: the run's name and the role.

    Raises UsageError where the run has no such episode, and where the capture is not that of the episode.
    """
    name = episode or role
    trajectory = run / name / "trajectory.jsonl"
    try:
        manifest = json.loads((run / "manifest.json").read_bytes())
        lines = list(read(trajectory))
        events = [event for event in _events(run / "journal.jsonl") if event.get("episode") == episode]
    except OSError as error:
        raise UsageError(
            f"{run} holds no episode {name} ({error.strerror}); name a run and one of its roles."
        ) from None
    if not lines or lines[0].get("event") != "start":
        raise UsageError(f"{trajectory} does not begin with a start; name a run of this version.")
    if capture is None:
        exchanges = list(_told(lines))
    else:
        text = manifest["config"]["model"]["protocol"] == "text"
        exchanges = list(_matched(lines, capture, text))
    task = Task(instance_id=about.instance_id, base=manifest["base"]["tree"], split=about.split)
    bundle = _bundle(run, manifest, events)
    frozen = bundle if role == "repair" else None
    first = exchanges[0].request if exchanges else {}
    return Record(
        id=id or f"{run.resolve().name}/{name}",
        role=role,
        task=task,
        frozen=frozen,
        group=group_key(task, role, frozen),
        policy=about.policy,
        sampling=_sampling(first if capture else _configured(manifest["config"]["model"])),
        tools=(first.get("tools") or []) if capture else lines[0]["tools"],
        template=about.template,
        turns=_turns(exchanges, list(_observations(lines))),
        artifacts=_artifacts(run, role, episode, bundle),
        evidence=about.evidence,
        outcome=_outcome(role, lines, events),
    )


def _turns(exchanges: Iterable[Exchange], observations: list[list[Observation]]) -> list[Turn]:
    chain, turns = Chain(), []
    for exchange, seen in zip(exchanges, observations, strict=True):
        packed = chain.pack(exchange)
        tokens = packed.get("tokens")
        turns.append(
            Turn(
                keep=packed["keep"],
                messages=packed["messages"],
                reply=dict(exchange.reply),
                finish=_plain(exchange.finish),
                policy_version=exchange.policy_version,
                tokens=Tokens(**tokens) if tokens else None,
                untrainable=exchange.untrainable,
                usage=exchange.usage if isinstance(exchange.usage, dict) else {},
                observations=seen,
            )
        )
    return turns


def _matched(lines: Iterable[Mapping[str, Any]], capture: Path, text: bool) -> Iterator[Exchange]:
    """The exchange of each reply of a trajectory, in order; those that the agent did not take are passed over."""
    ignored = {"tool_calls"} if text else set()  # the text protocol makes a call out of the text
    exchanges = read_capture(capture)
    for number, line in enumerate(line for line in lines if line["event"] == "reply"):
        said = {name: value for name, value in line["message"].items() if name not in ignored}
        for exchange in exchanges:
            if {name: value for name, value in exchange.reply.items() if name not in ignored} == said:
                yield exchange
                break
        else:
            raise UsageError(
                f"{capture} does not hold reply {number} of the episode; name the capture of its own session."
            )


def _events(journal: Path) -> Iterator[dict[str, Any]]:
    """The journal without lines that a crash tore, which may stand in its middle when a run was resumed."""
    for line in journal.read_bytes().split(b"\n"):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def _told(lines: Iterable[Mapping[str, Any]]) -> Iterator[Exchange]:
    """The exchanges as a trajectory tells them: without ids, and as the agent saw them."""
    messages: list[Any] = []
    for line in lines:
        if line["event"] == "message":
            messages = [*messages, line["message"]]
        elif line["event"] == "elision":
            messages = list(messages)
            for change in line["elided"]:
                messages[change["index"]] = {**messages[change["index"]], "content": change["content"]}
        elif line["event"] == "reply":
            yield Exchange(
                messages, {}, line["message"], line["finish_reason"], line["usage"], line["model"], None, None, None
            )
            messages = [*messages, line.get("history") or line["message"]]


def _observations(lines: Iterable[Mapping[str, Any]]) -> Iterator[list[Observation]]:
    """For each reply, how the commands ended that it asked for."""
    seen: list[Observation] | None = None
    for line in lines:
        if line["event"] == "reply":
            if seen is not None:
                yield seen
            seen = []
        elif line["event"] == "message" and seen is not None and (action := line.get("action")):
            seen.append(
                Observation(
                    tool_call_id=_plain(line["message"].get("tool_call_id")),
                    exit_code=action.get("exit_code"),
                    timed_out=bool(action.get("timed_out")),
                    seconds=action.get("seconds"),
                )
            )
    if seen is not None:
        yield seen


def _configured(model: Mapping[str, Any]) -> dict[str, Any]:
    sent = {"temperature": model.get("temperature"), "max_tokens": model.get("max_output_tokens")}
    return {**sent, **(model.get("extra") or {})}


def _sampling(request: Mapping[str, Any]) -> Sampling:
    most, stop = request.get("max_completion_tokens"), request.get("stop") or []
    return Sampling(
        temperature=request.get("temperature"),
        top_p=request.get("top_p"),
        seed=request.get("seed"),
        max_tokens=request.get("max_tokens") if most is None else most,
        stop=[stop] if isinstance(stop, str) else stop,
    )


def _bundle(run: Path, manifest: Mapping[str, Any], events: Iterable[Mapping[str, Any]]) -> str | None:
    """The id of the frozen test that the run made or was given."""
    gates = [event["gate"]["bundle"] for event in events if event.get("event") == "test.ended"]
    if gates and gates[-1]:
        return str(gates[-1])
    given = manifest["request"].get("bundle")
    return FrozenBundle.load(Path(given)).id if given else None


def _artifacts(run: Path, role: Role, episode: str | None, bundle: str | None) -> Artifacts:
    name = "test.patch" if role == "test" else "fix.patch"
    path = run / episode / name if episode else run / name
    files = [Artifact.of(name, path.read_bytes())] if path.is_file() else []
    return Artifacts(bundle=bundle if role == "test" else None, files=files)


def _outcome(role: Role, lines: list[dict[str, Any]], events: list[dict[str, Any]]) -> Outcome:
    ended = [event for event in events if event.get("event") == f"{role}.ended"]
    stops = [line for line in lines if line["event"] == "stop"]
    if not ended or not stops:
        return Outcome(status="aborted", reason="the run was interrupted")
    stop, end = stops[-1], ended[-1].get("gate") or ended[-1]
    kind, reason = StopKind(stop["kind"]), _plain(f"{stop['kind']}: {stop['reason']}".removesuffix(": "))
    if end.get("error") or kind is StopKind.MODEL:
        return Outcome(status="op_error", reason=_plain(end.get("error")) or reason)
    if role == "test" and (end.get("last") or {}).get("status") == "INCONCLUSIVE":
        return Outcome(status="op_error", reason="the last submission could not be judged")
    if kind is StopKind.QUIT:
        return Outcome(status="aborted", reason=reason)
    replies = [line for line in lines if line["event"] == "reply"]
    cut = bool(replies) and replies[-1].get("finish_reason") == "length"
    forced = role == "repair" and kind is StopKind.TURNS and bool(end.get("checks"))
    if (kind in _LIMITS and not forced) or cut:
        return Outcome(status="truncated", reason=reason)
    return Outcome(status="completed")


def _plain(value: Any) -> str | None:
    """A text that others wrote, without lone surrogates."""
    return None if value is None else str(value).encode("utf-8", "replace").decode()
