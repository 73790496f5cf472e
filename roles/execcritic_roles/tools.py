"""The tools a role may call: what the model is told about them, and the validation of what it sends."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from execcritic_roles.models.protocol import ToolCall, ToolSchema
from execcritic_scaffold.agents import Stop, StopKind
from execcritic_scaffold.bundle import BehaviorContract

_EXCERPT = 200

Text = Annotated[str, Field(min_length=1)]


class ToolInputError(ValueError):
    """A call that cannot be carried out; the message is what the model reads."""


class Bash(BaseModel):
    """Run a bash script in the workspace and see its output (stdout and stderr together) and exit code.

    The working directory and exported variables persist from call to call; functions, aliases and shell options do
    not. Jobs in the background go on running. There is no terminal and no input: pagers, editors and prompts cannot be
    used. There is no network. Of a long output you see head and tail; all of it is in the file that is named then.
    """

    # A command with one field too many still is a clear command.
    model_config = ConfigDict(extra="ignore")

    command: Text = Field(description="The script.")
    timeout: float | None = Field(default=None, gt=0, description="Seconds until it is killed.")

    @field_validator("command")
    @classmethod
    def _no_nul(cls, command: str) -> str:
        if "\0" in command:
            raise ValueError("a command cannot hold a NUL character")
        return command


class Superseded(BaseModel):
    """An existing test that demands the behavior the issue calls wrong."""

    model_config = ConfigDict(extra="forbid")

    node: Text
    issue_quote: Text = Field(description="The sentence of the issue that contradicts it, word for word.")
    reason: Text


class SubmitTest(BaseModel):
    """Submit the tests that are now in the workspace. The harness takes the difference to the original checkout itself,
    runs the nodes there and answers with admission or with what to change. This ends your turn."""

    model_config = ConfigDict(extra="forbid")

    nodes: list[Text] = Field(min_length=1, description="Node ids that reproduce the bug: each must fail as it is now.")
    contract: BehaviorContract = Field(
        description="The behavior contract: entrypoint (public function or command), trigger (input or situation), "
        "expected_output (the weakest observable property the issue fixes), issue_evidence (word-for-word quotes), "
        "alternative_hypotheses (other readings you considered), non_assertions (what the test leaves open on "
        "purpose), test_nodes (the same ids as in nodes)."
    )
    companions: list[Text] = Field(default=[], description="Node ids of yours that pass now and must go on passing.")
    unseen: list[Text] = Field(
        default=[], description="Of nodes: those to keep from the repairing agent, with other inputs of the behavior."
    )
    superseded: list[Superseded] = Field(default=[], description="Existing tests that encode the bug; rarely needed.")


class Check(BaseModel):
    """Have the hidden regression test run against your current changes, in a fresh workspace. This ends your turn."""

    model_config = ConfigDict(extra="forbid")


class Submit(BaseModel):
    """Finish for good and hand in your current changes. This ends the episode."""

    model_config = ConfigDict(extra="forbid")

    reason: Text = Field(description="Why you are done; if you keep changes that failed the test, why it is wrong.")


class Dispute(BaseModel):
    """Say that the hidden test demands what the issue does not ask for, after a check that failed. Somebody who knows
    neither you nor your changes rules on it from the issue and the test. This ends your turn."""

    model_config = ConfigDict(extra="forbid")

    node: Text = Field(description="The failing node, as the feedback names it.")
    quote: Text = Field(description="The issue's words that the test goes against, word for word.")
    reason: Text = Field(description="What the test demands, and how these words speak against it.")


@dataclass(frozen=True)
class Action:
    """A valid call."""

    call: ToolCall
    arguments: BaseModel

    @property
    def terminal(self) -> bool:
        """True when it hands control back to the loop."""
        return not isinstance(self.arguments, Bash)


class ToolSet:
    """The tools of one role, by the name the model calls them."""

    def __init__(self, tools: Mapping[str, type[BaseModel]]) -> None:
        self._tools = tools
        self.schemas: Sequence[ToolSchema] = tuple(_schema(name, model) for name, model in tools.items())

    def parse(self, call: ToolCall) -> Action:
        """The call as an action. Raises ToolInputError."""
        model = self._tools.get(call.name)
        if model is None:
            raise ToolInputError(f"There is no tool {call.name[:60]!r}. Use one of: {', '.join(self._tools)}.")
        value = parse_object(call.arguments)
        try:
            return Action(call, model.model_validate(value, strict=True))
        except ValidationError as error:
            found = [f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}" for e in error.errors()[:5]]
            raise ToolInputError(f"{call.name} was not carried out. {'; '.join(found)}.") from None


def parse_object(arguments: str) -> dict[str, Any]:
    """The JSON object a model wrote; nothing at all counts as an empty one. Raises ToolInputError for anything else."""
    try:
        value = json.loads(arguments, parse_constant=_refuse) if arguments.strip() else {}
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:  # a UnicodeEncodeError (lone surrogate) is a ValueError too
        raise ToolInputError(f"The arguments are not valid JSON ({error}): {_excerpt(arguments)}") from None
    if not isinstance(value, dict):
        raise ToolInputError(f"The arguments must be a JSON object, not {_excerpt(arguments)}")
    return value


def stop_of(action: Action) -> Stop:
    """What a terminal action asks of the loop."""
    match action.arguments:
        case SubmitTest() as test:
            return Stop(
                StopKind.SUBMIT_TEST,
                nodes=tuple(test.nodes),
                companions=tuple(test.companions),
                superseded=tuple(s.model_dump() for s in test.superseded),
                unseen=tuple(test.unseen),
                contract=test.contract.model_dump(),
            )
        case Submit() as submit:
            return Stop(StopKind.SUBMIT, reason=submit.reason)
        case Dispute() as dispute:
            return Stop(StopKind.DISPUTE, reason=dispute.reason, node=dispute.node, quote=dispute.quote)
        case Check():
            return Stop(StopKind.CHECK)
    raise TypeError(f"{action.call.name} is not a terminal tool")


def _schema(name: str, model: type[BaseModel]) -> ToolSchema:
    schema = model.model_json_schema()
    parameters = _plain({k: v for k, v in schema.items() if k not in ("$defs", "description")}, schema.get("$defs", {}))
    description = " ".join((model.__doc__ or "").split())
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _plain(value: Any, definitions: Mapping[str, Any], names: bool = False) -> Any:
    """A schema without references and titles: not every server resolves the ones and the others are noise.

    `names`: the keys of this level are names of properties, not words of the schema language.
    """
    if isinstance(value, list):
        return [_plain(item, definitions) for item in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        value = {**definitions[value["$ref"].rpartition("/")[2]], **{k: v for k, v in value.items() if k != "$ref"}}
    return {
        key: _plain(item, definitions, names=key == "properties" and not names)
        for key, item in value.items()
        if names or key not in ("title", "additionalProperties")
    }


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _excerpt(text: str) -> str:
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}… ({len(text)} characters)"
