"""One bubblewrap, started: its mounts, limits, descriptors and end (SANDBOX.md 1, 3, 5)."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from execcritic_scaffold.errors import SandboxError
from execcritic_scaffold.files import Changes
from execcritic_scaffold.inject import reaper
from execcritic_scaffold.sandbox import cgroups, diagnosis, etc, launch, rundir
from execcritic_scaffold.sandbox.contents import Contents, owner, tmpfs_upper
from execcritic_scaffold.sandbox.overlay import caches, differences, write_layer, written
from execcritic_scaffold.sandbox.protocol import SUPPORT
from execcritic_scaffold.sandbox.view import View, arguments, existing, reachable

INJECT = Path(reaper.__file__).parent
LAUNCH = Path(__file__).with_name("launch.sh")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Contained:
    """A running bubblewrap. `close` ends everything inside and removes what it needed outside."""

    process: subprocess.Popen[bytes]

    def __init__(self, contents: Contents) -> None:
        self.owner = owner()
        self.root = self.owner is not None
        self.limits = contents.limits
        self.over_memory = False
        self.upper = self.home = -1
        self.run = rundir.make(shared=self.root)
        self.group = cgroups.create(contents.limits) if self.root else cgroups.Group()
        self._status = -1
        try:
            self._start(contents)
        except BaseException:
            self.close()
            raise

    @property
    def unenforced(self) -> tuple[str, ...]:
        """Limits that could only be watched or not be imposed at all. Without a group, "memory" is bounded for each
        process and watched for all together; processes are bounded by the namespace's own count."""
        found = [] if "memory" in self.group.enforced else ["memory"]
        return (*found, *([] if tmpfs_upper(self.root) else ["disk"]))

    def _start(self, contents: Contents) -> None:
        for name in ("m", "h", "stage"):
            (self.run / name).mkdir()
        (self.run / "base").symlink_to(contents.base)
        frozen = existing(contents.readonly, contents.changes, contents.base)
        write_layer(self.run / "stage", contents.base, contents.changes, self.owner, caches(frozen))
        sources: list[str] = []
        view = View(
            workspace=self.run / "m" / "work",
            etc=etc.directory(network=contents.network),
            binds={SUPPORT: self._source(str(INJECT), sources)}
            | {path: self._source(path, sources) for path in contents.binds},
            writable={path: self._source(path, sources) for path in contents.writable},
            disk=contents.limits.disk,
            readonly=frozen,
            home=self.run / "h" if contents.audit else None,
            network=contents.network,
        )
        self._status, status = os.pipe()
        ready, said = os.pipe()
        wait, go = os.pipe()
        try:
            argv = self._prefix(contents, status, (said, wait) if contents.audit else None)
            argv += [*sources, "--", *arguments(view, contents.env, contents.cwd, init=contents.counting)]
            argv += self._command(contents)
            with open(self.run / "stderr", "wb") as stderr:
                self.process = launch.start(
                    argv,
                    env={"PATH": diagnosis.PATH, "LC_ALL": "C"},
                    pass_fds=(status, said, wait),
                    stderr=subprocess.PIPE if contents.counting else stderr,
                )
            os.close(said)
            said = -1
            if contents.audit and os.read(ready, 16):
                inside = f"/proc/{self.process.pid}/root{self.run}"
                self.upper = os.open(f"{inside}/m/upper", os.O_RDONLY | os.O_DIRECTORY)
                self.home = os.open(f"{inside}/h", os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError as error:
            raise SandboxError(f"{error.filename} is missing; install bubblewrap, util-linux and bash.") from None
        except OSError as error:
            raise SandboxError(f"bubblewrap could not be started ({error}); see `execcritic doctor`.") from None
        finally:
            for fd in (status, ready, said, wait, go):
                if fd >= 0:
                    os.close(fd)

    def _prefix(self, contents: Contents, status: int, audit: tuple[int, int] | None) -> list[str]:
        unshare = ["unshare", "--mount"] if self.root else ["unshare", "--mount", "--user", "--map-root-user"]
        layout = "bind" if contents.layout == "base" else "tmpfs" if tmpfs_upper(self.root) else "disk"
        data = "-" if "memory" in self.group.enforced else str(self.limits.memory // 1024)
        signals = [str(fd) for fd in audit] if audit else ["-", "-"]
        options, drop = ("", str(self.owner)) if self.root else ("userxattr,", "-")
        return [
            *unshare, "bash", str(LAUNCH), str(os.getpid()), str(self.run), str(status), *signals, layout,
            str(self.limits.disk), options, drop, data, self.group.entrances,
        ]  # fmt: skip

    def _command(self, contents: Contents) -> list[str]:
        # Inside, or bubblewrap itself could not fork: without a user namespace the limit counts all of the user's.
        limit = [] if "pids" in self.group.enforced else ["prlimit", f"--nproc={self.limits.processes}", "--"]
        counting = ["/bin/sh", f"{SUPPORT}/count.sh"] if contents.counting else []
        return [*limit, *counting, *contents.argv]

    def _source(self, path: str, sources: list[str]) -> str:
        """Where bubblewrap finds `path`; as root it runs as another user, who may not pass through /root, say."""
        if not self.root or reachable(path):
            return path
        sources.append(path)
        return str(self.run / "m" / str(len(sources) - 1))

    def kill(self) -> None:
        """End everything inside: bubblewrap dies with this group, and with it its pid namespace."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def watch(self) -> None:
        """Without a memory group: add up what the processes inside use, and end them above the limit."""
        if "memory" in self.group.enforced or self.over_memory:
            return
        used = 0
        for pid in reaper.descendants(self.process.pid):
            try:
                fields = Path(f"/proc/{pid}/statm").read_text().split()
            except OSError:
                continue
            used += (int(fields[1]) - int(fields[2])) * PAGE
        if used > self.limits.memory:
            self.over_memory = True
            self.kill()

    def out_of_memory(self) -> bool:
        return self.over_memory or self.group.out_of_memory()

    def status(self) -> tuple[bool, int]:
        """After the end: whether the command was reached, and how many processes it left behind."""
        os.set_blocking(self._status, False)
        try:
            words = os.read(self._status, 64).split()
        except BlockingIOError:
            words = []
        return words[:1] == [b"S"], max(int(words[1]), 0) if len(words) > 1 and words[1].isdigit() else 0

    def writes(self, contents: Contents) -> tuple[str, ...]:
        """After the end of an audited run: what the command wrote to the workspace and to HOME."""
        lowers = (self.run / "stage", contents.base)
        return (*sorted(written(self.upper, lowers)), *sorted(f"~/{path}" for path in written(self.home, ())))

    def changes(self, contents: Contents) -> Changes:
        """After the end of an audited run: what the command changed in the workspace, with bytes."""
        return differences(self.upper, (self.run / "stage", contents.base))

    def complaint(self) -> str:
        """What the launcher or the session's runner wrote to stderr, its last part."""
        return (self.run / "stderr").read_bytes()[-2000:].decode(errors="replace").strip()

    def close(self) -> None:
        """Idempotent."""
        if hasattr(self, "process"):
            self.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                if stream:
                    stream.close()
            self._await_end()
        for name in ("upper", "home", "_status"):
            if (fd := getattr(self, name)) >= 0:
                os.close(fd)
                setattr(self, name, -1)
        self.group.remove()
        if self.run.exists():
            rundir.remove(self.run)

    def _await_end(self) -> None:
        """The kill reaches the pid namespace a moment later; its processes hold the status pipe until then."""
        deadline = time.monotonic() + 5
        os.set_blocking(self._status, False)
        while self._status >= 0 and time.monotonic() < deadline:
            try:
                if not os.read(self._status, 4096):
                    return
            except BlockingIOError:
                time.sleep(0.001)
