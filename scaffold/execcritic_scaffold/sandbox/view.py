"""What a command sees in bubblewrap: the arguments for its file system, namespaces and environment.

Options are those of bubblewrap 0.8 that 0.11 still has. Never `--ro-bind / /`: /usr and named files only, so that no
home directory, key, engine socket or host configuration exists inside.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.files import SYMLINK, Changes
from execcritic_scaffold.sandbox.etc import HOME, UID
from execcritic_scaffold.sandbox.overlay import caches, checked_path, parents
from execcritic_scaffold.sandbox.protocol import WORKDIR

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True)
class View:
    """One sandbox's files. Sources are host paths as bubblewrap can reach them; `binds` maps inside to outside."""

    workspace: Path
    etc: Path
    binds: Mapping[str, str]
    disk: int
    readonly: Iterable[str] = ()
    writable: Mapping[str, str] = field(default_factory=dict)
    home: Path | None = None
    """A directory to show as HOME; None: a tmpfs nobody sees afterwards."""
    network: bool = False


def arguments(view: View, env: Mapping[str, str], cwd: str, *, init: bool) -> list[str]:
    """bubblewrap's arguments up to and with `--`. `init`: bubblewrap's own process 1 stays above the command."""
    args = ["bwrap", "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    if not view.network:
        args.append("--unshare-net")
    args += ["--disable-userns", "--uid", str(UID), "--gid", str(UID), "--hostname", "sandbox"]
    args += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    if not init:
        args.append("--as-pid-1")
    args += [*_system(), "--ro-bind", str(view.etc), "/etc"]
    size = str(view.disk)
    args += ["--proc", "/proc", "--dev", "/dev", "--size", size, "--perms", "1777", "--tmpfs", "/dev/shm"]
    args += ["--size", size, "--perms", "1777", "--tmpfs", "/tmp", "--dir", "/var", "--symlink", "/tmp", "/var/tmp"]
    if view.home:
        args += ["--bind", str(view.home), HOME]
    else:
        args += ["--size", size, "--perms", "0755", "--tmpfs", HOME]
    args += ["--bind", str(view.workspace), WORKDIR]
    args += _protected(view)
    # Outer directories first, or a later mount would hide what lies below it.
    for inside, outside in sorted(view.binds.items()):
        args += ["--ro-bind", outside, inside]
    args += _hidden(view.binds)
    for inside, outside in sorted(view.writable.items()):
        args += ["--bind", outside, inside]
    args += ["--remount-ro", "/dev", "--remount-ro", "/"]
    for name, value in env.items():
        args += ["--setenv", name, value]
    inside = WORKDIR if cwd == "." else f"{WORKDIR}/{checked_path(cwd)}"
    return [*args, "--chdir", inside, "--"]


def _hidden(binds: Iterable[str]) -> list[str]:
    """pip's configuration beside an interpreter, which may hold an index's password, is shown empty."""
    args: list[str] = []
    for prefix in ("/usr", "/usr/local", *sorted(binds)):
        path = f"{prefix}/pip.conf"
        if Path(path).is_file() and not Path(path).is_symlink():
            args += ["--ro-bind", "/dev/null", path]
    return args


@cache
def _system() -> tuple[str, ...]:
    """/usr, and the directories beside it, which are links into it on a merged system."""
    args = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/", name)
        if path.is_symlink():
            args += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            args += ["--ro-bind", str(path), str(path)]
    return tuple(args)


def _protected(view: View) -> list[str]:
    """Read-only files as read-only mounts, and the byte code beside them, which could be forged. A mount point cannot
    be renamed or removed, but the directory above one can be renamed, so those directories become mount points too."""
    args: list[str] = []
    frozen = {checked_path(path) for path in view.readonly}
    for directory in sorted({above for path in frozen for above in parents(path)}):
        args += ["--bind", f"{view.workspace}/{directory}", f"{WORKDIR}/{directory}"]
    for path in [*caches(frozen), *sorted(frozen)]:
        args += ["--ro-bind", f"{view.workspace}/{path}", f"{WORKDIR}/{path}"]
    return args


def existing(readonly: Iterable[str], changes: Changes, base: Path) -> list[str]:
    """The read-only paths that the workspace has. Raises UsageError for a symbolic link: a mount would follow it."""
    found = []
    for path in readonly:
        file = changes.get(checked_path(path))
        if path not in changes and os.path.lexists(base / path):
            link = (base / path).is_symlink()
        elif file is not None:
            link = file.mode == SYMLINK
        else:
            continue
        if link:
            raise UsageError(f"{path} is a symbolic link and cannot be made read-only; freeze the file it points to.")
        found.append(path)
    return found


@cache
def reachable(path: str) -> bool:
    """True when any user may enter `path` and the directories above it."""
    real = Path(os.path.realpath(path))
    return all(part.stat().st_mode & 0o001 for part in (real, *real.parents)) and bool(real.stat().st_mode & 0o004)
