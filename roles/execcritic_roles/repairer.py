"""The Repair agent (METHOD 4): changes source until the hidden test passes, or stands by its patch."""

from __future__ import annotations

import threading

from execcritic_roles.agent import Approve, ToolAgent
from execcritic_roles.limits import AgentLimits
from execcritic_roles.models.protocol import ChatModel
from execcritic_roles.prompts.render import PromptContext, load
from execcritic_roles.tools import Bash, Check, Dispute, Submit, ToolSet
from execcritic_roles.trajectory import Trajectory

ROLE = "repair"


def make_repairer(
    model: ChatModel,
    *,
    prompt_context: PromptContext,
    limits: AgentLimits,
    trajectory: Trajectory,
    cancel: threading.Event | None = None,
    approve: Approve | None = None,
) -> ToolAgent:
    """A Repair agent at the start of its episode. It stops with CHECK, SUBMIT or DISPUTE, or at a limit; it is offered
    disputes where the context allows any."""
    disputes = {"dispute": Dispute} if prompt_context.disputes else {}
    tools = ToolSet({"bash": Bash, "check": Check, **disputes, "submit": Submit})
    return ToolAgent(ROLE, model, tools, load("repairer", prompt_context, limits), limits, trajectory, cancel, approve)
