"""The seam between the harness and whatever isolates code: docker, bubblewrap, local.

Two ways in, and they are never mixed (SANDBOX.md 8):

* `Sandbox.run` is **one-shot**: a fresh workspace, one command, everything gone afterwards. Verdicts
  come from here only, because nothing that ran earlier can have touched it.
* `Sandbox.open` is a **session** for an agent: one long-lived runner process inside, each action a
  fresh process group. What runs there can lie, so nothing that decides a verdict is read from it.

Newlines are never translated, output is bytes, environments are never inherited from the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol

from execcritic_scaffold.files import Changes, Entry

WORKDIR = "/testbed"
"""Where a workspace is mounted in an isolating sandbox (the convention of SWE-bench images)."""
SUPPORT = "/opt/execcritic"
"""Where the harness's own in-sandbox programs are mounted, read-only (`execcritic_scaffold/inject`)."""


@dataclass(frozen=True)
class Limits:
    """Bounds of one command or one session's action. Sizes in bytes, times in seconds."""

    seconds: float = 240.0
    output: int = 4 << 20
    """Bytes kept of each stream: the first and the last half; the rest is counted and dropped while read."""
    memory: int = 4 << 30
    processes: int = 512
    disk: int = 2 << 30
    """Bytes a command may write to the workspace, and again to each of /tmp and HOME."""


@dataclass(frozen=True)
class Interpreter:
    """How Python is entered: `python` is a path on the host (bubblewrap, local) or in `image` (docker).

    `digest` identifies the whole environment by content as far as it is known (image id; installed
    distributions and interpreter build). `binds` are further host directories the interpreter needs
    (standard library, site-packages), mounted read-only at their own paths.
    """

    python: str
    digest: str
    image: str | None = None
    binds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prepared:
    """Base made ready for one sandbox: materialised once, byte-compiled with checked hashes, cached by content.

    `key` names the cache entry (directory or image tag) of the sandbox that made it.
    """

    tree: str
    key: str
    interpreter: Interpreter
    directory: Path | None = None
    image: str | None = None


@dataclass(frozen=True)
class Workspace:
    """A fresh copy of Base plus `changes`. Paths in `readonly` cannot be written, replaced or removed
    from inside (bubblewrap: read-only binds; docker: owned by root in sticky directories; local: not enforced)."""

    prepared: Prepared
    changes: Changes = field(default_factory=dict)
    readonly: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Command:
    """What to run. `argv[0]` is looked up inside. `cwd` is relative to the workspace."""

    argv: Sequence[str]
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "."


@dataclass(frozen=True)
class Completed:
    """How a one-shot command ended, as the supervisor outside saw it.

    `exit_code` is negative for a signal (-9), None when it was stopped by the time limit. `stdout` and
    `stderr` are capped at `Limits.output` (head and tail) and `dropped` says how many bytes of each are
    missing. `out_of_memory` is set where the sandbox can know it. `left_behind`: processes that outlived
    the command (they were killed). `writes`: paths below the workspace and HOME (prefixed `~/`) that the
    command created, changed or removed; only with `audit=True`. `unenforced`: limits this sandbox could
    not impose here, by name ("memory", "pids", "disk", …).
    """

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    seconds: float
    timed_out: bool = False
    out_of_memory: bool = False
    dropped: tuple[int, int] = (0, 0)
    left_behind: int = 0
    writes: tuple[str, ...] | None = None
    unenforced: tuple[str, ...] = ()


@dataclass(frozen=True)
class Built:
    """What set-up commands made: an interpreter (of the virtual environment or image they filled) and the
    files they left in the workspace (generated versions, built extensions), laid over Base from then on."""

    interpreter: Interpreter
    changes: Changes


@dataclass(frozen=True)
class Spooled:
    """A long output in a file inside the sandbox, outside the workspace: `path` holds its first `kept` bytes, `dropped`
    more were too many. `removed` are the paths of earlier outputs that had to go for it."""

    path: str
    kept: int
    dropped: int = 0
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class ActionResult:
    """How one agent action ended. `output` is stdout and stderr in the order they were written, capped;
    `dropped` bytes are missing from its middle. `exit_code` is None after a time-out. `left_behind`: processes that
    outlived the action (they go on running), the first of them by name in `left_names`. `running`: jobs that earlier
    actions had left and that were there when this one began."""

    exit_code: int | None
    output: bytes
    seconds: float
    timed_out: bool = False
    dropped: int = 0
    spooled: Spooled | None = None
    left_behind: int = 0
    left_names: tuple[str, ...] = ()
    running: int = 0


class Session(Protocol):
    """A workspace an agent works in. `cd` and exported variables persist between actions."""

    workdir: str

    def act(self, script: str, seconds: float, output: int = 1 << 20, spool: int | None = None) -> ActionResult:
        """Run a bash script in its own process group, stdin empty. At `seconds` the whole tree is killed.

        Output of more than `spool` bytes is also kept in a file inside, bounded in size and number; None: never.
        Raises SandboxError when the sandbox itself is gone (never for what the script did).
        """

    def manifest(self) -> dict[str, Entry]:
        """Every file now in the workspace with git mode and blob id; `.git` directories and non-regular
        files other than symbolic links are left out; a nested repository's path is given with mode 160000.
        """

    def read(self, path: str, limit: int = 1 << 30) -> bytes:
        """Bytes of a workspace file (of a symbolic link: its target), read without following links.

        Raises FileNotFoundError when there is none, OSError (EFBIG) when it holds more than `limit` bytes.
        """

    def write(self, changes: Changes) -> None:
        """Create, replace or delete workspace files."""

    def close(self) -> None:
        """End everything inside and remove the workspace. Idempotent."""

    def __enter__(self) -> Session: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Sandbox(Protocol):
    """One isolation engine. All implementations pass tests/scaffold/conformance."""

    name: str
    support: str
    """Where the harness's in-sandbox programs are seen by a command (`SUPPORT`, or their real path for local)."""
    isolates: bool
    """False for local: agents' commands run as the user, with the user's files and network."""

    def probe(self) -> str | None:
        """None when this sandbox works on this machine, found by really running something; else one
        sentence: what failed (quoting the error) and the remedy."""

    def inspect(self, python: str | None, image: str | None) -> Interpreter:
        """Find the interpreter, what must be mounted for it, and its digest.

        Raises EnvironmentFailure when it is missing or not a Python.
        """

    def ready(self, tree: str, interpreter: Interpreter) -> Prepared | None:
        """What `prepare` would return, where its cache holds it already; None otherwise. Quick, whatever the size."""

    def prepare(self, tree: str, source: Path, interpreter: Interpreter) -> Prepared:
        """Make Base ready: `source` holds its files (owned by the caller, never modified) and `tree` is its
        content id. Cached: a second call with the same tree and interpreter does no work that depends on size.
        """

    def build(
        self, prepared: Prepared, commands: Sequence[str], env: Mapping[str, str], log: Path, limits: Limits
    ) -> Built:
        """Run set-up commands (a stranger's code) once, network on, nothing of the host's environment inside.

        bubblewrap and local: in a new virtual environment made from the interpreter (its packages visible);
        docker: in a container whose result becomes an image. The result is read-only afterwards and cached by
        (interpreter, Base, commands). Output goes to `log`. Raises EnvironmentFailure with the last lines.
        """

    def run(
        self,
        workspace: Workspace,
        command: Command,
        limits: Limits,
        *,
        network: bool = False,
        audit: bool = False,
    ) -> Completed:
        """One-shot: fresh workspace, command, gone. Raises SandboxError when the engine failed."""

    def open(self, workspace: Workspace, limits: Limits, *, network: bool = False) -> Session:
        """Start a session for an agent. Raises SandboxError."""

    def close(self) -> None:
        """Remove what this process made and nobody will use again. Idempotent; caches stay."""
