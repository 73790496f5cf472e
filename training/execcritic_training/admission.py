"""Which Test episodes become supervised training data, and which not and why (METHOD 6).

Admitted is what froze a test: a valid bundle with a clean Base failure. That the test also passes on Gold is not asked
for; gold is read for leaks alone. Of what is admitted nothing is cut: an episode is taken whole or dropped.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from execcritic.batch.instance import Gold, Instance
from execcritic_scaffold.errors import PatchError, UsageError
from execcritic_training import candidates, conversation, episode
from execcritic_training.conversation import Conversation
from execcritic_training.leaks import LeakCheck

SCHEMA = "execcritic.sft/1"


class AdmissionSettings(BaseModel):
    """The numbers of admission."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    per_instance: int = Field(default=4, ge=1)
    characters: int = Field(default=160_000, ge=1)
    """Length of a conversation at most; METHOD's 48,000 tokens hold about as many."""
    validation: float = Field(default=0.05, ge=0, lt=1)
    """Share of repositories whose episodes are held out."""
    seed: int = 0


@dataclass(frozen=True)
class Found:
    """A run of an instance."""

    instance: str
    run: Path


@dataclass
class Report:
    """What became of every run; `dropped` counts reasons, `runs` says each run's."""

    admitted: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    splits: Counter[str] = field(default_factory=Counter)
    runs: dict[str, str] = field(default_factory=dict)

    def drop(self, found: Found, reason: str, detail: str = "") -> None:
        self.dropped[reason] += 1
        self.runs[str(found.run)] = f"{reason}: {detail}" if detail else reason

    @property
    def body(self) -> dict[str, Any]:
        return {
            "admitted": self.admitted,
            "dropped": dict(sorted(self.dropped.items())),
            "splits": dict(sorted(self.splits.items())),
            "runs": self.runs,
        }


@dataclass(frozen=True)
class _Kept:
    found: Found
    order: str
    test: str
    text: str


def admit(
    runs: Iterable[Found],
    instances: Mapping[str, Instance],
    gold: Callable[[str], Gold],
    settings: AdmissionSettings,
    report: Report,
) -> Iterator[dict[str, Any]]:
    """The admitted conversations, one object each, by instance; `report` is filled on the way.

    Every run is read twice, so that one conversation at a time is in memory. Of equal ones, by their test or by their
    text, and of more than `per_instance`, those are kept whose hash is lowest: none for being short or early.
    """
    kept: dict[str, list[_Kept]] = {}
    checks: dict[str, LeakCheck] = {}
    for found in runs:
        if found.instance not in instances:
            report.drop(found, "unknown instance")
            continue
        if found.instance not in checks:
            checks[found.instance] = LeakCheck(gold(found.instance), instances[found.instance].problem)
        if (one := _examined(found, checks[found.instance], settings, report)) is not None:
            kept.setdefault(found.instance, []).append(one)
    texts: set[str] = set()
    for name in sorted(kept):
        repo = instances[name].repo or name
        split = split_of(repo, settings)
        for one in _chosen(kept[name], texts, settings, report):
            report.admitted += 1
            report.splits[split] += 1
            report.runs[str(one.found.run)] = "admitted"
            talk = conversation.read(one.found.run / "test" / "trajectory.jsonl")
            yield {
                "schema": SCHEMA,
                "role": "test",
                "instance_id": name,
                "repo": repo,
                "split": split,
                "turns": talk.replies,
                "messages": talk.messages,
                "tools": talk.tools,
            }


def split_of(repo: str, settings: AdmissionSettings) -> str:
    """`train` or `validation`: all of a repository is on one side, whatever else is in the data."""
    number = int.from_bytes(hashlib.sha256(f"{settings.seed}\0{repo.casefold()}".encode()).digest()[:8], "big")
    return "validation" if number < settings.validation * 2**64 else "train"


def _examined(found: Found, leaks: LeakCheck, settings: AdmissionSettings, report: Report) -> _Kept | None:
    try:
        ended = episode.read(found.run, "test")
        if ended.bundle is None:
            report.drop(found, "not judged" if ended.operational else "no clean Base failure", ended.operational or "")
            return None
        talk = conversation.read(found.run / "test" / "trajectory.jsonl")
        test = candidates.digest((ended.bundle / "test.patch").read_bytes())
    except (UsageError, PatchError, OSError, KeyError, TypeError) as error:
        report.drop(found, "damaged", str(error))
        return None
    if not talk.replies:
        report.drop(found, "no reply")
    elif talk.elided:
        report.drop(found, "outputs were elided")
    elif talk.characters > settings.characters:
        report.drop(found, "too long", f"{talk.characters} characters")
    elif leak := leaks.find(text for message in talk.messages for text in conversation.texts(message)):
        report.drop(found, "leak", leak)
    else:
        text = _digest(talk)
        order = hashlib.sha256(f"{settings.seed}\0{text}".encode()).hexdigest()
        return _Kept(found, order, test, text)
    return None


def _chosen(kept: list[_Kept], texts: set[str], settings: AdmissionSettings, report: Report) -> Iterator[_Kept]:
    tests: set[str] = set()
    for one in sorted(kept, key=lambda k: (k.order, str(k.found.run))):
        if one.text in texts or one.test in tests:
            report.drop(one.found, "double")
        elif len(tests) == settings.per_instance:
            report.drop(one.found, "instance has enough")
        else:
            texts.add(one.text)
            tests.add(one.test)
            yield one


def _digest(talk: Conversation) -> str:
    """Of what the model said; call ids differ from run to run and say nothing."""
    said = [
        {"content": m.get("content"), "calls": [c.get("function") for c in m.get("tool_calls") or ()]}
        for m in talk.messages
        if m.get("role") == "assistant"
    ]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
