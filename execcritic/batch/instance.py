"""One task of a data set, as an agent may know it, and apart from it what only the audit may know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Image:
    """The environment is a docker image; the repository lies in `workdir` inside it, with its own dependencies.

    `base_patch` is applied to it before the first commit, then the files `hidden` are taken out: the official tests,
    where the image has them."""

    name: str
    workdir: str = "/testbed"
    base_patch: bytes = b""
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sdist:
    """The environment is a source distribution (`name==version`) from a package index and a virtual environment of
    `pins`. `base_patch` is applied before the first commit: what the task factory breaks and hides."""

    requirement: str
    pins: tuple[str, ...]
    source_roots: tuple[str, ...] = (".",)
    base_patch: bytes = b""


@dataclass(frozen=True)
class Checkout:
    """The repository is a folder of this machine, or a URL, at a commit; the environment is found as `resolve` does."""

    repo: str
    ref: str | None = None


Source = Image | Sdist | Checkout


@dataclass(frozen=True)
class Instance:
    """What an agent's process may be given. Gold is no part of it, so it cannot leak by being forgotten."""

    id: str
    repo: str
    """`owner/name`, for grouping; not a place to clone from."""
    problem: str
    source: Source
    base_commit: str | None = None
    version: str | None = None
    runner: str | None = None


@dataclass(frozen=True)
class Candidate:
    """A labelled patch. `resolved` is the official label, None where it is unknown."""

    id: str
    patch: bytes
    resolved: bool | None


@dataclass(frozen=True)
class Gold:
    """What only oracle mode, the audit and training rewards read, in processes that run no agent."""

    instance: str
    patch: bytes
    test_patch: bytes
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()
