"""Filling the prompts. Numbers come from the configuration, never from the prose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined, Template
from pydantic import BaseModel, ConfigDict, Field

from execcritic_roles.limits import AgentLimits


class PromptContext(BaseModel):
    """What the templates of both roles take."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    issue: str
    workdir: str
    """Where the checkout lies in the sandbox."""
    runner: str = "pytest"
    """Short name of the test runner in use."""
    run_hint: str = ""
    """A command line that runs one test here, where it is known."""
    node_example: str = ""
    """A node id in the runner's form, from this repository if possible."""
    brief: str = ""
    """The repository brief: layout, likely files, neighbours to imitate. Empty: none."""
    submissions: int = Field(ge=1)
    """Test bundles the Test agent may offer (METHOD 3)."""
    revisions: int = Field(ge=0)
    """Revision rounds after a failed check (METHOD 4)."""
    revision_turns: int = Field(ge=1)
    """Turns in each of them."""
    first_turns: int = Field(ge=1)
    """Turns of Round 0."""
    feedback_chars: int = Field(ge=1)
    """Characters of feedback after a check or a rejection."""
    disputes: int = Field(default=0, ge=0)
    """Disputes of the Repair agent that are ruled on; 0: it is offered none."""


@dataclass(frozen=True)
class Prompt:
    """The texts of one episode."""

    system: str
    opening: str
    _notices: Mapping[str, Template]

    def notices(self, name: str, /, **values: Any) -> str:
        """One of the short messages of notices.yaml."""
        return self._notices[name].render(values).strip()


def load(style: str, context: PromptContext, limits: AgentLimits) -> Prompt:
    """The prompts of `prompts/<style>.yaml`, filled. A variable that does not exist is an error, never a blank."""
    values = {**context.model_dump(), "limits": limits.model_dump(), "issue_tag": _tag(context.issue)}
    templates = _templates(style)
    return Prompt(
        templates["system"].render(values).strip(), templates["opening"].render(values).strip(), _templates("notices")
    )


def fill(name: str, key: str, **values: Any) -> str:
    """One text of `prompts/<name>.yaml`, filled."""
    return _templates(name)[key].render(values).strip()


def _tag(issue: str) -> str:
    """A name for the element around the issue that the issue's own text cannot close."""
    return f"issue-{sha256(issue.encode()).hexdigest()[:8]}" if "</issue" in issue.lower() else "issue"


def fill_all(style: str, **values: Any) -> dict[str, str]:
    """All texts of `prompts/<style>.yaml`, filled. A variable that does not exist is an error, never a blank."""
    return {name: template.render(values).strip() for name, template in _templates(style).items()}


@cache
def _templates(name: str) -> Mapping[str, Template]:
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)
    environment.filters["s"] = lambda count: "" if count == 1 else "s"
    texts = yaml.safe_load((files("execcritic_roles.prompts") / f"{name}.yaml").read_text("utf-8"))
    return {key: environment.from_string(text) for key, text in texts.items()}
