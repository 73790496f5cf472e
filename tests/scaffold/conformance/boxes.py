"""What the conformance tests share: a small Base, a sandbox with it prepared, a look at the machine's processes."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from execcritic_scaffold.files import EXECUTABLE, SYMLINK, Changes, Entry, File
from execcritic_scaffold.sandbox.protocol import Command, Completed, Limits, Prepared, Sandbox, Workspace

BASE: Mapping[str, File] = {
    "pkg/__init__.py": File(b"value = 1\n"),
    "pkg/only/one.txt": File(b"alone\n"),
    "run.sh": File(b"#!/bin/sh\necho ran\n", EXECUTABLE),
    "link": File(b"pkg/__init__.py", SYMLINK),
    "data/latin-\udce9.bin": File(b"\x00\xff\r\n"),
    "tests/test_it.py": File(b"def test_it(): pass\n"),
}
LIMITS = Limits(seconds=30, output=1 << 20, memory=512 << 20, processes=128, disk=64 << 20)


@dataclass(frozen=True)
class Box:
    """A sandbox with BASE prepared in it."""

    sandbox: Sandbox
    prepared: Prepared

    def sh(
        self,
        script: str,
        limits: Limits = LIMITS,
        *,
        changes: Changes | None = None,
        readonly: frozenset[str] = frozenset(),
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = ".",
        network: bool = False,
        audit: bool = False,
    ) -> Completed:
        """Run a bash script."""
        workspace = Workspace(self.prepared, changes or {}, readonly)
        command = Command(["bash", "-c", script], stdin, env or {}, cwd)
        return self.sandbox.run(workspace, command, limits, network=network, audit=audit)

    def python(self, script: str, limits: Limits = LIMITS) -> Completed:
        argv = [self.prepared.interpreter.python, "-c", script]
        return self.sandbox.run(Workspace(self.prepared), Command(argv), limits)


def lay(root: Path) -> Path:
    for path, file in BASE.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.mode == SYMLINK:
            target.symlink_to(os.fsdecode(file.data))
        else:
            target.write_bytes(file.data)
            target.chmod(0o755 if file.mode == EXECUTABLE else 0o644)
    (root / "pkg" / "__pycache__").mkdir()
    (root / "pkg" / "__pycache__" / "forged.cpython-311.pyc").write_bytes(b"not ours")
    return root


def marker() -> str:
    """An argument for `sleep` by which its process can be found."""
    return f"{10**6 + uuid.uuid4().int % 10**9}"


def pids(mark: str, *, sleeping: bool = False) -> list[int]:
    """Processes of this machine that have `mark` among their arguments, or those only that are `sleep MARK`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")[:-1]
        except OSError:
            continue
        if words == [b"sleep", mark.encode()] or (mark.encode() in words and not sleeping):
            found.append(int(path.parent.name))
    return found


def gone(mark: str) -> bool:
    """True as soon as no process with `mark` is left; False when one still is after 30 s."""
    deadline = time.monotonic() + 30
    while pids(mark):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def appeared(mark: str, count: int) -> bool:
    """True as soon as `count` times `sleep MARK` runs; False when they do not within 30 s."""
    deadline = time.monotonic() + 30
    while len(pids(mark, sleeping=True)) != count:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def git_id(data: bytes) -> str:
    done = subprocess.run(
        ["git", "hash-object", "--no-filters", "--stdin"], input=data, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def as_git(files: Mapping[str, File]) -> dict[str, Entry]:
    return {path: Entry(file.mode, git_id(file.data)) for path, file in files.items()}


def sources(found: Mapping[str, Entry]) -> dict[str, Entry]:
    return {path: entry for path, entry in found.items() if "__pycache__" not in path}
