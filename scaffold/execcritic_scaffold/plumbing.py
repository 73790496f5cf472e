"""Git as a calculator: one isolated call of git plumbing on a git directory that the harness owns.

A repository's own configuration executes code (fsmonitor, hooks, filters, textconv, external diff), and so does
that of a nested one. Here git sees no configuration but the few settings below, an empty environment, `/` as its
current directory, and no work tree unless one is named. GitPython is not used for this: it merges `os.environ`
into every call, so a caller's GIT_* variables would reach git.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from execcritic_scaffold import programs
from execcritic_scaffold.errors import InfrastructureError

SETTINGS = (
    "core.bare=true",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.untrackedCache=false",
    "core.fileMode=true",
    "core.symlinks=true",
    "core.quotePath=true",
    "core.compression=1",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "submodule.recurse=false",
)
"""Given with every call, so that they win over whatever a configuration file says."""

ATTRIBUTES = b"* -text -eol -ident -filter -working-tree-encoding !diff !merge !whitespace\n"
"""info/attributes, which has the last word: without it a tree's .gitattributes changes bytes on the way out."""


class GitFailure(Exception):
    """git exited with an error, or refused part of what it was given. Internal: callers turn it into one of ours."""

    def __init__(self, command: str, stderr: bytes) -> None:
        super().__init__(command, stderr)
        self.command = command
        self.stderr = stderr

    @property
    def complaint(self) -> str:
        """The first line of git's own words."""
        lines = [line for line in os.fsdecode(self.stderr).split("\n") if line.strip()]
        worded = [line for line in lines if line.startswith(("error: ", "fatal: "))]
        first = (worded or lines or ["it said nothing"])[0]
        return first.removeprefix("error: ").removeprefix("fatal: ")


@dataclass(frozen=True)
class Git:
    """A git directory with, where needed, an index file of its own and a work tree."""

    directory: Path
    index: Path | None = None
    work_tree: Path | None = None

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Standard output of `git ARGUMENTS`. Raises GitFailure; InfrastructureError where there is no git."""
        return self.call(*arguments, stdin=stdin).stdout

    def call(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """`run` for callers that also look at standard error."""
        done = subprocess.run(
            self._argv(arguments), input=stdin, capture_output=True, env=self._environment(), cwd="/", umask=0o022
        )
        if done.returncode:
            raise GitFailure(arguments[0], done.stderr)
        return done

    def need(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """`run` for a call that has no business to fail: a failure is the machine's (disk full, damaged store)."""
        try:
            return self.run(*arguments, stdin=stdin)
        except GitFailure as failure:
            raise InfrastructureError(
                f"git {failure.command} failed in {self.directory} ({failure.complaint}); "
                "free disk space or remove that directory, then run again."
            ) from failure

    def missing(self, oids: Iterable[str]) -> list[str]:
        """Those of the object ids that this git directory does not have, in the order given."""
        asked = list(dict.fromkeys(oids))
        if not asked:
            return []
        answer = self.need("cat-file", "--batch-check=%(objectname)", stdin="\n".join(asked).encode() + b"\n")
        return [line.removesuffix(" missing") for line in answer.decode().splitlines() if line.endswith(" missing")]

    def sizes(self, oids: Iterable[str]) -> dict[str, int]:
        """Bytes of each of the objects; one that this git directory does not have is left out."""
        asked = list(dict.fromkeys(oids))
        if not asked:
            return {}
        answer = self.need(
            "cat-file", "--batch-check=%(objectname) %(objectsize)", stdin="\n".join(asked).encode() + b"\n"
        )
        pairs = (line.split(" ") for line in answer.decode().splitlines())
        return {oid: int(size) for oid, size in pairs if size != "missing"}

    def blobs(self, oids: Sequence[str]) -> Iterator[bytes]:
        """Contents of the objects in the order given, one process, one object in memory at a time.

        Raises KeyError with the id of the first object that is missing.
        """
        with tempfile.TemporaryFile() as request:
            # A file, not a pipe: whoever reads slowly must not make git and us wait for each other.
            request.write("".join(f"{oid}\n" for oid in oids).encode())
            request.seek(0)
            with subprocess.Popen(
                self._argv(["cat-file", "--batch"]),
                stdin=request,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._environment(),
                cwd="/",
            ) as process:
                assert process.stdout is not None
                for oid in oids:
                    header = process.stdout.readline().split()
                    if len(header) != 3:
                        raise KeyError(oid)
                    size = int(header[2])
                    data = process.stdout.read(size + 1)
                    if len(data) != size + 1:
                        raise KeyError(oid)
                    yield data[:-1]

    def _argv(self, arguments: Sequence[str]) -> list[str]:
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        if self.work_tree is not None:
            settings[1] = "core.bare=false"
        return [executable(), "--no-pager", *settings, *arguments]

    def _environment(self) -> dict[str, str]:
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": "/nonexistent",
            "LC_ALL": "C",
            "GIT_DIR": str(self.directory),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
        }
        if self.index is not None:
            environment["GIT_INDEX_FILE"] = str(self.index)
        if self.work_tree is not None:
            environment["GIT_WORK_TREE"] = str(self.work_tree)
        return environment


@cache
def executable() -> str:
    """Absolute path of git. Raises InfrastructureError where there is none."""
    found = programs.find("git")
    if found is None:
        raise InfrastructureError("git was not found; install git 2.30 or later and run again.")
    return found


def create(directory: Path) -> None:
    """Make an empty bare git directory at `directory`; where one is already, leave it. Atomic.

    Raises OSError where it cannot be written.
    """
    if (directory / "HEAD").is_file():
        return
    directory.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        # Own template: the system's may hold hooks.
        Git(partial).need("init", "--quiet", "--bare", "--template=", "--object-format=sha1", str(partial))
        (partial / "info").mkdir()
        (partial / "info" / "attributes").write_bytes(ATTRIBUTES)
        partial.rename(directory)
    except OSError:
        if not (directory / "HEAD").is_file():  # another process may have been first
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
