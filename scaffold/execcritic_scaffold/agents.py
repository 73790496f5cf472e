"""The seam between the loop and the agents: what the loop asks of either role, and what comes back.

Both roles are one thing to the loop: something that works in a session for at most so many turns and then says
why it stopped. History is the agent's own and is retained from one call to the next (METHOD 4). The note given to
`work` is the harness's answer to what the agent asked for last (a rejection with diagnostics, the outcome of a
check), and is delivered to the model as the result of that tool call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from execcritic_scaffold.sandbox.protocol import Session


class StopKind(StrEnum):
    """Why an agent handed control back."""

    SUBMIT_TEST = "submit_test"
    """The Test agent offers a bundle: `Stop.nodes`, `Stop.companions`, `Stop.contract`, …"""
    CHECK = "check"
    """The Repair agent asks for the frozen test to be run on its current patch."""
    SUBMIT = "submit"
    """The Repair agent ends its episode and keeps its patch; `Stop.reason` says why."""
    DISPUTE = "dispute"
    """The Repair agent says that the frozen test is wrong: `Stop.node`, `Stop.quote`, `Stop.reason`."""
    TURNS = "turns"
    """The turns allowed in this call are used up (the loop then forces a check)."""
    SECONDS = "seconds"
    TOKENS = "tokens"
    COST = "cost"
    CONTEXT = "context"
    """The model's context window is full and nothing more can be elided."""
    LOOP = "loop"
    """The agent repeats itself and did not react to the notice."""
    FORMAT = "format"
    """Too many replies in a row that hold no usable action."""
    QUIT = "quit"
    """A person ended the episode."""
    MODEL = "model"
    """The endpoint failed for good: an infrastructure failure, never the agent's; `Stop.reason` quotes it."""


@dataclass(frozen=True)
class Stop:
    """What `Agent.work` returns."""

    kind: StopKind
    reason: str = ""
    nodes: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    superseded: tuple[Mapping[str, str], ...] = ()
    contract: Mapping[str, Any] | None = None
    unseen: tuple[str, ...] = ()
    node: str = ""
    quote: str = ""


@dataclass(frozen=True)
class Usage:
    """What an agent has used so far in its episode. `cost` is in US dollars, None when a price is unknown."""

    turns: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    seconds: float = 0.0


class Agent(Protocol):
    """One role in one episode."""

    @property
    def usage(self) -> Usage:
        """What the episode has used so far."""

    def work(self, session: Session, turns: int, note: str | None = None) -> Stop:
        """Work for at most `turns` model turns. `note` answers the previous Stop (None on the first call).

        Raises nothing for what the model or its commands do; SandboxError when the session died.
        """


@dataclass(frozen=True)
class Submission:
    """A test bundle as offered: a Base-relative patch in bytes, the declared nodes, and the behavior contract.

    `author` "agent" is held to every rule; "person" (bring your own test) may also edit existing tests.
    """

    patch: bytes
    nodes: tuple[str, ...]
    companions: tuple[str, ...] = ()
    superseded: tuple[Mapping[str, str], ...] = ()
    contract: Mapping[str, Any] | None = None
    author: str = "agent"
    unseen: tuple[str, ...] = ()
    """Of `nodes`: those whose failure is never shown to the Repair agent. A patch made for the inputs it was shown
    fails them (HARNESS 6)."""
