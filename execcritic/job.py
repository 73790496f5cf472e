"""One piece of the main job, end to end: `resolve`, `test` (only the test) or `repair` (only the repair).

Everything a job needs is made here and bound together; what it does is the loop's (`execcritic_scaffold.loop`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from execcritic import __version__, clones, credentials, issues, places, records, runs, several
from execcritic.config import Config, kept
from execcritic.judging import open_judge
from execcritic.models import View, open_model
from execcritic.places import Place
from execcritic.request import Request
from execcritic.runs import Run
from execcritic_scaffold import base as bases
from execcritic_scaffold.agents import Usage
from execcritic_scaffold.base import Base
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.extract import extract
from execcritic_scaffold.loop import Harness, Seat, resolve, write_test
from execcritic_scaffold.outcome import Verdict
from execcritic_scaffold.resolution import Gate, Resolution
from execcritic_scaffold.sandbox.protocol import Session
from execcritic_scaffold.selection.several import Selected
from execcritic_scaffold.site import Site, open_site, reopen_site
from execcritic_scaffold.task import EnvironmentSpec

if TYPE_CHECKING:
    from execcritic_roles.agent import ToolAgent


@dataclass(frozen=True)
class Done:
    """How a job ended. `resolution` is None for `test`; `selected` is there where there were several episodes."""

    gate: Gate
    resolution: Resolution | None
    usage: Mapping[str, Usage]
    selected: Selected | None = None


def carry_out(request: Request, config: Config, run: Run, view: View, token: str | None = None) -> Done:
    """Do the job and keep its record in `run`, which may hold an earlier attempt of the same job.

    `view` is shown every event after it is recorded. `token` authorises GitHub requests. Raises the errors of every
    part; the run stays readable and resumable.
    """
    cancel = threading.Event()

    def emit(kind: str, data: Mapping[str, Any]) -> None:
        run.emit(kind, data)
        view(kind, data)

    with ExitStack() as stack:
        stack.callback(cancel.set)
        models = {
            name: stack.enter_context(open_model(request, config, run, name, cancel, view)) for name in request.episodes
        }
        judge = stack.enter_context(open_judge(request, config, run, cancel, view))
        issue = _issue(request, run, token)
        frozen = FrozenBundle.load(Path(request.bundle)) if request.bundle else None
        base = _base(request, run, frozen)
        for warning in base.warnings:
            view("warning", {"text": warning})
        places.check_source_roots(request.place, base)
        place = request.place.over(frozen.record, *_strangers(request, run)) if frozen else request.place
        site = stack.enter_context(
            _site(base, replace(place.spec, setup_seconds=_setup_seconds(config, frozen)), place, frozen, run)
        )
        _write_manifest(run, request, config, base, site, issue)
        limits = config.session.limits()
        agents: dict[str, ToolAgent] = {}

        def seat(name: str) -> Seat:
            session = stack.enter_context(site.sandbox.open(site.workspace({}), limits))
            trajectory = stack.enter_context(models[name].trajectory(view))
            agents[name] = models[name].agent(_context(config, site, session, issue), trajectory)
            return Seat(agents[name], session)

        def used() -> dict[str, Usage]:
            return {name: agent.usage for name, agent in agents.items()} | ({"judge": judge.usage} if judge else {})

        harness = replace(_harness(site, issue, config, run), court=judge.court(issue) if judge else None)
        if request.several:
            selected = several.carry_out(request, config, run, site, issue, harness, judge, seat, view, cancel)
            return Done(selected.resolution.gate, selected.resolution, used(), selected)
        gate = Gate(frozen) if frozen else run.gate()
        seats: dict[str, Seat] = {}
        for role in request.roles:
            if role == "test" and gate is not None:
                continue
            seats[role] = seat(role)
        if "test" in seats and not request.side_by_side:
            tester = seats.pop("test")
            gate = write_test(tester.agent, tester.session, harness, config.loop, emit)
        if "repair" in seats:
            resolution = resolve(seats.get("test"), seats["repair"], harness, config.loop, emit, gate=gate)
            return Done(resolution.gate, resolution, used())
        assert gate is not None
        return Done(gate, None, used())


def _issue(request: Request, run: Run, token: str | None) -> str:
    kept = run.directory / "issue.md"
    if not kept.exists():
        run.write("issue.md", issues.read(request.issue, token=token).text.encode())
    return kept.read_bytes().decode()


def _base(request: Request, run: Run, frozen: FrozenBundle | None) -> Base:
    """Base of this run: that of the frozen test, else the one the run began with, else the checkout as it is now."""
    store = places.store()
    clone = run.path("repository")
    if frozen is not None:
        record = frozen.record
        tree, commit = record.base_tree, record.base_commit
        delta = frozen.blob(record.delta) if record.delta else b""
    elif (run.directory / "manifest.json").exists():
        known = run.manifest()["base"]
        tree, commit = known["tree"], known["commit"]
        delta = (run.directory / "base.patch").read_bytes()
    else:
        return places.snapshot(request.repo, store, clone)
    repo = places.checkout(request.repo, clone)
    base = bases.rebuild(repo, store, tree=tree, commit=commit, delta=delta)
    if base is None:
        raise UsageError(
            f"{repo} does not have the Base {tree[:12]} (commit {commit}); fetch it, or restore the checkout."
        )
    return base


def _strangers(request: Request, run: Run) -> list[Path]:
    """Folders that may hold what others made: a program in there is not started because a record says so."""
    brought = [run.directory] + ([Path(request.bundle)] if request.bundle else [])
    return brought if clones.is_url(request.repo) else [*brought, Path(request.repo)]


def _setup_seconds(config: Config, frozen: FrozenBundle | None) -> float:
    return (config.verify if frozen else config.qualify).setup_seconds


@contextmanager
def _site(base: Base, spec: EnvironmentSpec, place: Place, frozen: FrozenBundle | None, run: Run) -> Iterator[Site]:
    log, cache = run.path("setup.log"), places.cache()
    with places.sandbox(place) as sandbox:
        if frozen is not None:
            yield reopen_site(frozen, base, sandbox, spec, cache=cache, log=log)
        else:
            yield open_site(base, sandbox, spec, cache=cache, log=log)


def _harness(site: Site, issue: str, config: Config, run: Run) -> Harness:
    from execcritic_scaffold.qualify import qualify
    from execcritic_scaffold.verify import verify

    known = run.checks()

    def judge(bundle: FrozenBundle, patch: bytes, previous: Verdict | None) -> Verdict:
        # A resumed episode comes by the patches of the first attempt again.
        earlier = known.get(runs.digest(patch))
        return earlier or verify(site, bundle, patch, config.verify, role="agent", previous=previous)

    return Harness(
        extract=lambda session: take_patch(site, session),
        qualify=lambda submission: qualify(site, submission, issue, config.qualify),
        verify=judge,
        feedback_characters=config.qualify.feedback_characters,
    )


def take_patch(site: Site, session: Session) -> bytes:
    """The Base-relative patch of a workspace, without the files that belong to the environment and not to Base."""
    manifest = session.manifest()
    base = site.base.store.read_tree(site.base.tree)
    for path in site.extra:
        if manifest.get(path) == site.entries.get(path):
            manifest.pop(path, None)
            if path in base:
                manifest[path] = base[path]
    return extract(site.base.store, site.base.tree, manifest, session.read, site.base.ignored).patch


def _context(config: Config, site: Site, session: Session, issue: str) -> Any:
    from execcritic_roles.prompts.render import PromptContext

    roots = [root for root in site.source_roots if root != "."]
    prefix = f"PYTHONPATH={':'.join(roots)} " if roots else ""
    return PromptContext(
        issue=issue,
        workdir=session.workdir,
        runner=site.runner.name,
        run_hint=f"{prefix}{site.interpreter.python} -m pytest -q NODE" if site.runner.name == "pytest" else "",
        submissions=config.loop.submissions,
        revisions=config.loop.revisions,
        revision_turns=config.loop.revision_turns,
        first_turns=config.loop.repair_turns,
        disputes=config.selection.disputes if config.selection.judge != "none" else 0,
        feedback_chars=config.verify.feedback_characters,
    )


def _write_manifest(run: Run, request: Request, config: Config, base: Base, site: Site, issue: str) -> None:
    if (run.directory / "manifest.json").exists():
        return
    run.write("base.patch", base.delta)
    run.write_json(
        "manifest.json",
        {
            "schema": runs.SCHEMA,
            "execcritic": __version__,
            "request": credentials.masked(asdict(request)),
            "config": kept(config),
            "issue_sha256": runs.digest(issue.encode()),
            "base": {"tree": base.tree, "commit": base.commit},
            "environment": records.plain(site.certificate()),
        },
    )
