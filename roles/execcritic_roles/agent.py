"""The turn loop of either role: ask the model, carry out what it called, answer every call, keep within the limits."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from execcritic_roles.context import Context
from execcritic_roles.conversation import Conversation
from execcritic_roles.limits import AgentLimits
from execcritic_roles.meter import Meter
from execcritic_roles.models.protocol import ChatModel, ContextOverflow, OutOfTime, Quit, Reply, ToolCall
from execcritic_roles.observation import Origin, render
from execcritic_roles.prompts.render import Prompt
from execcritic_roles.repetition import RepetitionDetector, Signal, is_wait
from execcritic_roles.tools import Action, Bash, ToolInputError, ToolSet, stop_of
from execcritic_roles.trajectory import Trajectory
from execcritic_scaffold.agents import Stop, StopKind, Usage
from execcritic_scaffold.errors import Interrupted, ModelError
from execcritic_scaffold.sandbox.protocol import Session
from execcritic_scaffold.wording import count

_COUNTDOWN = frozenset({10, 3, 1})  # turns left at which the model is told so

Approve = Callable[[str, float], str | None]
"""Asked about a command and its time limit in seconds: None lets it run, a text says why not. Raises Quit."""


@dataclass(frozen=True)
class _Result:
    """The answer to one call; for a command also where it came from, and what the record says of it."""

    call: ToolCall
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin | None = None
    waiting: bool = False


@dataclass
class _Turn:
    """One reply being worked off: what each call was answered, and the terminal action, if there is one."""

    results: list[_Result] = field(default_factory=list)
    terminal: Action | None = None
    usable: bool = False


class ToolAgent:
    """`execcritic_scaffold.agents.Agent` over a chat model. Setting `cancel` makes `work` raise Interrupted.

    `work` raises SandboxError when the session died; what the model or its commands do is never an exception.
    """

    def __init__(
        self,
        role: str,
        model: ChatModel,
        tools: ToolSet,
        prompt: Prompt,
        limits: AgentLimits,
        trajectory: Trajectory,
        cancel: threading.Event | None = None,
        approve: Approve | None = None,
    ) -> None:
        self._approve = approve
        self._meter = Meter(limits)
        self._role, self._model, self._tools, self._limits = role, model, tools, limits
        self._say, self._trajectory, self._cancel = prompt.notices, trajectory, cancel
        self._conversation = Conversation(prompt.system, prompt.opening)
        self._context = Context(self._conversation, limits, self._record)
        self._repetition = RepetitionDetector(limits.repeats)
        self._bad_replies = 0
        self._pending: tuple[Action, str] | None = None
        """The terminal action whose answer is the next note, and the outcomes of the calls before it."""
        self._record(
            "start", model=model.name, limits=limits.model_dump(), tools=[dict(schema) for schema in tools.schemas]
        )

    @property
    def usage(self) -> Usage:
        """What the episode has used so far."""
        return self._meter.usage

    def work(self, session: Session, turns: int, note: str | None = None) -> Stop:
        """See `Agent.work`."""
        stop = self._deliver(note) or self._turns(session, turns)
        self._record("stop", kind=stop.kind.value, reason=stop.reason, usage=asdict(self.usage))
        return stop

    def _turns(self, session: Session, turns: int) -> Stop:
        for left in range(min(turns, self._meter.turns_left), 0, -1):
            if stop := self._over_limit():
                return stop
            try:
                stop = self._turn(session, left - 1)
            except Quit as error:
                stop = Stop(StopKind.QUIT, str(error))
            if stop:
                return stop
        return self._over_limit() or Stop(StopKind.TURNS, f"{count(self.usage.turns, 'turn')} used")

    def _deliver(self, note: str | None) -> Stop | None:
        """The harness's answer, as the result of the call that asked for it, else as a user message."""
        if self._pending is None:
            if note is not None:
                self._conversation.add_user(note)
            return None
        (action, before), self._pending = self._pending, None
        text = note if note is not None else self._say("received")
        signal = self._repetition.push(f"{action.call.name} {action.call.arguments}", f"{before}\n{text}")
        if signal is Signal.NOTICE:
            text = f"{text}\n\n{self._say('repetition')}"
        self._conversation.add_result(action.call, text)
        self._flush()
        return self._loop_stop() if signal is Signal.STOP else None

    def _turn(self, session: Session, left: int) -> Stop | None:
        self._flush()
        for attempt in itertools.count():
            started = time.monotonic()
            try:
                reply = self._model.complete(self._conversation.messages, self._tools.schemas, self._meter.seconds_left)
            except ModelError as error:  # the endpoint's time, not the agent's
                return Stop(StopKind.MODEL, str(error))
            except ContextOverflow as error:
                self._record("overflow", reason=str(error))
                if not self.usage.turns:
                    step = "lower model.max_output_tokens, or serve the model with a larger context"
                    return Stop(StopKind.MODEL, f"{error}; not even the task fits: {step}.")
                if not self._context.refused(self.usage.turns, attempt):
                    return Stop(StopKind.CONTEXT, str(error))
            except OutOfTime as error:
                self._meter.add_seconds(time.monotonic() - started)
                return Stop(StopKind.SECONDS, str(error))
            else:
                break
        seconds = time.monotonic() - started - reply.waited
        self._meter.add_seconds(seconds)
        return self._carry_out(session, reply, left, seconds)

    def _carry_out(self, session: Session, reply: Reply, left: int, seconds: float) -> Stop | None:
        self._meter.add_turn(reply.usage)
        self._context.learn(self._conversation.chars, reply.usage)
        calls = self._conversation.add_reply(reply, self.usage.turns)
        sent = self._conversation.take()[-1]
        self._record(
            "reply",
            message=dict(reply.message),
            **({} if sent == reply.message else {"history": sent}),
            **({"correction": reply.correction} if reply.correction else {}),
            finish_reason=reply.finish_reason,
            usage=asdict(reply.usage),
            model=reply.model,
            seconds=round(seconds, 3),
            waited=round(reply.waited, 3),
        )
        if not calls:
            return self._no_action(reply, left)
        turn = self._cut_off(calls) if reply.finish_reason == "length" else self._act(session, calls)
        self._bad_replies = 0 if turn.usable else self._bad_replies + 1
        outcomes = "\n".join(result.text for result in turn.results)
        signal = Signal.NONE
        if turn.terminal is None and not all(result.waiting for result in turn.results):
            signal = self._repetition.push("\n".join(f"{c.name} {c.arguments}" for c in calls), outcomes)
        notices = self._notices(signal, left)
        for index, result in enumerate(turn.results, 1):
            last = index == len(turn.results) and turn.terminal is None
            text = "\n\n".join([result.text, *notices]) if last else result.text
            self._conversation.add_result(result.call, text, self.usage.turns, result.origin)
            self._flush(result.details)
        if turn.terminal is not None:
            self._pending = (turn.terminal, outcomes)
            return stop_of(turn.terminal)
        return self._loop_stop() if signal is Signal.STOP else self._format_stop()

    def _no_action(self, reply: Reply, left: int) -> Stop | None:
        """Prose, an empty reply, or thinking without an action."""
        self._bad_replies += 1
        signal = self._repetition.push("", str(reply.message.get("content")))
        if reply.finish_reason == "length":
            say = self._say("cut_off", tools=self._names())
        else:
            say = reply.correction or self._say("no_action", tools=self._names())
        self._conversation.add_user("\n\n".join([say, *self._notices(signal, left)]))
        return self._loop_stop() if signal is Signal.STOP else self._format_stop()

    def _cut_off(self, calls: Sequence[ToolCall]) -> _Turn:
        """A reply that ended at the token limit: a call in it may be a fragment that happens to parse, so none runs."""
        return _Turn([_Result(call, self._say("cut_off", tools=self._names())) for call in calls])

    def _act(self, session: Session, calls: Sequence[ToolCall]) -> _Turn:
        parsed: list[Action | ToolInputError] = []
        for call in calls:
            try:
                parsed.append(self._tools.parse(call))
            except ToolInputError as error:
                parsed.append(error)
        several = sum(isinstance(p, Action) and p.terminal for p in parsed) > 1
        turn = _Turn()
        for call, action in zip(calls, parsed, strict=True):
            if isinstance(action, ToolInputError):
                turn.results.append(_Result(call, str(action)))
            elif turn.terminal is not None:
                turn.results.append(_Result(call, self._say("after_terminal", name=turn.terminal.call.name)))
            elif action.terminal and several:
                turn.results.append(_Result(call, self._say("several_terminal")))
            elif action.terminal:
                turn.terminal, turn.usable = action, True
            else:
                turn.results.append(self._bash(session, action))
                turn.usable = True
        return turn

    def _bash(self, session: Session, action: Action) -> _Result:
        assert isinstance(action.arguments, Bash)
        self._check_cancelled()
        limits, command = self._limits, action.arguments.command
        wanted = min(action.arguments.timeout or limits.action_seconds, limits.action_seconds_max)
        seconds = max(1.0, min(wanted, self._meter.seconds_left))
        if self._approve is not None and (reason := self._approve(command, seconds)) is not None:
            return _Result(action.call, self._say("declined", reason=reason), {"declined": True})
        # Four bytes a character at most: what the session drops could not have been shown anyway.
        started = time.monotonic()
        result = session.act(command, seconds, output=4 * limits.output_chars, spool=limits.output_chars)
        self._meter.add_seconds(time.monotonic() - started)
        spooled = result.spooled
        if spooled is not None:
            self._context.forget(spooled.removed)
        details = {
            "exit_code": result.exit_code,
            "timed_out": result.timed_out,
            "seconds": round(result.seconds, 3),
            "bytes": len(result.output) + result.dropped,
            "left_behind": result.left_behind,
            "spooled": None if spooled is None else {k: v for k, v in asdict(spooled).items() if k != "removed"},
        }
        text = render(result, limits.output_chars, seconds, command)
        origin = Origin(command, result.exit_code, spooled)
        waiting = is_wait(command, result.running, result.left_behind)
        return _Result(action.call, text, details, origin, waiting)

    def _notices(self, signal: Signal, left: int) -> list[str]:
        notices = [self._say("repetition")] if signal is Signal.NOTICE else []
        return [*notices, self._say("turns_left", turns=left)] if left in _COUNTDOWN else notices

    def _over_limit(self) -> Stop | None:
        self._check_cancelled()
        return self._meter.over() or self._context.make_room(self.usage.turns)

    def _loop_stop(self) -> Stop:
        return Stop(StopKind.LOOP, "the same actions with the same outcomes again and again")

    def _format_stop(self) -> Stop | None:
        if self._bad_replies < self._limits.format_errors:
            return None
        bad, self._bad_replies = self._bad_replies, 0  # the loop may resume the episode with a note
        return Stop(StopKind.FORMAT, f"{count(bad, 'reply', 'replies')} in a row without a usable action")

    def _check_cancelled(self) -> None:
        if self._cancel is not None and self._cancel.is_set():
            raise Interrupted("Interrupted; start again with --resume to go on.")

    def _names(self) -> str:
        return ", ".join(schema["function"]["name"] for schema in self._tools.schemas)

    def _flush(self, action: Mapping[str, Any] | None = None) -> None:
        """Record what was added to the conversation since the last time."""
        for message in self._conversation.take():
            self._record("message", message=message, **({"action": action} if action else {}))

    def _record(self, event: str, **fields: Any) -> None:
        self._trajectory.append(event, role_name=self._role, turn=self.usage.turns, **fields)
