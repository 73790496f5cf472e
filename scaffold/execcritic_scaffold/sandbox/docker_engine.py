"""The Docker engine itself: reaching it, telling its failures apart, and owning what we make on it.

Every container and image of ours carries the label `execcritic=1`. A container also names the process that owns it
(host, process-id namespace, process id, start time), so that the next start removes what a killed one left behind
and nothing else.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from execcritic_scaffold.errors import SandboxError

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

LABEL = "execcritic"
OWNER = "execcritic.owner"
RUN = "execcritic.run"
BASE_REPOSITORY = "execcritic-base"
ENVIRONMENT_REPOSITORY = "execcritic-env"
YOUNG = timedelta(hours=1)
ENGINE_SECONDS = 600
"""Time limit of one request: committing a large image takes minutes on a slow disk."""


def connect() -> DockerClient:
    """A client for the engine that DOCKER_HOST (or the default socket) names, after a ping.

    Raises SandboxError with the remedy when there is no engine or it refuses us.
    """
    import docker
    import requests

    try:
        client = docker.from_env(timeout=ENGINE_SECONDS)
        client.ping()
    except (docker.errors.DockerException, requests.RequestException, OSError, ValueError) as error:
        raise SandboxError(_unreachable(str(error))) from None
    return client


def _unreachable(error: str) -> str:
    where = os.environ.get("DOCKER_HOST") or "the default socket"
    text = " ".join(error.split())[:300]
    if "Permission denied" in error:
        remedy = "add yourself to the docker group"
    elif "TLS" in error or "certificate" in error:
        remedy = "check DOCKER_TLS_VERIFY and DOCKER_CERT_PATH"
    else:
        remedy = "start Docker or set DOCKER_HOST"
    return f"No Docker engine answers at {where} ({text}); {remedy}."


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn what the engine or the connection to it raises into SandboxError."""
    import docker
    import requests

    try:
        yield
    except docker.errors.ImageNotFound as error:
        raise SandboxError(
            f"The engine lost an image while {doing} ({_text(error)}); run the command again to rebuild it."
        ) from None
    except docker.errors.DockerException as error:
        raise SandboxError(
            f"The Docker engine failed while {doing}: {_text(error)}; see `execcritic doctor` and the engine's log."
        ) from None
    except (requests.RequestException, ConnectionError, TimeoutError) as error:
        raise SandboxError(
            f"The connection to the Docker engine broke while {doing} ({_text(error)}); check that it is running."
        ) from None


def _text(error: Exception) -> str:
    return " ".join(str(getattr(error, "explanation", None) or error).split())[:500]


@cache
def _host() -> str:
    """This machine and process-id namespace, in which a process id means something."""
    parts = [socket.gethostname()]
    for file in (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id")):
        if file.is_file():
            parts.append(file.read_text().strip())
            break
    namespace = Path("/proc/self/ns/pid")
    parts.append(str(namespace.readlink()) if namespace.exists() else "")
    return "/".join(parts)


def _started(pid: int) -> str:
    """When a process started (clock ticks since boot), "" where the system does not tell, "-" for no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "-"
    except PermissionError:
        pass
    return ""


def labels(run: str) -> dict[str, str]:
    """Labels of a container that this process owns."""
    pid = os.getpid()
    return {LABEL: "1", OWNER: f"{_host()} {pid} {_started(pid)}", RUN: run}


def image_labels(kind: str, **more: str) -> list[str]:
    """`commit` changes for an image: it is a cache, it has no owner."""
    fields = {LABEL: "1", OWNER: "", f"{LABEL}.kind": kind, **more}
    return [f'LABEL "{name}"="{value}"' for name, value in fields.items()]


def owner_is_dead(found: Mapping[str, str]) -> bool:
    """True where the labels name a process of this machine that is gone. Other machines' owners are never judged."""
    host, _, rest = found.get(OWNER, "").partition(" ")
    pid, _, started = rest.partition(" ")
    if host != _host() or not pid.isdigit():
        return False
    return _started(int(pid)) != started


def reap(client: DockerClient) -> int:
    """Remove containers of dead owners and images that a newer one has replaced; how many containers."""
    dead = [c for c in _ours(client) if owner_is_dead(c.attrs.get("Labels") or {})]
    for container in dead:
        remove(container)
    for image in client.images.list(filters={"label": f"{LABEL}=1", "dangling": True}):
        # A young one may be just about to get its name from the process that makes it.
        if datetime.now(UTC) - datetime.fromisoformat(image.attrs["Created"]) > YOUNG:
            _remove_image(client, str(image.id))
    return len(dead)


def clean(client: DockerClient) -> tuple[int, int]:
    """Remove every container and image of ours, running or not, whoever owns it; how many of each."""
    containers = _ours(client)
    for container in containers:
        remove(container)
    images = client.images.list(filters={"label": f"{LABEL}=1"})
    for image in images:
        for name in image.tags or [str(image.id)]:
            _remove_image(client, name)
    return len(containers), len(images)


def remove(container: Container) -> None:
    """Kill and remove a container with its anonymous volumes. One that is already gone is fine."""
    import docker

    try:
        container.remove(force=True, v=True)
    except docker.errors.NotFound:
        pass
    except docker.errors.APIError as error:
        if error.status_code != 409:  # another process is removing it right now
            raise


def _ours(client: DockerClient) -> list[Container]:
    # Sparse: a container that disappears between listing and inspection is not an error.
    found: Any = client.containers.list(all=True, sparse=True, filters={"label": f"{LABEL}=1"})
    return list(found)


def _remove_image(client: DockerClient, name: str) -> None:
    import docker

    try:
        client.images.remove(name)
    except docker.errors.ImageNotFound:
        pass
    except docker.errors.APIError as error:
        if error.status_code != 409:  # a container of another process still uses it
            raise
