"""What this machine has made at services and not deleted yet, on disk: the contract has no way to list it there.

A file below the cache for each sandbox, written before it is asked for and removed when it is deleted. It names the
process that owns it, so that what a killed one left behind is deleted by the next start, and all by `execcritic clean`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from execcritic_scaffold.errors import SandboxError
from execcritic_scaffold.sandbox import docker_engine
from execcritic_scaffold.sandbox.prepare import cache_root


@dataclass(frozen=True)
class Lease:
    """One sandbox at a service: its name there, the service's address, whose it is."""

    id: str
    url: str
    owner: str

    @property
    def path(self) -> Path:
        return folder() / f"{self.id}.json"


def folder() -> Path:
    return cache_root() / "remote" / "leases"


def take(url: str) -> Lease:
    """A new name for a sandbox at `url`, written down. Raises SandboxError where it cannot be."""
    lease = Lease(f"execcritic-{secrets.token_hex(10)}", url, docker_engine.labels("")[docker_engine.OWNER])
    try:
        folder().mkdir(parents=True, exist_ok=True, mode=0o700)
        lease.path.write_text(json.dumps({"url": url, "owner": lease.owner}))
    except OSError as error:
        raise SandboxError(
            f"{folder()} cannot be written ({error.strerror}); free space there or set EXECCRITIC_CACHE."
        ) from None
    return lease


def give_back(lease: Lease) -> None:
    lease.path.unlink(missing_ok=True)


def listed() -> list[Lease]:
    """What is written down. A file that is none of ours, or half written, is passed over."""
    found = []
    for path in sorted(folder().glob("execcritic-*.json")):
        try:
            body = json.loads(path.read_text())
            found.append(Lease(path.stem, str(body["url"]), str(body["owner"])))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def tidy() -> None:
    """Remove the folders of what is written down where nothing is any more."""
    for path in (folder(), folder().parent, folder().parent.parent):
        try:
            path.rmdir()
        except OSError:  # it holds something, or is not there
            return


def abandoned(lease: Lease) -> bool:
    return docker_engine.owner_is_dead({docker_engine.OWNER: lease.owner})


def reap(delete: Callable[[Lease], None], url: str) -> None:
    """Delete what dead processes left behind at `url`. What cannot be deleted now is left for the next time."""
    for lease in listed():
        if lease.url == url and abandoned(lease):
            try:
                delete(lease)
            except SandboxError:
                return
