"""How every container is made: what it may do, see and use up.

The root file system is not mounted read-only. /testbed has to be writable and lies in the image: a volume over it
would copy the whole tree for each container (seconds for Django), and an overlay volume needs paths on the engine's
machine, which may not be this one. Instead everything outside the workspace, /tmp and HOME belongs to root and the
agent is nobody, without capabilities and without a way to gain any; what world-writable directories an image has
besides are in the container's own layer and gone with it. For the same reason the engine cannot bound the workspace
except on file systems with quotas: "disk" is then named as unenforced, with a limit for each single file left.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from execcritic_scaffold.sandbox import docker_engine as engine
from execcritic_scaffold.sandbox.docker_files import AGENT, HOME
from execcritic_scaffold.sandbox.overlay import checked_path
from execcritic_scaffold.sandbox.protocol import WORKDIR, Command, Interpreter, Limits

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHARED_MEMORY = 64 << 20
OPEN_FILES = 4096
NETWORK = "bridge"
JUDGING = re.compile(r"PYTEST_|PYTHON(?!_|HOME$|IOENCODING$|UTF8$|UNBUFFERED$)|COV_CORE_|COVERAGE_|LD_(PRELOAD|AUDIT)$")
"""Variables of an image that change which code runs and how it is judged. The rest is its environment."""


class Factory:
    """Creates containers on one engine; knows which limits that engine can impose."""

    def __init__(self, client: DockerClient, run: str) -> None:
        self.client, self._run = client, run
        info: dict[str, Any] = client.info()
        # Only these drivers ever honour a size; others refuse it or, worse, ignore it.
        self._quota = info.get("Driver") in ("overlay2", "btrfs", "zfs", "devicemapper")
        enforced = {"memory": info.get("MemoryLimit"), "swap": info.get("SwapLimit"), "pids": info.get("PidsLimit")}
        self._unenforced = tuple(name for name, works in enforced.items() if works is False)
        self._bridge: bool | None = None
        self._variables: dict[str, dict[str, str]] = {}

    @property
    def unenforced(self) -> tuple[str, ...]:
        """Limits that containers made so far could not be given."""
        return self._unenforced if self._quota else (*self._unenforced, "disk")

    @property
    def has_network(self) -> bool:
        """False for an engine started without a bridge: its containers have no network whatever is asked for."""
        if self._bridge is None:
            self._bridge = any(network.name == NETWORK for network in self.client.networks.list())
        return self._bridge

    def create(
        self,
        image: str,
        argv: Sequence[str],
        limits: Limits,
        *,
        env: Mapping[str, str],
        cwd: str = WORKDIR,
        network: bool = False,
        stdin: bool = False,
        home_in_layer: bool = False,
        user: int = AGENT,
        capabilities: Sequence[str] = (),
    ) -> Container:
        """A container that is created and not started. Raises the SDK's exceptions."""
        mounts = {"/tmp": _tmpfs(limits.disk, "mode=1777")}
        if not home_in_layer:
            mounts[HOME] = _tmpfs(limits.disk, f"uid={AGENT},gid={AGENT},mode=755")
        options: dict[str, Any] = {
            "entrypoint": [argv[0]],
            "command": list(argv[1:]),
            # The engine adds the image's own; a name without a value takes that one out.
            "environment": {**{name: None for name in self._own(image) if JUDGING.match(name)}, **env},
            "use_config_proxy": False,  # the user's proxy settings hold credentials
            "healthcheck": {"test": ["NONE"]},
            "labels": engine.labels(self._run),
            "user": f"{user}:{user}",
            "hostname": "sandbox",
            "working_dir": cwd,
            "stdin_open": stdin,
            "network_mode": NETWORK if network and self.has_network else "none",
            "cap_drop": ["ALL"],
            "cap_add": list(capabilities),
            "security_opt": ["no-new-privileges"],
            "ipc_mode": "private",
            "log_config": {"type": "none"},
            "tmpfs": mounts,
            "shm_size": SHARED_MEMORY,
            "mem_limit": limits.memory,
            "memswap_limit": limits.memory,
            "pids_limit": limits.processes,
            "ulimits": [
                {"Name": "core", "Soft": 0, "Hard": 0},
                {"Name": "nofile", "Soft": OPEN_FILES, "Hard": OPEN_FILES},
                {"Name": "fsize", "Soft": limits.disk, "Hard": limits.disk},
            ],
        }
        return self._create(image, options, limits.disk)

    def _create(self, image: str, options: dict[str, Any], disk: int) -> Container:
        from docker.errors import APIError

        if self._quota:
            try:
                return self.client.containers.create(image, **options, storage_opt={"size": str(disk)})
            except APIError as error:
                if "storage-opt" not in str(error) and "quota" not in str(error):
                    raise
                self._quota = False
        return self.client.containers.create(image, **options)

    def environment(self, image: str, interpreter: Interpreter | None, command: Mapping[str, str]) -> dict[str, str]:
        """The image's own variables but those that change judgement, PATH with the interpreter first, and what every
        command has in every sandbox."""
        own = {name: value for name, value in self._own(image).items() if not JUDGING.match(name)}
        path = own.get("PATH") or PATH
        folder = posixpath.dirname(interpreter.python) if interpreter else ""
        if folder and path.split(":")[0] != folder:
            path = f"{folder}:{path}"
        fixed = {"PATH": path, "HOME": HOME, "TMPDIR": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}
        return {"LANG": "C.UTF-8", **own, **fixed, **command}

    def _own(self, image: str) -> dict[str, str]:
        """An image's variables."""
        if image not in self._variables:  # ids and our own tags name contents, so this never goes stale
            configured = self.client.images.get(image).attrs["Config"].get("Env") or []
            self._variables[image] = dict(item.partition("=")[::2] for item in configured)
        return self._variables[image]


def directory(command: Command) -> str:
    """Where a command starts, as a path inside."""
    return WORKDIR if command.cwd == "." else f"{WORKDIR}/{checked_path(command.cwd)}"


def _tmpfs(size: int, more: str) -> str:
    return f"rw,exec,nosuid,nodev,size={size},{more}"
