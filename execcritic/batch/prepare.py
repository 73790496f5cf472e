"""From the source of an instance to what the main job is given: a repository without history, and where code runs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from execcritic import clones, places
from execcritic.batch import checkouts, kept, sdists
from execcritic.batch.instance import Checkout, Gold, Image, Sdist, Source
from execcritic.places import Place
from execcritic_scaffold.errors import EnvironmentFailure, PatchError
from execcritic_scaffold.sandbox.protocol import WORKDIR


@dataclass(frozen=True)
class Prepared:
    """`repo` and `ref` are what `--repo` and `--ref` name; `place` says where code runs. Nobody may write to `repo`:
    instances with the same source share it."""

    repo: str
    place: Place
    ref: str | None = None


def prepared(source: Source, runner: str | None = None) -> Prepared:
    """Make a source ready: fetched, unpacked and built once, and kept below the cache. Slow the first time.

    Raises EnvironmentFailure (no such image, release or folder; what cannot be built), PatchError for a `base_patch`
    that does not apply, and SandboxError where no engine answers.
    """
    match source:
        case Sdist():
            repo = sdists.checkout(source, places.store())
            python = str(sdists.environment(source.pins))
            return Prepared(str(repo), Place(python=python, source_roots=source.source_roots, runner=runner))
        case Image():
            return Prepared(str(_inside(source)), Place(image=source.name, runner=runner))
        case Checkout():
            if not clones.is_url(source.repo) and not Path(source.repo).is_dir():
                raise EnvironmentFailure(f"There is no folder {source.repo}; correct the data set, or make it.")
            return Prepared(source.repo, Place(runner=runner), source.ref)


def with_tests(gold: Gold, source: Source) -> Gold:
    """The gold with the test patch of a source that hides its tests; any other gold as it is.

    Not for a process that has to do with an agent. Raises as `prepared`.
    """
    if not isinstance(source, Image) or not source.hidden or gold.test_patch:
        return gold
    from execcritic.batch import insides

    store = places.store()
    whole = _patched(source, insides.tree_of(source.name, source.workdir, store))
    return replace(gold, test_patch=store.diff(_without(source, whole), whole))


def _inside(source: Image) -> Path:
    """The checkout of the repository in an image, `base_patch` applied and the hidden files taken out."""
    from execcritic.batch import insides

    if source.workdir != WORKDIR:
        raise EnvironmentFailure(
            f"The repository of image {source.name} lies in {source.workdir}; only one in {WORKDIR} can be "
            "worked on, so build an image from it that has it there."
        )
    digest = insides.digest(source.name)
    key = hashlib.sha256(repr((digest, source.workdir, source.base_patch, source.hidden)).encode()).hexdigest()[:32]

    def make(directory: Path) -> None:
        store = places.store()
        tree = insides.tree_of(digest, source.workdir, store)
        checkouts.write(store, _without(source, _patched(source, tree)), directory)

    return kept.once(kept.root() / "images" / key, make)


def _patched(source: Image, tree: str) -> str:
    try:
        return places.store().apply(tree, source.base_patch)
    except PatchError as error:
        raise PatchError(f"What the instance changes in image {source.name} cannot be applied: {error}") from None


def _without(source: Image, tree: str) -> str:
    store = places.store()
    absent = sorted(set(source.hidden) - store.read_tree(tree).keys())
    if absent:
        raise EnvironmentFailure(f"Image {source.name} has no {absent[0]}, which is to be taken out; check the image.")
    return store.edit(tree, dict.fromkeys(source.hidden))
