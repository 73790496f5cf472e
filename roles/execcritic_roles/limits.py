"""The limits of one agent's episode, as plain configuration. The numbers of METHOD 3 and 4 are the application's."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class AgentLimits(BaseModel):
    """Bounds that hold over a whole episode, and how much of a command's output a model sees.

    None means "no limit of ours". A limit on cost cannot hold where the price of the model is unknown; the
    others still do.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    turns: int = Field(ge=1)
    """Model replies in the whole episode; each call of `work` has its own, smaller limit."""
    seconds: float = Field(gt=0)
    """Working time. Time spent waiting for an endpoint to recover (429, 5xx) does not count."""
    tokens: int | None = Field(default=None, ge=1)
    """Input (cached ones included) and output tokens, summed over all turns."""
    cost: float | None = Field(default=None, gt=0)
    """US dollars."""
    context_chars: int | None = Field(default=None, ge=1)
    """Characters of conversation; a bound for endpoints that truncate silently instead of refusing."""
    context_tokens: int | None = Field(default=None, ge=1)
    """Tokens of conversation: the model's window less what a reply may take. Near this limit, or the one above, old
    outputs of commands are elided. None: only after the endpoint has refused a conversation for its length."""
    output_chars: int = Field(default=10_000, ge=200)
    """Characters of one command's output that reach the model: head and tail. The rest is in a file in the sandbox."""
    action_seconds: float = Field(default=120.0, gt=0)
    """Time limit of a command that asks for none."""
    action_seconds_max: float = Field(default=600.0, gt=0)
    """The most a command may ask for."""
    format_errors: int = Field(default=5, ge=1)
    """Replies in a row without a usable action before the episode stops."""
    repeats: int = Field(default=3, ge=2)
    """Repetitions of the same actions with the same outcomes before the notice; 2n-1 of them stop the episode."""
