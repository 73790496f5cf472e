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

from execcritic import __version__, clones, credentials, environments, issues, places, pulls, records, runs, several
from execcritic.config import Config, kept
from execcritic.github.server import Server
from execcritic.judging import open_judge
from execcritic.models import View, open_model
from execcritic.places import Place
from execcritic.request import Request
from execcritic.review import Review
from execcritic.runs import Run
from execcritic_roles.terminal import Terminal
from execcritic_scaffold import base as bases
from execcritic_scaffold.agents import Submission, Usage
from execcritic_scaffold.base import Base
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.extract import extract
from execcritic_scaffold.install.detect import Plan
from execcritic_scaffold.loop import Harness, Seat, resolve, write_test
from execcritic_scaffold.outcome import Verdict
from execcritic_scaffold.qualification import Qualification
from execcritic_scaffold.resolution import Gate, Resolution
from execcritic_scaffold.sandbox.protocol import Session
from execcritic_scaffold.selection.several import Selected
from execcritic_scaffold.site import Site, reopen_site

if TYPE_CHECKING:
    from execcritic_roles.agent import ToolAgent
    from execcritic_roles.brief import Brief


@dataclass(frozen=True)
class Done:
    """How a job ended. `resolution` is None for `test`; `selected` is there where there were several episodes."""

    gate: Gate
    resolution: Resolution | None
    usage: Mapping[str, Usage]
    selected: Selected | None = None


def carry_out(
    request: Request,
    config: Config,
    run: Run,
    view: View,
    terminal: Terminal,
    server: Server,
    cancel: threading.Event | None = None,
) -> Done:
    """Do the job and keep its record in `run`, which may hold an earlier attempt of the same job.

    `view` is shown every event after it is recorded. `terminal` is where a person is asked. `server` is the user's
    GitHub. Once `cancel` is set, the turns in progress are finished and Interrupted is raised. Raises the errors of
    every part; the run stays readable and resumable.
    """
    cancel = cancel or threading.Event()

    def emit(kind: str, data: Mapping[str, Any]) -> None:
        run.emit(kind, data)
        view(kind, data)

    with ExitStack() as stack:
        stack.callback(cancel.set)
        models = {
            name: stack.enter_context(open_model(request, config, run, name, cancel, view, terminal))
            for name in request.episodes
        }
        judge = stack.enter_context(open_judge(request, config, run, cancel, view, terminal))
        issue = _issue(request, config, run, view, server)
        frozen = FrozenBundle.load(Path(request.bundle)) if request.bundle else None
        base = _base(request, run, frozen, server)
        if request.open_pr:
            pulls.check_base(base)
        for warning in base.warnings:
            view("warning", {"text": warning})
        places.check_source_roots(request.place, base)
        place = request.place.over(frozen.record, *_strangers(request, run)) if frozen else request.place
        site, plan = stack.enter_context(_site(base, place, frozen, run, config, emit))
        _write_manifest(run, request, config, base, site, issue, plan)
        limits = config.session.limits()
        brief = _brief(config, site, issue)
        review = Review(terminal, issue, run.log, run.events()) if request.review else None
        agents: dict[str, ToolAgent] = {}

        def seat(name: str) -> Seat:
            session = stack.enter_context(site.sandbox.open(site.workspace({}), limits))
            trajectory = stack.enter_context(models[name].trajectory(view))
            agents[name] = models[name].agent(_context(config, site, session, issue, brief), trajectory)
            return Seat(agents[name], session)

        def used() -> dict[str, Usage]:
            return {name: agent.usage for name, agent in agents.items()} | ({"judge": judge.usage} if judge else {})

        harness = replace(_harness(site, issue, config, run, review), court=judge.court(issue) if judge else None)
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


def _issue(request: Request, config: Config, run: Run, view: View, server: Server) -> str:
    kept = run.directory / "issue.md"
    if not kept.exists():
        issue = issues.read(request.issue, server, config.github)
        for note in issue.notes:
            view("warning", {"text": note})
        run.write("issue.md", issue.text.encode())
    return kept.read_bytes().decode()


def _base(request: Request, run: Run, frozen: FrozenBundle | None, server: Server) -> Base:
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
        return places.snapshot(request.repo, store, clone, request.ref, server)
    repo = places.checkout(request.repo, clone, request.ref, server)
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


@contextmanager
def _site(
    base: Base, place: Place, frozen: FrozenBundle | None, run: Run, config: Config, emit: environments.Tell
) -> Iterator[tuple[Site, Plan | None]]:
    log, cache = run.path("setup.log"), places.cache()
    with places.sandbox(place) as sandbox:
        if frozen is not None:
            spec = environments.spec(place, config, config.verify.setup_seconds)
            yield reopen_site(frozen, base, sandbox, spec, cache=cache, log=log), None
        else:
            yield environments.opened(base, sandbox, place, config, cache=cache, log=log, tell=emit)


def _harness(site: Site, issue: str, config: Config, run: Run, review: Review | None) -> Harness:
    from execcritic_scaffold.qualify import qualify
    from execcritic_scaffold.verify import verify

    known = run.checks()

    def admit(submission: Submission) -> Qualification:
        result = qualify(site, submission, issue, config.qualify)
        return review(submission, result) if review is not None else result

    def judge(bundle: FrozenBundle, patch: bytes, previous: Verdict | None) -> Verdict:
        # A resumed episode comes by the patches of the first attempt again.
        earlier = known.get(runs.digest(patch))
        return earlier or verify(site, bundle, patch, config.verify, role="agent", previous=previous)

    return Harness(
        extract=lambda session: take_patch(site, session),
        qualify=admit,
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


def _brief(config: Config, site: Site, issue: str) -> Brief:
    from execcritic_roles import brief

    base = site.base
    tree = brief.read_base(base.store, base.tree, site.runner.discovery, site.source_roots, site.tops)
    return brief.write(tree, issue, config.brief.tokens)


def _context(config: Config, site: Site, session: Session, issue: str, brief: Brief) -> Any:
    from execcritic_roles.brief import running
    from execcritic_roles.prompts.render import PromptContext

    name, example = site.runner.name, brief.example
    return PromptContext(
        issue=issue,
        workdir=session.workdir,
        runner=name,
        run_hint=running.command(name, site.interpreter.python, site.source_roots),
        node_example=running.node_id(name, example.path, example.names) if example else "",
        brief=brief.text,
        submissions=config.loop.submissions,
        revisions=config.loop.revisions,
        revision_turns=config.loop.revision_turns,
        first_turns=config.loop.repair_turns,
        disputes=config.selection.disputes if config.selection.judge != "none" else 0,
        feedback_chars=config.verify.feedback_characters,
    )


def _write_manifest(
    run: Run, request: Request, config: Config, base: Base, site: Site, issue: str, plan: Plan | None
) -> None:
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
            "setup_found": records.plain(plan.steps) if plan else None,
        },
    )
