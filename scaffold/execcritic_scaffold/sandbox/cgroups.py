"""Memory and process limits by control group, version 1 or 2, where this process may make groups (usually: root)."""

from __future__ import annotations

import itertools
import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from execcritic_scaffold.sandbox import rundir
from execcritic_scaffold.sandbox.protocol import Limits

_counter = itertools.count()


@dataclass(frozen=True)
class Group:
    """The groups of one run. `enforced` are the names of the limits they impose: "memory", "pids"."""

    directories: tuple[Path, ...] = ()
    enforced: frozenset[str] = frozenset()

    @property
    def entrances(self) -> str:
        """The files by which a process of one thread joins when it writes 0 to them, colon-separated."""
        # Version 1 can move a single thread without stopping the world, which saves milliseconds.
        names = [directory / "tasks" for directory in self.directories]
        return ":".join(str(name if name.exists() else name.with_name("cgroup.procs")) for name in names)

    def out_of_memory(self) -> bool:
        """True when the kernel killed something in here because the memory limit was reached."""
        for directory in self.directories:
            for name in ("memory.events", "memory.oom_control"):
                try:
                    lines = (directory / name).read_text().splitlines()
                except FileNotFoundError:
                    continue
                return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in lines)
        return False

    def remove(self) -> None:
        """Kill what is left inside and remove the groups; gives up after 5 s (a process in uninterruptible sleep)."""
        deadline = time.monotonic() + 5
        for directory in self.directories:
            while True:
                try:
                    directory.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        break
                _kill(directory)
                time.sleep(0.002)


def create(limits: Limits) -> Group:
    """Make groups for one run; a limit that cannot be imposed here is missing from `enforced`."""
    directories: list[Path] = []
    enforced: set[str] = set()
    name = f"{rundir.prefix()}{os.getpid()}-{next(_counter)}"
    for parent, controllers in _parents().items():
        directory = parent / name
        try:
            directory.mkdir()
        except OSError:
            continue
        directories.append(directory)
        if "memory" in controllers and _limit_memory(directory, limits.memory):
            enforced.add("memory")
        if "pids" in controllers and _write(directory / "pids.max", str(limits.processes)):
            enforced.add("pids")
    return Group(tuple(directories), frozenset(enforced))


def sweep() -> None:
    """Remove the groups of processes of ours that are gone."""
    for parent in _parents():
        for directory in parent.glob(f"{rundir.prefix()}*"):
            if rundir.abandoned(directory):
                Group((directory,)).remove()


@cache
def _parents() -> dict[Path, frozenset[str]]:
    """Groups in which ours can be made, with the controllers each offers."""
    found: dict[Path, frozenset[str]] = {}
    own = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        own.update(dict.fromkeys(names.split(","), path))
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, tail = line.partition(" - ")
        root, point = fields.split()[3:5]
        kind, _, options = tail.split(" ", 2)
        if kind == "cgroup":
            for name in {"memory", "pids"} & set(options.split()[-1].split(",")):
                below = os.path.relpath(own.get(name, "/"), root) if own.get(name, "/").startswith(root) else "."
                parent = Path(os.path.normpath(Path(point) / below))
                if os.access(parent, os.W_OK):
                    found[parent] = found.get(parent, frozenset()) | {name}
        elif kind == "cgroup2" and (parent2 := _unified(Path(point))):
            found[parent2] = frozenset({"memory", "pids"})
    return found


def _unified(point: Path) -> Path | None:
    """A version-2 group of ours with both controllers handed down. Only the root group may hold processes beside
    groups with controllers, so it is made at the top of the hierarchy that is visible here."""
    try:
        offered = set((point / "cgroup.controllers").read_text().split())
        if not {"memory", "pids"} <= offered or not os.access(point, os.W_OK):
            return None
        parent = point / "execcritic"
        parent.mkdir(exist_ok=True)
        for directory in (point, parent):
            (directory / "cgroup.subtree_control").write_text("+memory +pids")
    except OSError:
        return None
    return parent


def _limit_memory(directory: Path, size: int) -> bool:
    """Limit memory, and swap with it where swap is accounted."""
    if _write(directory / "memory.max", str(size)):
        _write(directory / "memory.swap.max", "0")
        return True
    if _write(directory / "memory.limit_in_bytes", str(size)):
        _write(directory / "memory.memsw.limit_in_bytes", str(size))
        return True
    return False


def _write(path: Path, value: str) -> bool:
    try:
        # No O_CREAT: a file that this kernel does not offer must stay missing, not be an error of another kind.
        fd = os.open(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(fd, value.encode())
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _kill(directory: Path) -> None:
    try:
        pids = (directory / "cgroup.procs").read_text().split()
    except OSError:
        return
    for pid in pids:
        try:
            os.kill(int(pid), 9)
        except OSError:
            continue
