"""Small repositories, opened in a real sandbox and asked for real verdicts: what the harness's tests have in common.

`Lab.site` makes a git checkout from a dict of files and opens it once a session; `patch_of` is a Base-relative diff;
`offer` and `judge` are `qualify` and `verify` with the settings that most tests want.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from execcritic_scaffold.agents import Submission
from execcritic_scaffold.base import snapshot
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.files import File
from execcritic_scaffold.outcome import Verdict
from execcritic_scaffold.policy import Role
from execcritic_scaffold.qualification import Qualification
from execcritic_scaffold.qualify import qualify
from execcritic_scaffold.sandbox.protocol import Sandbox
from execcritic_scaffold.sandbox.registry import get
from execcritic_scaffold.settings import QualifySettings, VerifySettings
from execcritic_scaffold.site import Site, open_site
from execcritic_scaffold.store import Store
from execcritic_scaffold.task import EnvironmentSpec
from execcritic_scaffold.verify import verify

Files = Mapping[str, str | bytes | File | None]
"""Path to text, bytes, or a File with its mode; None deletes."""

IDENTITY = ("-c", "user.name=tester", "-c", "user.email=tester@invalid", "-c", "init.defaultBranch=main")


@dataclass
class Lab:
    """Sites of one session: the same files are opened once. `sandbox` is the isolating one where it works here."""

    folder: Path
    sandbox: Sandbox
    _sites: dict[object, Site] = field(default_factory=dict)

    def site(self, files: Files, sandbox: Sandbox | None = None, **spec: Any) -> Site:
        """Base with these files. `spec` are fields of EnvironmentSpec."""
        sandbox = sandbox or self.sandbox
        key = (sandbox.name, repr(sorted(files.items())), repr(spec))
        if key not in self._sites:
            home = self.folder / f"{len(self._sites)}"
            repo = checkout(home / "repo", files)
            base = snapshot(repo, Store(home / "store"))
            self._sites[key] = open_site(base, sandbox, EnvironmentSpec(**spec), cache=self.folder / "cache")
        return self._sites[key]


@contextmanager
def open_lab(folder: Path) -> Iterator[Lab]:
    """A lab whose caches lie below `folder`."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("EXECCRITIC_CACHE", str(folder / "cache"))
        sandbox = get("bubblewrap")
        if sandbox.probe() is not None:
            sandbox = get("local")
        yield Lab(folder, sandbox)
        sandbox.close()


def file_of(content: str | bytes | File) -> File:
    if isinstance(content, File):
        return content
    return File(content.encode() if isinstance(content, str) else content)


def checkout(folder: Path, files: Files) -> Path:
    """A git checkout with these files in one commit, made without the user's configuration."""
    for path, content in files.items():
        if content is None:
            continue
        file = file_of(content)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        if file.mode == "120000":
            (folder / path).symlink_to(os.fsdecode(file.data))
            continue
        (folder / path).write_bytes(file.data)
        (folder / path).chmod(int(file.mode[-3:], 8))
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for command in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-qm", "base", "--allow-empty"]):
        subprocess.run(["git", *IDENTITY, *command], cwd=folder, env=env, check=True, capture_output=True)
    return folder


def patch_of(site: Site, files: Files) -> bytes:
    """The diff from Base to Base with these files."""
    store, tree = site.base.store, site.base.tree
    changes = {path: None if content is None else file_of(content) for path, content in files.items()}
    return store.diff(tree, store.edit(tree, changes))


def replaced(site: Site, path: str, old: str, new: str) -> bytes:
    """The diff that replaces one text in one file of Base."""
    text = (site.read(path) or b"").decode()
    assert text.count(old) == 1, (path, old)
    return patch_of(site, {path: text.replace(old, new)})


def submission(site: Site, files: Files, *nodes: str, **more: Any) -> Submission:
    """A test offered by a person; `more` are fields of Submission."""
    return Submission(patch_of(site, files), nodes, **{"author": "person", **more})


def offer(site: Site, files: Files, *nodes: str, issue: str = "", k: int = 2, **more: Any) -> Qualification:
    """`qualify` with k runs; `more` are fields of Submission or of QualifySettings."""
    own = {name: more.pop(name) for name in list(more) if name in QualifySettings.model_fields}
    settings = QualifySettings(repeats=k, **own)
    return qualify(site, submission(site, files, *nodes, **more), issue, settings)


def frozen(site: Site, files: Files, *nodes: str, **more: Any) -> FrozenBundle:
    """The bundle of a test that is expected to qualify."""
    answer = offer(site, files, *nodes, **more)
    assert answer.bundle is not None, (answer.code, answer.detail, answer.log)
    return answer.bundle


def judge(
    site: Site,
    bundle: FrozenBundle,
    patch: bytes,
    role: Role = "person",
    previous: Verdict | None = None,
    **settings: Any,
) -> Verdict:
    """`verify`; `settings` are fields of VerifySettings."""
    return verify(site, bundle, patch, VerifySettings(**settings), role=role, previous=previous)


def codes(answer: Qualification | Verdict) -> set[str]:
    """The codes of an answer's findings."""
    return {finding.code for finding in answer.findings}
