"""The admission rules as a table (`rules.yaml`): how strictly each is held, and what docs and tests are made from."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

import yaml

from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.outcome import Finding
from execcritic_scaffold.qualification import Refusal

Level = Literal["hard", "warn", "off"]


@dataclass(frozen=True)
class Rule:
    """One row. `rule` is its place in HARNESS 2; `fails` and `passes` are examples (text of a file, or files)."""

    code: str
    rule: str
    says: str
    agent: Level = "hard"
    person: Level = "hard"
    fixed: bool = False
    next: str = ""
    fails: Any = None
    passes: Any = None

    def level(self, author: str) -> Level:
        return self.agent if author == "agent" else self.person


@functools.cache
def document() -> Mapping[str, Any]:
    """The whole YAML: `rules`, and the `repository`, `issue` and `plain` example that the examples are run on."""
    text = resources.files("execcritic_scaffold").joinpath("rules.yaml").read_text("utf-8")
    # libyaml's parser where there is one: the other takes 50 ms of every command.
    loaded: Mapping[str, Any] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return loaded


@functools.cache
def table() -> Mapping[str, Rule]:
    """Every rule by its code, in the order of HARNESS 2."""
    return {code: Rule(code=code, **row) for code, row in document()["rules"].items()}


def check(levels: Iterable[str]) -> None:
    """Raises UsageError for a code that does not exist or that cannot be switched."""
    for code in levels:
        rule = table().get(code)
        if rule is None:
            raise UsageError(f"There is no admission rule {code}; docs/harness.md lists them.")
        if rule.fixed:
            raise UsageError(f"The admission rule {code} cannot be switched: {rule.says} Leave it out of `rules`.")


class Strictness:
    """How strictly each rule is held for one author, with the user's own levels on top."""

    def __init__(self, author: str, levels: Mapping[str, Level]) -> None:
        self._author = author
        self._levels = levels

    def of(self, code: str) -> Level:
        rule = table().get(code)
        return self._levels.get(code) or (rule.level(self._author) if rule else "hard")

    def settle(self, problem: Refusal) -> Refusal | Finding | None:
        """A problem as the level has it: the refusal itself, a finding, or nothing."""
        level = self.of(problem.code)
        if level == "hard":
            return problem
        return Finding(problem.code, problem.detail, problem.path, problem.line) if level == "warn" else None

    def findings(self, found: Iterable[Finding]) -> list[Finding] | Refusal:
        """Findings as their levels have them; the first hard one as a refusal."""
        kept: list[Finding] = []
        for finding in found:
            level = self.of(finding.code)
            if level == "hard":
                where = f"{finding.path}:{finding.line}: " if finding.path and finding.line else ""
                rule = table().get(finding.code)
                return Refusal(finding.code, where + finding.detail, rule.next if rule else "")
            if level == "warn":
                kept.append(finding)
        return kept
