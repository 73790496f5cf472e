"""A site: Base, a sandbox, an interpreter and a runner put together; everything else runs tests through it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from execcritic_scaffold import layout
from execcritic_scaffold.base import Base
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.cachefile import write_json
from execcritic_scaffold.errors import EnvironmentFailure
from execcritic_scaffold.files import GITLINK, SYMLINK, Changes, Entry, File
from execcritic_scaffold.runners import registry
from execcritic_scaffold.runners.protocol import Runner
from execcritic_scaffold.sandbox.protocol import (
    Command,
    Interpreter,
    Limits,
    Prepared,
    Sandbox,
    Workspace,
)
from execcritic_scaffold.task import EnvironmentSpec

CONFIGURATION = frozenset(
    "pytest.ini .pytest.ini pytest.toml .pytest.toml pyproject.toml tox.ini setup.cfg setup.py runtests.py".split()
)


@dataclass(frozen=True)
class Site:
    """Where things are run. `tree` is Base plus the files its environment needs; `entries` are that tree's paths."""

    base: Base
    sandbox: Sandbox
    prepared: Prepared
    runner: Runner
    source_roots: tuple[str, ...]
    tops: frozenset[str]
    entries: Mapping[str, Entry]
    description: Mapping[str, Any]
    spec: EnvironmentSpec
    cache: Path
    canaries: bool = True
    extra: Changes = field(default_factory=dict)
    """Files that are no part of Base and that the environment needs (generated versions, built extensions)."""

    @property
    def interpreter(self) -> Interpreter:
        return self.prepared.interpreter

    @property
    def runner_in_tree(self) -> bool:
        """True where the repository is the runner itself, so that the checkout's runner is what must run."""
        return self.runner.name == "pytest" and "_pytest" in self.tops

    @cached_property
    def root_modules(self) -> frozenset[str]:
        """Every name importable right below the source roots."""
        return layout.root_modules(self.entries, self.source_roots)

    @cached_property
    def importable(self) -> Mapping[str, set[str]]:
        """For every folder, as a prefix, what is importable right below it (see `layout.importable`)."""
        return layout.importable(self.entries)

    @property
    def digest(self) -> str:
        """Identity of the environment: interpreter or image, what is installed, and the extra files."""
        whole = hashlib.sha256(self.interpreter.digest.encode())
        for path, file in sorted(self.extra.items()):
            whole.update(repr((path, file.mode if file else None)).encode())
            whole.update(hashlib.sha256(file.data if file else b"").digest())
        return whole.hexdigest()

    def workspace(self, changes: Changes, readonly: frozenset[str] = frozenset()) -> Workspace:
        return Workspace(self.prepared, changes, readonly)

    def read(self, path: str) -> bytes | None:
        """Bytes of a regular file of Base; None where it has none."""
        entry = self.entries.get(path)
        if entry is None or entry.mode in (SYMLINK, GITLINK):
            return None
        return self.base.store.read_blob(entry.oid)

    def certificate(self) -> dict[str, Any]:
        """How this environment can be rebuilt and recognised."""
        return {
            "sandbox": self.sandbox.name,
            "python": self.spec.python,
            "image": self.spec.image,
            "setup": list(self.spec.setup),
            "digest": self.digest,
            "source_roots": list(self.source_roots),
            "version": self.description["python"],
            "distributions": dict(sorted(self.description["distributions"].items())),
        }


def open_site(
    base: Base, sandbox: Sandbox, spec: EnvironmentSpec, *, cache: Path, log: Path | None = None,
    runner_options: Mapping[str, Any] | None = None,
) -> Site:  # fmt: skip
    """Make Base ready to run in a sandbox. Slow once per Base and environment, cached by content afterwards.

    `log` receives the output of set-up commands. Raises EnvironmentFailure and SandboxError.
    """
    if spec.python is None and spec.image is None:
        spec = replace(spec, python=default_python())
    interpreter = sandbox.inspect(spec.python, spec.image)
    extra: dict[str, File | None] = dict(base.environment_files)
    tree = base.store.edit(base.tree, extra) if extra else base.tree
    prepared = _prepare(base, sandbox, interpreter, tree)
    if spec.setup:
        log = log or cache / "setup.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        built = sandbox.build(prepared, spec.setup, spec.setup_env, log, Limits(seconds=spec.setup_seconds))
        extra |= built.changes
        interpreter = built.interpreter
        tree = base.store.edit(base.tree, extra) if extra else base.tree
        prepared = _prepare(base, sandbox, interpreter, tree)
    entries = base.store.read_tree(tree)
    files = configuration(base, entries)
    roots = spec.source_roots or layout.source_roots(files)
    runner = registry.choose(files, spec.runner, runner_options)
    description = _describe(sandbox, prepared, cache)
    return Site(
        base=base,
        sandbox=sandbox,
        prepared=prepared,
        runner=runner,
        source_roots=tuple(r.rstrip("/").removeprefix("./") or "." for r in roots),
        tops=layout.top_level(files, roots) | layout.installed_too(files, roots, description["installed"]),
        entries=entries,
        description=description,
        spec=spec,
        cache=cache,
        canaries=bool((runner_options or {}).get("canaries", True)),
        extra=extra,
    )


def reopen_site(
    bundle: FrozenBundle, base: Base, sandbox: Sandbox, spec: EnvironmentSpec, *, cache: Path, log: Path | None = None
) -> Site:
    """The site a bundle was frozen in, as far as it can be had here: with the runner's recorded options and the
    recorded files of the environment, from the bundle where it carries them, else from the checkout by hash.

    One that cannot be had is left out; the digest then differs, which verification reports. Raises as `open_site`.
    """
    files: dict[str, File] = {}
    for path, blob in bundle.record.environment_files.items():
        mine = base.environment_files.get(path)
        if blob.sha256 in bundle.blobs:
            files[path] = File(bundle.blob(blob), blob.mode)
        elif mine is not None and hashlib.sha256(mine.data).hexdigest() == blob.sha256:
            files[path] = mine
    base = replace(base, environment_files=files)
    return open_site(base, sandbox, spec, cache=cache, log=log, runner_options=bundle.record.runner_options)


def as_recorded(site: Site, bundle: FrozenBundle) -> Site:
    """The site with the runner options the bundle was frozen with (admission may have left some out)."""
    options = bundle.record.runner_options
    canaries = bool(options.get("canaries", True))
    same = list(site.runner.arguments) == list(options.get("arguments", ())) and site.canaries == canaries
    if same and site.runner.name == bundle.record.runner:
        return site
    files = configuration(site.base, site.entries)
    name = site.spec.runner or registry.recorded(bundle.record.runner)
    return replace(site, runner=registry.choose(files, name, options), canaries=canaries)


def default_python() -> str:
    """The active virtual environment's interpreter, else the one this program runs under."""
    active = os.environ.get("VIRTUAL_ENV")
    candidate = Path(active) / "bin" / "python" if active else None
    return str(candidate) if candidate and candidate.exists() else sys.executable


def without_arguments(site: Site, arguments: tuple[str, ...]) -> Site | None:
    """The site with runner arguments left out that the environment does not know; None where none are."""
    runner = site.runner.without(arguments)
    return replace(site, runner=runner) if runner else None


def _prepare(base: Base, sandbox: Sandbox, interpreter: Interpreter, tree: str) -> Prepared:
    if known := sandbox.ready(tree, interpreter):
        return known
    holder = Path(tempfile.mkdtemp(prefix="execcritic-"))
    try:
        source = holder / "tree"
        base.store.materialise(tree, source)
        return sandbox.prepare(tree, source, interpreter)
    finally:
        shutil.rmtree(holder, ignore_errors=True)


def configuration(base: Base, entries: Mapping[str, Entry]) -> dict[str, bytes | None]:
    """Base's paths, with bytes for the few files that say how tests are run."""
    wanted = {
        path: entry.oid
        for path, entry in entries.items()
        if path.rsplit("/", 1)[-1] in CONFIGURATION and path.count("/") <= 2 and entry.mode not in (SYMLINK, GITLINK)
    }
    blobs = base.store.read_blobs(wanted.values())
    return {path: blobs.get(wanted[path]) if path in wanted else None for path in entries}


def _describe(sandbox: Sandbox, prepared: Prepared, cache: Path) -> dict[str, Any]:
    """What `inject/describe.py` says of the environment, kept by its digest."""
    kept = cache / "environments" / f"{sandbox.name}-{prepared.interpreter.digest.replace(':', '-')[:80]}.json"
    try:
        known: dict[str, Any] = json.loads(kept.read_bytes())
        return known
    except (OSError, ValueError):
        pass  # not described yet, or a torn file: describe it (again)
    command = Command([prepared.interpreter.python, f"{sandbox.support}/describe.py"])
    done = sandbox.run(Workspace(prepared), command, Limits(seconds=60))
    try:
        described: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        tail = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no output"]
        raise EnvironmentFailure(
            f"{prepared.interpreter.python} does not run in the {sandbox.name} sandbox ({tail[0]}); "
            "name another with --python or --image, or see `execcritic doctor`."
        ) from None
    write_json(kept, described)
    return described
