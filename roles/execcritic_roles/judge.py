"""The judge: a model that is asked one question in a fresh conversation, whether an issue asks for what a test demands.

It sees the issue, the contract and the test; of a dispute the claim. It sees no patch and nothing of a Repair episode.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from execcritic_roles.conversation import Conversation
from execcritic_roles.limits import AgentLimits
from execcritic_roles.meter import Meter
from execcritic_roles.models.protocol import ChatModel, ContextOverflow, OutOfTime, Reply
from execcritic_roles.prompts.render import fill_all
from execcritic_roles.tools import Text, ToolInputError, ToolSet
from execcritic_scaffold.agents import Usage
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.disputes import Dispute, Ruling
from execcritic_scaffold.errors import ModelError
from execcritic_scaffold.feedback import clip

ROLE = "judge"
_LONGEST = 30_000
"""Characters of a test that are shown."""
_ATTEMPTS = 3
"""Replies until one of them has to be a ruling."""


class Rule(BaseModel):
    """Give your ruling. Call it once."""

    model_config = ConfigDict(extra="ignore")

    supported: bool = Field(description="Whether the issue asks for what the test demands.")
    quote: Text = Field(description="The words of the issue that decide it, word for word.")
    reason: Text = Field(description="Two or three sentences.")


@dataclass(frozen=True)
class Judgement:
    """A ruling with what led to it: the conversation as the model saw it, and what it used."""

    ruling: Ruling
    messages: tuple[Mapping[str, Any], ...]
    usage: Usage


def judge(model: ChatModel, issue: str, bundle: FrozenBundle, dispute: Dispute | None, seconds: float) -> Judgement:
    """Ask one question: about the disputed node, else about all reproducing nodes of the test.

    A model that fails, or does not come to a ruling within `seconds` and a few replies, gives a ruling of None.
    """
    texts = fill_all(
        "judge",
        issue=issue,
        contract=json.dumps(bundle.record.contract, indent=1, ensure_ascii=False),
        test=clip(bundle.blob(bundle.record.test_patch).decode("utf-8", "replace"), _LONGEST),
        nodes=", ".join(bundle.reproducing),
        dispute=dispute,
        problem="{problem}",
    )
    tools = ToolSet({"rule": Rule})
    meter = Meter(AgentLimits(turns=_ATTEMPTS, seconds=seconds))
    conversation = Conversation(texts["system"], texts["question"])
    ruling = Ruling(None, reason="the judge came to no ruling")
    for turn in range(_ATTEMPTS):
        started = time.monotonic()
        try:
            reply = model.complete(conversation.messages, tools.schemas, meter.seconds_left)
        except (ModelError, ContextOverflow, OutOfTime) as error:
            ruling = Ruling(None, reason=f"the judge's model failed: {error}")
            break
        meter.add_turn(reply.usage)
        meter.add_seconds(time.monotonic() - started - reply.waited)
        found = _ruling(tools, reply)
        calls = conversation.add_reply(reply, turn)
        if isinstance(found, Ruling):
            ruling = found
            break
        again = texts["again"].replace("{problem}", found)
        if not calls:
            conversation.add_user(again)
        for call in calls:
            conversation.add_result(call, again)
    return Judgement(ruling, tuple(conversation.messages), meter.usage)


def _ruling(tools: ToolSet, reply: Reply) -> Ruling | str:
    """The first ruling of a reply, else what is wrong with it."""
    problem = "it called no tool"
    for call in reply.calls:
        try:
            rule = tools.parse(call).arguments
        except ToolInputError as error:
            problem = str(error)
            continue
        assert isinstance(rule, Rule)
        return Ruling(rule.supported, rule.quote, rule.reason)
    return problem
