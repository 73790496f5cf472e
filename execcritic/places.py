"""From what the user named to what the harness needs: a repository, a cache, a sandbox, an environment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from execcritic import recorded
from execcritic.clones import clone, is_url
from execcritic.github.server import Server
from execcritic_scaffold import base as bases
from execcritic_scaffold.base import Base
from execcritic_scaffold.bundle import BundleRecord
from execcritic_scaffold.errors import SandboxError, UsageError
from execcritic_scaffold.runners import registry as runners
from execcritic_scaffold.sandbox.prepare import cache_root
from execcritic_scaffold.sandbox.protocol import Sandbox
from execcritic_scaffold.site import default_python
from execcritic_scaffold.store import Store
from execcritic_scaffold.task import EnvironmentSpec

if TYPE_CHECKING:
    from execcritic.config import SandboxSettings

AUTO, NONE = ("auto",), ("none",)
"""Words that `--setup` takes instead of commands: found from the repository's files; none, whatever they say."""


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
        if len(self.setup) > 1 and {*AUTO, *NONE} & set(self.setup):
            raise UsageError("--setup auto and --setup none stand for all commands; give one of them, or commands.")

    @property
    def spec(self) -> EnvironmentSpec:
        return EnvironmentSpec(
            python=self.python,
            image=self.image,
            setup=() if self.setup in (AUTO, NONE) else self.setup,
            source_roots=self.source_roots,
            runner=self.runner,
        )

    def over(self, record: BundleRecord, *strangers: Path) -> Place:
        """This place where something was said, else what a bundle recorded of its environment and runner.

        `strangers`: folders whose content others may have made, the repository among them. Raises UsageError where
        only the user may decide (see `recorded`).
        """
        environment: Mapping[str, Any] = record.environment
        named = bool(self.python or self.image)
        image = recorded.text(environment, "image")
        sandbox = self.sandbox
        if sandbox is None and (not named or bool(self.image) == bool(image)):
            sandbox = recorded.sandbox(recorded.text(environment, "sandbox"))
        python = self.python
        if not named and not image:
            python = recorded.python(recorded.text(environment, "python"), strangers, default_python())
        setup = () if self.setup == AUTO else self.setup  # found is what was recorded
        if not named and not setup:
            setup = recorded.setup(recorded.texts(environment, "setup"), sandbox)
        return replace(
            self,
            sandbox=sandbox,
            python=python,
            image=self.image if named else image,
            setup=setup,
            source_roots=self.source_roots or recorded.folders(environment, "source_roots") or None,
            runner=self._runner(record.runner),
        )

    def _runner(self, known: str) -> str:
        if self.runner is None:
            return runners.recorded(known)
        if {known, self.runner} <= set(runners.NAMES) and self.runner != known:
            raise UsageError(f"The test was frozen with the runner {known!r}, not {self.runner!r}; leave --runner out.")
        return self.runner

    def again(self, said: Place, *strangers: Path) -> Place:
        """This place, which a run's manifest holds, for going on with the run; `said` wins, where it says something.

        A manifest is no more to be trusted than a bundle. Raises UsageError as `over`.
        """
        sandbox = said.sandbox or recorded.sandbox(self.sandbox)
        return replace(
            self,
            sandbox=sandbox,
            python=said.python or recorded.python(self.python, strangers, default_python()),
            setup=said.setup or (NONE if self.setup == NONE else recorded.setup(self.setup, sandbox)),
            runner=said.runner or (runners.recorded(self.runner) if self.runner else None),
        )


def cache() -> Path:
    """Where Bases, environments and byte code are kept between runs; safe to delete."""
    return cache_root()


def store() -> Store:
    return Store(cache() / "store")


def checkout(repo: str, clones: Path, ref: str | None = None, server: Server | None = None) -> Path:
    """The checkout that `--repo` names; a git URL is cloned to `clones`, once, at `ref`."""
    if not is_url(repo):
        return Path(repo)
    if not clones.exists():
        clone(repo, clones, ref, server)
    return clones


def snapshot(repo: str, into: Store, clones: Path, ref: str | None = None, server: Server | None = None) -> Base:
    """Base of a checkout as it is, or of its commit `ref`; of a git URL, `ref` or the default branch.

    Raises UsageError for a `ref` that is not there.
    """
    path = checkout(repo, clones, ref, server)
    if is_url(repo):
        commit, tree = bases.resolve_commit(path, into, "HEAD")
        return Base(into, tree, commit, b"", {}, ())
    if ref is None:
        return bases.snapshot(path, into)
    commit, tree = _commit(path, into, ref)
    base = bases.rebuild(path, into, tree=tree, commit=commit, delta=b"")
    assert base is not None
    return base


def _commit(repo: Path, into: Store, ref: str) -> tuple[str, str]:
    """A revision of a checkout, or the branch of that name of its remote, as `git switch` takes it too."""
    try:
        return bases.resolve_commit(repo, into, ref)
    except UsageError as error:
        with suppress(UsageError):
            return bases.resolve_commit(repo, into, f"refs/remotes/origin/{ref}")
        raise error from None


@contextmanager
def sandbox(place: Place, settings: SandboxSettings | None = None) -> Iterator[Sandbox]:
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
        options = {"settings": settings.remote} if name == "remote" and settings else {}
        chosen = registry.get(name, **options)
    try:
        if name is not None and (problem := chosen.probe()):
            raise SandboxError(f"The {name} sandbox does not work here: {problem}{_instead(name, place)}")
        yield chosen
    finally:
        chosen.close()


def _instead(name: str, place: Place) -> str:
    """Advice that holds: another isolating sandbox only where it works here and can run what was asked for."""
    from execcritic_scaffold.sandbox import registry

    # Docker runs images, bubblewrap this machine's interpreters: neither stands in for the other's environment.
    for other in registry.ISOLATING:
        if other == name or (other == "bubblewrap" and place.image) or (other == "docker" and place.python):
            continue
        candidate = registry.get(other)
        works = candidate.probe() is None
        candidate.close()
        if works:
            return f" Or use --sandbox {other}{' with --image' if other == 'docker' else ''}, which works here."
    return ""


def check_source_roots(place: Place, base: Base) -> None:
    """Raises UsageError for a `--source-root` that is no folder of the repository.

    With set-up commands a folder may be made by them, so only its form is checked.
    """
    paths: set[str] = set()
    for root in place.source_roots or ():
        folder = PurePosixPath(root)
        if folder.is_absolute() or os.pardir in folder.parts:
            raise UsageError(f"--source-root {root} is not inside the repository; give a path relative to it.")
        paths = paths or {*base.store.read_tree(base.tree), *base.environment_files}
        prefix = "" if folder == PurePosixPath(".") else f"{folder}/"
        if place.setup in ((), NONE) and not any(path.startswith(prefix) for path in paths):
            raise UsageError(f"The repository has no folder {root}; check --source-root.")
