"""A tiny repository, a test frozen on it, and patches against it given as changed files: what every attack needs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from execcritic_scaffold.agents import Submission
from execcritic_scaffold.base import snapshot
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.files import File
from execcritic_scaffold.outcome import Verdict
from execcritic_scaffold.policy import Role
from execcritic_scaffold.qualification import Qualification
from execcritic_scaffold.qualify import qualify
from execcritic_scaffold.sandbox.protocol import Sandbox
from execcritic_scaffold.settings import QualifySettings, VerifySettings
from execcritic_scaffold.site import Site, open_site
from execcritic_scaffold.store import Store
from execcritic_scaffold.task import EnvironmentSpec
from execcritic_scaffold.verify import verify

Content = str | bytes | File | None
Files = Mapping[str, Content]

WRONG = "def add(a, b):\n    return a - b\n"
RIGHT = "def add(a, b):\n    return a + b\n"
ISSUE = "pkg.calc.add(2, 3) gives -1 and must give 5: the sign of the second number is wrong."
TEST = "from pkg.calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"
OLD = "from pkg.calc import add\n\n\ndef test_zero():\n    assert add(4, 0) == 4\n"
NODE = "tests/test_add.py::test_add"


@dataclass(frozen=True)
class Layout:
    """A Base and the test that is frozen on it. `files` come on top of (None: instead of) the usual ones."""

    files: Files = field(default_factory=dict)
    test: Files = field(default_factory=lambda: {"tests/test_add.py": TEST})
    nodes: tuple[str, ...] = (NODE,)
    runner: str | None = None
    issue: str = ISSUE

    @property
    def base(self) -> dict[str, bytes]:
        usual: Files = {"pkg/__init__.py": "", "pkg/calc.py": WRONG, "tests/test_old.py": OLD}
        merged = {**usual, **self.files}
        return {path: as_file(c).data for path, c in merged.items() if c is not None}


class Arena:
    """One Base in one sandbox. Not safe for two threads."""

    def __init__(self, folder: Path, sandbox: Sandbox, cache: Path, layout: Layout) -> None:
        self.layout = layout
        self.repo = folder / "repo"
        for path, data in layout.base.items():
            (self.repo / path).parent.mkdir(parents=True, exist_ok=True)
            (self.repo / path).write_bytes(data)
        subprocess.run(["git", "init", "-q"], cwd=self.repo, check=True)
        subprocess.run(["git", "add", "-A", "-f"], cwd=self.repo, check=True)
        identity = ["-c", "user.name=tester", "-c", "user.email=tester@invalid"]
        subprocess.run(["git", *identity, "commit", "-qm", "base"], cwd=self.repo, check=True)
        self.store = Store(folder / "store")
        self.base = snapshot(self.repo, self.store)
        environment = EnvironmentSpec(runner=layout.runner, image=image_of(sandbox))
        self.site: Site = open_site(self.base, sandbox, environment, cache=cache)
        self._bundle: FrozenBundle | None = None

    @property
    def bundle(self) -> FrozenBundle:
        """The layout's own test, qualified and frozen when first asked for."""
        if self._bundle is None:
            # Two runner starts are enough here: what is attacked is the verdict.
            quick = QualifySettings(test_seconds=60, repeats=1)
            answer = self.qualify(self.layout.test, self.layout.nodes, author="person", settings=quick)
            assert answer.bundle is not None, (answer.code, answer.detail, answer.log)
            self._bundle = answer.bundle
        return self._bundle

    def freeze(self, bundle: FrozenBundle) -> None:
        """Verify with this bundle from now on."""
        self._bundle = bundle

    def patch(self, changed: Files) -> bytes:
        """The changed files as a patch against Base."""
        files = {path: None if content is None else as_file(content) for path, content in changed.items()}
        return self.store.diff(self.base.tree, self.store.edit(self.base.tree, files))

    def qualify(
        self, changed: Files | bytes, nodes: Iterable[str], *, author: str = "agent", **more: Any
    ) -> Qualification:
        """Offer a test. An agent's gets a contract that says what the issue says."""
        patch = changed if isinstance(changed, bytes) else self.patch(changed)
        settings = more.pop("settings", QualifySettings(test_seconds=60, repeats=2))
        contract = contract_of(self.layout.issue, tuple(nodes)) if author == "agent" else None
        submission = Submission(patch, tuple(nodes), author=author, contract=contract, **more)
        return qualify(self.site, submission, self.layout.issue, settings)

    def verify(self, changed: Files | bytes, *, role: Role = "person", **settings: Any) -> Verdict:
        """The verdict on changed files, in one repeat and without the guard unless asked otherwise."""
        patch = changed if isinstance(changed, bytes) else self.patch(changed)
        chosen = VerifySettings(**{"repeats": 1, "guard": "off", "test_seconds": 60, **settings})
        return verify(self.site, self.bundle, patch, chosen, role=role)


def as_file(content: Content) -> File:
    if isinstance(content, File):
        return content
    return File(content.encode() if isinstance(content, str) else content or b"")


def image_of(sandbox: Sandbox) -> str | None:
    """The image of the docker runs; None for sandboxes that use this machine's interpreter."""
    return os.environ.get("EXECCRITIC_TEST_IMAGE") if sandbox.name == "docker" else None


def contract_of(issue: str, nodes: tuple[str, ...]) -> dict[str, Any]:
    return {
        "entrypoint": "pkg.calc.add",
        "trigger": "add(2, 3)",
        "expected_output": "5",
        "issue_evidence": [issue[:40]],
        "alternative_hypotheses": ["the arguments are swapped"],
        "non_assertions": ["other operations"],
        "test_nodes": list(nodes),
    }
