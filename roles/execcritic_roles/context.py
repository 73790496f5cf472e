"""Keeping a conversation within the model's window by eliding old outputs of commands.

Rarely and in big steps: every elision changes the prefix that servers cache, so it begins near the limit and then goes
well below it. System prompt, issue, everything the model wrote, the answers of the harness and the newest turns stay.
The window is the configured one, or else what the server's own refusal taught.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from execcritic_roles.conversation import Conversation
from execcritic_roles.limits import AgentLimits
from execcritic_roles.models.protocol import TokenUsage
from execcritic_scaffold.agents import Stop, StopKind

HIGH, LOW, STEP = 0.9, 0.6, 0.1
"""Shares of the limit: where eliding begins, how far it goes, and the least that is worth changing the prefix for."""
KEEP = 3
"""Newest turns whose outputs stay; only the last one's do where the limit could not be held otherwise."""
ATTEMPTS = 2
"""Times one request is shortened after a refusal and sent again."""
_RATE = 0.25
"""Tokens a character until the server has counted some."""


class Context:
    """The budget of one conversation. `record` gets each elision as an event: its name and its data."""

    def __init__(self, conversation: Conversation, limits: AgentLimits, record: Callable[..., None]) -> None:
        self._conversation, self._limits, self._record = conversation, limits, record
        self._rate = _RATE
        self._refused: float | None = None
        """Tokens of the shortest conversation that the server refused."""
        self._gone: set[str] = set()

    def learn(self, sent: int, usage: TokenUsage) -> None:
        """Take note of what `sent` characters came to in tokens."""
        if usage.input_tokens > 0 and sent > 0:
            self._rate = usage.input_tokens / sent

    def forget(self, paths: Iterable[str]) -> None:
        """These files of earlier outputs are no longer there to be read again."""
        self._gone.update(paths)

    def make_room(self, turn: int) -> Stop | None:
        """Elide before the next request of turn `turn` where it is time; a Stop where a configured limit cannot be
        held."""
        limit = self._limit()
        if limit is None or self._conversation.chars < HIGH * limit:
            return None
        self._elide(turn - KEEP, LOW * limit, STEP * limit, "budget")
        configured = self._configured()
        if configured is None or self._conversation.chars < configured:
            return None
        self._elide(turn - 1, LOW * limit, STEP * limit, "budget")
        if self._conversation.chars < configured:
            return None
        chars, tokens = self._conversation.chars, self._conversation.chars * self._rate
        return Stop(
            StopKind.CONTEXT, f"{chars} characters (about {tokens:.0f} tokens) of conversation, and no more to elide"
        )

    def refused(self, turn: int, attempt: int) -> bool:
        """The server said that the conversation is too long. True when it is shorter now and worth another request."""
        size = self._conversation.chars
        self._refused = min(size * self._rate, self._refused or float("inf"))
        return attempt < ATTEMPTS and self._elide(turn - (1 if attempt else KEEP), LOW * size, 1, "overflow")

    def _elide(self, before: int, goal: float, least: float, reason: str) -> bool:
        size = self._conversation.chars
        elided = self._conversation.elide(before, goal, least, self._gone)
        if elided:
            self._record("elision", reason=reason, before=size, after=self._conversation.chars, elided=elided)
        return bool(elided)

    def _configured(self) -> float | None:
        """The configured limit in characters."""
        chars, tokens = self._limits.context_chars, self._limits.context_tokens
        return min((float(chars) if chars else None, tokens / self._rate if tokens else None), key=_size)

    def _limit(self) -> float | None:
        return min((self._configured(), self._refused / self._rate if self._refused else None), key=_size)


def _size(limit: float | None) -> float:
    return float("inf") if limit is None else limit
