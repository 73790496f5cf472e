"""What a person would do: apply a patch in a checkout, run the official test files, look. The harness is judged by it.

Nothing here uses the harness. Runs have no network (a namespace of their own, loopback only), the environment is
cleared, and byte code is compiled once with checked hashes, so that no stale file can answer for an edited one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from _realset import Instance, checkout

RECORDERS = Path(__file__).resolve().parent / "recorders"
IDENTITY = ("-c", "user.name=hand", "-c", "user.email=hand@localhost", "-c", "core.autocrlf=false", "-c", "gc.auto=0")
Outcomes = dict[str, str]


class Hand:
    """A private warm checkout of one instance, in which patches are tried one after the other."""

    def __init__(self, instance: Instance, seconds: float = 240.0):
        self.instance = instance
        self.seconds = seconds
        self.ready = checkout(instance)
        self.scratch = Path(tempfile.mkdtemp(prefix="byhand-")).resolve()
        self.tree = self.scratch / "tree"
        shutil.copytree(self.ready.repo, self.tree, symlinks=True)
        compiler = ["-m", "compileall", "-q", "-j", "2", "--invalidation-mode", "checked-hash", "."]
        subprocess.run([self.ready.python, *compiler], cwd=self.tree, capture_output=True)
        (self.tree / ".git" / "info" / "exclude").write_text("__pycache__/\n")

    def __enter__(self) -> Hand:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)

    def outcomes(self, patch: bytes) -> Outcomes | None:
        """Outcome of every test in the official test files, with `patch` and the official tests applied.

        Empty where the run died or timed out; None where the patch does not apply.
        """
        try:
            if not self._apply(patch) or not self._apply(self.instance["test_patch"].encode()):
                return None
            return self._run()
        finally:
            self._reset()

    def diff(self, files: dict[str, bytes]) -> bytes:
        """The patch that writes these files."""
        try:
            for path, data in files.items():
                (self.tree / path).write_bytes(data)
            return self._git("diff", "--binary").stdout
        finally:
            self._reset()

    def patched(self, patch: bytes, paths: Iterable[str]) -> dict[str, bytes] | None:
        """The bytes of these files with `patch` applied; None where it does not apply."""
        try:
            if not self._apply(patch):
                return None
            return {path: (self.tree / path).read_bytes() for path in paths if (self.tree / path).is_file()}
        finally:
            self._reset()

    def _git(self, *argv: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        return subprocess.run(["git", *IDENTITY, *argv], cwd=self.tree, env=env, input=stdin, capture_output=True)

    def _apply(self, patch: bytes) -> bool:
        if not patch.strip():
            return True
        return self._git("apply", "--whitespace=nowarn", "-", stdin=patch).returncode == 0

    def _reset(self) -> None:
        self._git("reset", "-q", "--hard")
        self._git("clean", "-fdq")

    def _run(self) -> Outcomes:
        record = self.scratch / "record.json"
        record.unlink(missing_ok=True)
        django = self.instance["runner"] == "django"
        cwd = self.tree / "tests" if django else self.tree
        python = str(self.ready.python)
        if django:
            argv = [python, "runtests.py", "--settings=record_django", "--parallel=1", *test_labels(self.instance)]
        else:
            argv = [
                python,
                "-m",
                "pytest",
                "-q",
                "-p",
                "record_pytest",
                "-p",
                "no:cacheprovider",
                *test_files(self.instance),
            ]
        roots = [str(self.tree / root) for root in self.ready.source_roots]
        env = {
            "PATH": f"{self.ready.python.parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": "/tmp",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "MPLBACKEND": "Agg",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONPATH": os.pathsep.join([*roots, str(RECORDERS)]),
            "RECORD": str(record),
        }
        try:
            subprocess.run(
                [*self._isolated(), *argv], cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, timeout=self.seconds,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {}
        return json.loads(record.read_text()) if record.exists() else {}

    def _isolated(self) -> list[str]:
        scratch = str(self.scratch)
        mounts = [
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
            "--tmpfs",
            "/tmp",
            "--bind",
            scratch,
            scratch,
        ]
        return ["bwrap", "--unshare-net", "--unshare-pid", "--die-with-parent", *mounts, "--"]


def test_files(instance: Instance) -> list[str]:
    """The files that hold the official fail-to-pass and pass-to-pass tests (pytest ids)."""
    return sorted({node.split("::")[0] for node in instance["FAIL_TO_PASS"] + instance["PASS_TO_PASS"]})


def test_labels(instance: Instance) -> list[str]:
    """Dotted labels of the modules that hold the official tests (Django ids)."""
    classes = (re.fullmatch(r"\w+ \((.+)\.\w+\)", node) for node in instance["FAIL_TO_PASS"] + instance["PASS_TO_PASS"])
    return sorted({found.group(1) for found in classes if found})
