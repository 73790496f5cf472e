"""From what the user named to what the harness needs: a repository, a cache, a sandbox, an environment."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from execcritic_scaffold import base as bases
from execcritic_scaffold.base import Base
from execcritic_scaffold.bundle import BundleRecord
from execcritic_scaffold.errors import InfrastructureError, SandboxError, UsageError
from execcritic_scaffold.sandbox.prepare import cache_root
from execcritic_scaffold.sandbox.protocol import Sandbox
from execcritic_scaffold.store import Store
from execcritic_scaffold.task import EnvironmentSpec

CLONE_SECONDS = 1800


@dataclass(frozen=True)
class Place:
    """What the user said about where code runs. None: found, or what a bundle recorded."""

    sandbox: str | None = None
    python: str | None = None
    image: str | None = None
    setup: tuple[str, ...] = ()
    source_roots: tuple[str, ...] | None = None
    runner: str | None = None

    def __post_init__(self) -> None:
        if self.python and self.image:
            raise UsageError("--python and --image exclude each other; give one of them.")

    @property
    def spec(self) -> EnvironmentSpec:
        return EnvironmentSpec(
            python=self.python,
            image=self.image,
            setup=self.setup,
            source_roots=self.source_roots,
            runner=self.runner,
        )

    def over(self, record: BundleRecord) -> Place:
        """This place where something was said, else what a bundle recorded of its environment and runner."""
        recorded: Mapping[str, Any] = record.environment
        named = bool(self.python or self.image)
        same_kind = not named or bool(self.image) == bool(recorded.get("image"))
        return replace(
            self,
            sandbox=self.sandbox or (recorded.get("sandbox") if same_kind else None),
            python=self.python if named else recorded.get("python") if not recorded.get("image") else None,
            image=self.image if named else recorded.get("image"),
            setup=self.setup if named or self.setup else tuple(recorded.get("setup", ())),
            source_roots=self.source_roots or tuple(recorded.get("source_roots", ())) or None,
            runner=self.runner or record.runner,
        )


def cache() -> Path:
    """Where Bases, environments and byte code are kept between runs; safe to delete."""
    return cache_root()


def store() -> Store:
    return Store(cache() / "store")


def checkout(repo: str, clones: Path) -> Path:
    """The checkout that `--repo` names; a git URL is cloned to `clones`, once."""
    if not is_url(repo):
        return Path(repo)
    if not clones.exists():
        clone(repo, clones)
    return clones


def snapshot(repo: str, into: Store, clones: Path) -> Base:
    """Base of a checkout as it is, or of the default branch of a git URL."""
    path = checkout(repo, clones)
    if not is_url(repo):
        return bases.snapshot(path, into)
    commit, tree = bases.resolve_commit(path, into, "HEAD")
    return Base(into, tree, commit, b"", {}, ())


def is_url(repo: str) -> bool:
    """A URL, or `git@host:path` unless a folder of that name exists."""
    host, colon, path = repo.partition(":")
    scp_like = bool(colon and path and "@" in host and "/" not in host) and not Path(repo).exists()
    return "://" in repo or scp_like


def clone(url: str, directory: Path) -> None:
    """Clone without a work tree: no hook, filter or attribute of the repository has anything to act on."""
    kept = ("PATH", "HOME", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "https_proxy", "http_proxy", "no_proxy", "all_proxy")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment |= {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    options = ["-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never"]
    try:
        done = subprocess.run(
            ["git", *options, "clone", "--quiet", "--no-checkout", "--template=", "--", url, os.fspath(directory)],
            env=environment,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=CLONE_SECONDS,
        )
    except FileNotFoundError:
        raise InfrastructureError("git is not installed; install it, see `execcritic doctor`.") from None
    except subprocess.TimeoutExpired:
        raise InfrastructureError(
            f"Cloning {url} took over {CLONE_SECONDS} s; clone it yourself, give the folder."
        ) from None
    if done.returncode:
        reason = (done.stderr.decode(errors="replace").strip().splitlines() or ["git said nothing"])[-1]
        raise InfrastructureError(f"{url} cannot be cloned ({reason}); check the address, or clone it yourself.")


@contextmanager
def sandbox(place: Place) -> Iterator[Sandbox]:
    """The sandbox named, else the best one that works here, for the time of a `with` block (DESIGN 4).

    Raises SandboxError with the reason and the remedy.
    """
    from execcritic_scaffold.sandbox import registry

    chosen: Sandbox | None
    name = place.sandbox or ("docker" if place.image else None)
    if name is None:
        chosen, problems = registry.best()
        if chosen is None:
            raise SandboxError(
                f"No isolation works here. {' '.join(problems)} See `execcritic doctor`, or accept no isolation at all "
                "with --sandbox local."
            )
    else:
        chosen = registry.get(name)
    try:
        if name is not None and (problem := chosen.probe()):
            raise SandboxError(f"The {name} sandbox does not work here: {problem}")
        yield chosen
    finally:
        chosen.close()
