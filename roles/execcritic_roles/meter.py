"""What an episode has used, and which limit it has reached."""

from __future__ import annotations

from dataclasses import replace

from execcritic_roles.limits import AgentLimits
from execcritic_roles.models.protocol import TokenUsage
from execcritic_scaffold.agents import Stop, StopKind, Usage


class Meter:
    """Adds up a whole episode, over all calls of `work`."""

    def __init__(self, limits: AgentLimits) -> None:
        self._limits = limits
        self.usage = Usage()

    def add_turn(self, tokens: TokenUsage) -> None:
        """One reply. Once a cost is unknown the sum stays unknown: half a sum would pass for the whole."""
        used = self.usage
        self.usage = replace(
            used,
            turns=used.turns + 1,
            input_tokens=used.input_tokens + tokens.input_tokens,
            cached_tokens=used.cached_tokens + tokens.cached_tokens,
            output_tokens=used.output_tokens + tokens.output_tokens,
            cost=None if used.cost is None or tokens.cost is None else used.cost + tokens.cost,
        )

    def add_seconds(self, seconds: float) -> None:
        """Working time: thinking and acting, without waits for a broken endpoint."""
        self.usage = replace(self.usage, seconds=self.usage.seconds + seconds)

    @property
    def seconds_left(self) -> float:
        """At least 1, so that what is started under it can do something."""
        return max(1.0, self._limits.seconds - self.usage.seconds)

    @property
    def turns_left(self) -> int:
        return max(0, self._limits.turns - self.usage.turns)

    def over(self) -> Stop | None:
        """The limit reached, turns apart."""
        used, limits = self.usage, self._limits
        tokens = used.input_tokens + used.output_tokens
        if used.seconds >= limits.seconds:
            return Stop(StopKind.SECONDS, f"{used.seconds:.0f} of {limits.seconds:g} s used")
        if limits.tokens is not None and tokens >= limits.tokens:
            return Stop(StopKind.TOKENS, f"{tokens} of {limits.tokens} tokens used")
        if limits.cost is not None and used.cost is not None and used.cost >= limits.cost:
            return Stop(StopKind.COST, f"{used.cost:.2f} of {limits.cost:.2f} US dollars used")
        return None
