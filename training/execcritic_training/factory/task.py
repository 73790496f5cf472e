"""From a broken mutant to a task: what is hidden, what the issue says, which candidates there are, and is it so?"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from enum import StrEnum

from execcritic_scaffold.execute import RunRequest, execute
from execcritic_scaffold.files import File
from execcritic_scaffold.outcome import Outcome
from execcritic_scaffold.settings import HarnessSettings
from execcritic_training.factory import issue
from execcritic_training.factory.hide import hidden
from execcritic_training.factory.issue import Writer
from execcritic_training.factory.operators import REWRITES
from execcritic_training.factory.row import Candidate, Task
from execcritic_training.factory.screen import Fate, Screened
from execcritic_training.factory.suite import Suite, Target

MOST_GUARDED = 400
MOST_CANDIDATES = 4
"""Of each label: eight in all (METHOD 5)."""


class Dropped(StrEnum):
    """Why a mutant that breaks tests makes no task."""

    NOT_HIDDEN = "its tests cannot be taken out of their files"
    ISSUE = "no issue can be written from what failed"
    ONE_SIDED = "no right or no wrong candidate"
    TWIN = "the source has a copy of the file"
    BASE = "Base does not fail in the same way in a workspace of its own"
    VISIBLE = "the tests that are left do not pass on Base"


def candidates(bug: Screened, partial: Sequence[Screened], others: Sequence[Screened]) -> tuple[Candidate, ...]:
    """Labelled patches: partial fixes first, then those whose change lies nearest; at most four of a label."""
    near = sorted(others, key=lambda one: abs(one.mutant.line - bug.mutant.line))
    found: list[Candidate] = []
    for one in [*partial, *near]:
        label = one.fate is Fate.SURVIVES
        if one.fate not in (Fate.SURVIVES, Fate.BROKEN, Fate.MANY, Fate.SETUP) or one.mutant.data == bug.mutant.data:
            continue
        kind = "partial" if one in partial else "rewrite" if one.mutant.family in REWRITES else "mutant"
        if sum(c.label is label for c in found) < MOST_CANDIDATES:
            found.append(Candidate(f"{kind}: {one.mutant.family}", one.mutant.data, label))
    return tuple(found)


def build(
    suite: Suite, target: Target, split: str, seed: int, bug: Screened, partial: Sequence[Screened],
    others: Sequence[Screened], writer: Writer, settings: HarnessSettings,
) -> Task | Dropped:  # fmt: skip
    """The task of a mutant that breaks tests, or why there is none. Raises SandboxError."""
    original = suite.site.entries[target.path]
    if sum(entry.oid == original.oid for entry in suite.site.entries.values()) > 1:
        return Dropped.TWIN
    files = suite.files(tuple(bug.failing))
    left: dict[str, bytes] = {}
    for path in files:
        rest = hidden(suite.texts[path], [node for node in bug.failing if node.split("::")[0] == path])
        if rest is None:
            return Dropped.NOT_HIDDEN
        left[path] = rest
    labelled = candidates(bug, partial, others)
    if len({one.label for one in labelled}) < 2:
        return Dropped.ONE_SIDED
    secret = issue.secrets(bug.failing, _lines_of_the_fix(bug.mutant.data, suite.texts[target.path]))
    text = issue.write(bug.failing, suite.texts, secret, writer)
    if text is None:
        return Dropped.ISSUE
    gone = {node.split("[")[0] for node in bug.failing}
    beside = [node for node in suite.seconds if node.split("::")[0] in left]
    guarded = tuple(dict.fromkeys(n for n in (*target.nodes, *beside) if n not in bug.failing))[:MOST_GUARDED]
    changes = {path: File(data, suite.site.entries[path].mode) if data else None for path, data in left.items()}
    task = Task(target, split, seed, bug.mutant, changes, tuple(bug.failing), guarded, text, labelled)
    if not _fails_as_said(suite, task, settings):
        return Dropped.BASE
    visible = [node for node in beside if node.split("[")[0] not in gone and left[node.split("::")[0]]]
    return task if _passes(suite, task, visible, settings) else Dropped.VISIBLE


def _fails_as_said(suite: Suite, task: Task, settings: HarnessSettings) -> bool:
    """Base with the hidden tests, in a workspace of its own: exactly those fail, by their behaviour."""
    nodes = (*task.fail_to_pass, *task.pass_to_pass)
    report = execute(suite.site, _bug(suite, task), frozenset(), RunRequest(suite.files(nodes), nodes), settings)
    return (
        report.valid
        and all(report.outcome(node).behavioural for node in task.fail_to_pass)
        and all(report.outcome(node) is Outcome.PASSED for node in task.pass_to_pass)
    )


def _passes(suite: Suite, task: Task, visible: Sequence[str], settings: HarnessSettings) -> bool:
    """Base as an agent gets it: its test files are whole, and what passed before passes."""
    files = tuple(path for path, file in task.hidden.items() if file is not None)
    if not files:
        return True
    changes = {**_bug(suite, task), **task.hidden}
    report = execute(suite.site, changes, frozenset(), RunRequest(files), settings)
    collected = report.valid and not report.collect_errors
    return collected and all(report.outcome(node) is Outcome.PASSED for node in visible)


def _bug(suite: Suite, task: Task) -> Mapping[str, File]:
    return {task.target.path: File(task.bug.data, suite.site.entries[task.target.path].mode)}


def _lines_of_the_fix(broken: bytes, original: bytes) -> list[bytes]:
    before, after = broken.splitlines(), original.splitlines()
    blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [line for tag, _, _, first, last in blocks if tag != "equal" for line in after[first:last]]
