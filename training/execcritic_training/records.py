"""Trajectory records: one episode a line of JSON, everything that data selection, rewards and trainers need of it.

A record says what the policy was asked and answered, turn by turn, with the token ids and log-probabilities that the
endpoint sampled (never ids from tokenising text again), what came of it (`artifacts`), what the judge found out
(`evidence`) and how the episode ended (`outcome`). Rewards are not in it: they are functions of the evidence. Records
of text-only teachers have no ids; `require_tokens` refuses those where ids are needed. `recordfile` reads and writes
files of them; docs/training-records.md describes the format.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from execcritic_scaffold.errors import UsageError
from execcritic_training.evidence import RepairEvidence, TestEvidence

SCHEMA: Literal["execcritic.traj/1"] = "execcritic.traj/1"
"""Name and version of the format; it changes whenever an older reader would misread a record."""

Role = Literal["test", "repair"]
Status = Literal["completed", "truncated", "op_error", "aborted"]
TokenId = Annotated[int, Field(strict=True, ge=0)]
ROUNDING = 1e-3
"""How far above zero a log-probability may lie by rounding."""
LogProb = Annotated[float, Field(strict=True, allow_inf_nan=False, le=ROUNDING)]


Message = dict[Any, Any]
"""As the provider gave it. Keys are not checked as text: JSON can carry lone surrogates, pydantic refuses them."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Task(_Model):
    """What was worked on: the instance, the tree of its Base, and the part of the data it belongs to."""

    instance_id: str = Field(min_length=1)
    base: str = Field(min_length=1)
    split: Literal["train", "validation", "test"] | None = None


class Policy(_Model):
    """The model that was asked; `version` counts the weights it had when the episode began."""

    model: str = Field(min_length=1)
    version: int = Field(ge=0)
    adapter: str | None = None


class Sampling(_Model):
    """How replies were sampled; None: left to the server."""

    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    stop: list[str] = Field(default_factory=list)


class Tokens(_Model):
    """The tokens of one turn. The prompt is the first `keep` ids of the previous turn's prompt and output, then
    `prompt`; `output` are the sampled ids, the stop token among them, with the log-probability of each.

    `mask` says which of them are trained, None: all of them.
    """

    keep: int = Field(ge=0)
    prompt: list[TokenId]
    output: list[TokenId] = Field(min_length=1)
    logprobs: list[LogProb]
    mask: list[bool] | None = None

    @model_validator(mode="after")
    def _same_lengths(self) -> Tokens:
        # A shorter list must never be filled up: with zeros the ratio of a policy gradient would be wrong in silence.
        if len(self.logprobs) != len(self.output):
            raise ValueError(f"{len(self.logprobs)} log-probabilities for {len(self.output)} sampled tokens")
        if self.mask is not None and len(self.mask) != len(self.output):
            raise ValueError(f"a mask of {len(self.mask)} for {len(self.output)} sampled tokens")
        return self


class Observation(_Model):
    """How a command ended that the reply asked for; its output is in the messages of the next turn. Seconds."""

    tool_call_id: str | None = None
    exit_code: int | None = None
    timed_out: bool = False
    seconds: float | None = None


class Turn(_Model):
    """One request and its reply. The conversation is the first `keep` messages of the previous turn's conversation
    (its request and `reply`), then `messages`."""

    keep: int = Field(ge=0)
    messages: list[Message]
    reply: Message
    finish: str | None = None
    policy_version: int | None = Field(default=None, ge=0)
    tokens: Tokens | None = None
    untrainable: str | None = None
    """Why there are no tokens, where they were asked for."""
    usage: dict[str, Any] = Field(default_factory=dict)
    observations: list[Observation] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Turn:
        if self.tokens is not None and self.untrainable is not None:
            raise ValueError("tokens and a reason for having none")
        return self


class Artifact(_Model):
    """Bytes that the episode made, in base64: `fix.patch`, `test.patch`."""

    name: str
    sha256: str
    data: str

    @staticmethod
    def of(name: str, content: bytes) -> Artifact:
        return Artifact(
            name=name, sha256=hashlib.sha256(content).hexdigest(), data=base64.b64encode(content).decode("ascii")
        )

    @property
    def content(self) -> bytes:
        return base64.b64decode(self.data)

    @model_validator(mode="after")
    def _whole(self) -> Artifact:
        if hashlib.sha256(base64.b64decode(self.data, validate=True)).hexdigest() != self.sha256:
            raise ValueError(f"the bytes of {self.name} are not those its hash names")
        return self


class Artifacts(_Model):
    """What came of the episode: the id of the bundle that was frozen, and files."""

    bundle: str | None = None
    files: list[Artifact] = Field(default_factory=list)


class Outcome(_Model):
    """How the episode ended. Only `completed` is an answer of the policy.

    truncated: a limit ended it (turns, seconds, tokens, cost, context, or the last reply was cut off). op_error: the
    machine or the endpoint failed. aborted: it was interrupted. All but `completed` have a reason.
    """

    status: Status
    reason: str | None = None

    @model_validator(mode="after")
    def _says_why(self) -> Outcome:
        if self.status != "completed" and not self.reason:
            raise ValueError(f"{self.status} without a reason")
        return self


class Record(_Model):
    """One episode."""

    schema_name: Literal["execcritic.traj/1"] = Field(default=SCHEMA, alias="schema")
    id: str = Field(min_length=1)
    role: Role
    task: Task
    frozen: str | None = None
    """The id of the frozen bundle that the episode was given, for the Repair role."""
    group: str
    policy: Policy
    sampling: Sampling
    tools: list[dict[str, Any]]
    template: str | None = None
    """SHA-256 of the chat template that the endpoint rendered with, as `template_hash` gives it."""
    turns: list[Turn]
    artifacts: Artifacts = Field(default_factory=Artifacts)
    evidence: TestEvidence | RepairEvidence | None = None
    """None: not judged yet."""
    outcome: Outcome

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @model_validator(mode="after")
    def _consistent(self) -> Record:
        if self.role == "test" and self.frozen is not None:
            raise ValueError("a Test episode is given no frozen bundle; what it made belongs into artifacts.bundle")
        if self.group != group_key(self.task, self.role, self.frozen):
            raise ValueError("group is not the key of its task, role and frozen bundle")
        about = "repair" if isinstance(self.evidence, RepairEvidence) else "test"
        if self.evidence is not None and about != self.role:
            raise ValueError(f"evidence about a {about} episode in one of the role {self.role}")
        messages, tokens = 0, 0
        for number, turn in enumerate(self.turns):
            if turn.keep > messages:
                raise ValueError(f"turn {number} keeps {turn.keep} of {messages} messages")
            messages = turn.keep + len(turn.messages) + 1
            if turn.tokens is None:
                tokens = 0
                continue
            if turn.tokens.keep > tokens:
                raise ValueError(f"turn {number} keeps {turn.tokens.keep} of {tokens} tokens")
            prompt = turn.tokens.keep + len(turn.tokens.prompt)
            if prompt == 0:
                raise ValueError(f"turn {number} has an empty prompt")
            tokens = prompt + len(turn.tokens.output)
        return self

    def to_json(self) -> dict[str, Any]:
        """As JSON values. A message may hold lone surrogates, so it is `json` that writes and reads them."""
        return self.model_dump(mode="python", by_alias=True)

    def prompts(self) -> Iterator[list[int] | None]:
        """The whole prompt of each turn in ids, None for a turn without."""
        held: list[int] = []
        for turn in self.turns:
            if turn.tokens is None:
                held = []
                yield None
                continue
            prompt = held[: turn.tokens.keep] + turn.tokens.prompt
            yield prompt
            held = prompt + turn.tokens.output

    def conversation(self) -> list[Message]:
        """All messages as they stand after the last turn."""
        messages: list[Message] = []
        for turn in self.turns:
            messages = [*messages[: turn.keep], *turn.messages, turn.reply]
        return messages


def group_key(task: Task, role: Role, frozen: str | None) -> str:
    """Rollouts are compared within equal keys only: the same task, role and frozen bundle. SHA-256, hex."""
    return _digest([task.instance_id, task.base, role, frozen])


def template_hash(template: str) -> str:
    """SHA-256 (hex) of a chat template's text."""
    return hashlib.sha256(template.encode()).hexdigest()


def require_tokens(record: Record) -> None:
    """Refuse what reinforcement learning cannot use: a record with a turn without ids and log-probabilities, or without
    a turn. Raises UsageError, which names the episode."""
    for number, turn in enumerate(record.turns):
        if turn.tokens is None:
            why = turn.untrainable or "none were recorded"
            raise UsageError(
                f"episode {record.id}, turn {number} has no token ids and log-probabilities ({why}); collect it "
                "through the recording proxy from an endpoint that returns them."
            )
    if not record.turns:
        raise UsageError(f"episode {record.id} has no turn; leave it out.")


def require_template(record: Record, template: str) -> None:
    """Refuse a record that was rendered with another chat template than the one of this hash. Raises UsageError."""
    if record.template != template:
        raise UsageError(
            f"episode {record.id} was rendered with the chat template {_short(record.template)}, not "
            f"{_short(template)}; collect it again with the template that is trained."
        )


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()


def _short(digest: str | None) -> str:
    return digest[:12] if digest else "of an unknown hash"
