"""The Test agent (METHOD 3): turns an issue into a regression test that fails on Base."""

from __future__ import annotations

import threading

from execcritic_roles.agent import Approve, ToolAgent
from execcritic_roles.limits import AgentLimits
from execcritic_roles.models.protocol import ChatModel
from execcritic_roles.prompts.render import PromptContext, load
from execcritic_roles.tools import Bash, SubmitTest, ToolSet
from execcritic_roles.trajectory import Trajectory

ROLE = "test"


def make_tester(
    model: ChatModel,
    *,
    prompt_context: PromptContext,
    limits: AgentLimits,
    trajectory: Trajectory,
    cancel: threading.Event | None = None,
    approve: Approve | None = None,
) -> ToolAgent:
    """A Test agent at the start of its episode. It stops with SUBMIT_TEST, or at a limit."""
    tools = ToolSet({"bash": Bash, "submit_test": SubmitTest})
    return ToolAgent(ROLE, model, tools, load("tester", prompt_context, limits), limits, trajectory, cancel, approve)
