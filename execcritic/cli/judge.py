"""`qualify` and `verify`: the harness by itself, without any model."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from execcritic import output
from execcritic.cli import options
from execcritic_scaffold.outcome import Outcome

if TYPE_CHECKING:
    from execcritic.config import Config
    from execcritic.places import Place
    from execcritic_scaffold.bundle import FrozenBundle
    from execcritic_scaffold.outcome import Verdict
    from execcritic_scaffold.qualification import Qualification
    from execcritic_scaffold.store import Store

QUALIFY_EXIT = {"QUALIFIED": 0, "REJECTED": 3, "INCONCLUSIVE": 5}
VERIFY_EXIT = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 5, "FORBIDDEN": 6, "TAMPERED": 6}
FINDING_EXIT = 6
"""`verify --strict` on a PASS that has findings: not 0, and 1 is never anything but FAIL."""
INFORMATIONAL = frozenset({"SET_ASIDE"})
"""Findings that `--strict` lets pass: a pull request's own tests are good news, and say nothing against it."""


def qualify(
    repo: options.RepoPath,
    issue: options.IssueSource,
    test_patch: Annotated[
        Path, typer.Option("--test-patch", metavar="FILE", help="A diff that adds or changes tests.")
    ],
    node: Annotated[list[str], typer.Option("--node", metavar="ID", help="A test that must fail on Base; repeatable.")],
    companion: Annotated[
        list[str], typer.Option("--companion", metavar="ID", help="A test that must pass on Base too; repeatable.")
    ] = [],  # noqa: B006 - typer copies it
    contract: Annotated[
        Path | None, typer.Option("--contract", metavar="FILE", help="The behavior contract, as JSON.")
    ] = None,
    ref: options.Ref = None,
    comments: options.Comments = False,
    runner: options.RunnerName = None,
    sandbox: options.SandboxName = None,
    python: options.Python = None,
    image: options.Image = None,
    setup: options.Setup = [],  # noqa: B006
    source_root: options.SourceRoots = [],  # noqa: B006
    guard: options.Guard = None,
    guard_seconds: options.GuardSeconds = None,
    repeats: options.Repeats = None,
    config: options.ConfigFile = None,
    set_: options.Sets = [],  # noqa: B006
    out: options.Out = None,
    json: options.Json = False,
) -> int:
    """Bring your own test: admit it, if it fails cleanly on Base, and freeze it. --out becomes the bundle."""
    from execcritic import environments, folders, issues, messages, places, records
    from execcritic.cli import common
    from execcritic.github.server import Server
    from execcritic.progress import Plain
    from execcritic_scaffold.agents import Submission
    from execcritic_scaffold.qualify import qualify as judge

    where = common.place(sandbox, python, image, setup, source_root, runner)
    checkout = common.folder(repo)
    whole = common.settings("qualify", config, set_, guard, guard_seconds, repeats)
    settings, server = whole.qualify, Server.of(whole.github.base_url, os.environ)
    reading = whole.github.model_copy(update={"comments": comments or whole.github.comments})
    found = issues.read(issues.located(issue, repo, server), server, reading)
    for note in found.notes:
        output.say(note)
    submission = Submission(
        common.read(test_patch, "--test-patch"),
        tuple(node),
        tuple(companion),
        contract=common.read_object(contract, "--contract") if contract else None,
        author="person",
    )
    target = out if out is not None else folders.default() / "bundle"
    made = folders.make_new(target)
    try:
        base = places.snapshot(repo, places.store(), checkout, ref)
        for warning in base.warnings:
            output.say(warning)
        places.check_source_roots(where, base)
        with places.sandbox(where, whole.sandbox) as engine:
            tell = Plain().show
            site, _ = environments.opened(base, engine, where, whole, cache=places.cache(), tell=tell, check=False)
            result = _advised(judge(site, submission, found.text, settings), where.runner)
        if result.bundle is not None:
            result.bundle.save(target)
            if out is None:
                folders.hide(target.parent)
    finally:
        folders.drop_empty(made)
    bundle = str(target) if result.bundle is not None else None
    body = {
        "status": result.status,
        "code": result.code,
        "detail": result.detail,
        "next_action": result.next_action,
        "nodes": records.plain(result.nodes),
        "findings": records.plain(result.findings),
        "bundle": bundle,
        "bundle_id": result.bundle.id if result.bundle is not None else None,
    }
    output.result(json, body, messages.qualification(result, bundle))
    return QUALIFY_EXIT[result.status]


def _advised(result: Qualification, runner: str | None) -> Qualification:
    """Where no test gave an answer under a runner that the user named, that name is the first thing to doubt."""
    if runner is None or any(outcome is Outcome.PASSED or outcome.behavioural for outcome in result.nodes.values()):
        return result
    return replace(result, next_action=f"Leave --runner {runner} out, so that it is found. {result.next_action}")


def verify(
    bundle: options.BundleDir,
    repo: options.RepoPath,
    patch: Annotated[
        Path | None, typer.Option("--patch", metavar="FILE|-", help="The Base-relative patch; - for stdin.")
    ] = None,
    head: Annotated[
        str | None, typer.Option("--head", metavar="REV", help="Judge what this revision of the repository changes.")
    ] = None,
    base: Annotated[
        str | None, typer.Option("--base", metavar="REV", help="With --head: where it branched off; else its parent.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", metavar="", help="Findings turn PASS into exit 6; SET_ASIDE does not.")
    ] = False,
    markdown: Annotated[
        Path | None,
        typer.Option("--markdown", metavar="FILE", help="Write the certificate, for a pull request's comment."),
    ] = None,
    runner: options.RunnerName = None,
    sandbox: options.SandboxName = None,
    python: options.Python = None,
    image: options.Image = None,
    setup: options.Setup = [],  # noqa: B006
    source_root: options.SourceRoots = [],  # noqa: B006
    guard: options.Guard = None,
    guard_seconds: options.GuardSeconds = None,
    repeats: options.Repeats = None,
    config: options.ConfigFile = None,
    set_: options.Sets = [],  # noqa: B006
    json: options.Json = False,
) -> int:
    """Judge a patch by a frozen test. Needs the bundle, a repository that has its commit, and the patch."""
    from execcritic import certificate, messages, outfile, places, records
    from execcritic.cli import common
    from execcritic_scaffold import base as bases
    from execcritic_scaffold.bundle import FrozenBundle
    from execcritic_scaffold.errors import BundleTampered, ExecCriticError, UsageError
    from execcritic_scaffold.outcome import Decision, Verdict

    if (patch is None) == (head is None):
        raise UsageError("Give either --patch FILE or --head REV.")
    if base is not None and head is None:
        raise UsageError("--base says where --head branched off; leave it out with --patch.")
    if markdown is not None:
        outfile.check(markdown, "--markdown")
    checkout = common.folder(repo)
    where = common.place(sandbox, python, image, setup, source_root, runner)
    settings = common.settings("verify", config, set_, guard, guard_seconds, repeats)
    try:
        frozen = FrozenBundle.load(common.bundle_folder(bundle))
    except BundleTampered as error:
        result = Verdict(Decision.TAMPERED, "BUNDLE", str(error))
        evidence: dict[str, Any] = {"bundle_id": None, "certificate": None}
        comment = f"### ExecCritic: {result.decision}\n\nThe bundle's bytes are not those that its hashes name.\n"
    else:
        store = places.store()
        if head is not None:
            start, data = bases.diff_of(checkout, store, head, base)
            if start != frozen.record.base_tree:
                output.say(
                    "The revision starts from another state than the frozen test's Base; its changes are applied there."
                )
        else:
            assert patch is not None
            data = common.read(patch, "--patch")
        result = _judge(frozen, checkout, store, data, where, settings, bundle)
        evidence = {"bundle_id": frozen.id, "certificate": certificate.data(frozen, result, data)}
        comment = certificate.markdown(frozen, result, data)
    body = records.plain(result)
    output.result(json, {"verdict": body.pop("decision"), **body, **evidence}, messages.verdict(result))
    if markdown is not None:
        try:
            outfile.write(markdown, comment.encode("utf-8", "backslashreplace"), "--markdown")
        except ExecCriticError as error:  # the one result is said already
            output.say(str(error))
            return error.exit_code
    if strict and result.decision is Decision.PASS and {finding.code for finding in result.findings} - INFORMATIONAL:
        return FINDING_EXIT
    return VERIFY_EXIT[result.decision]


def _judge(
    frozen: FrozenBundle, repo: Path, store: Store, patch: bytes, said: Place, settings: Config, bundle: Path
) -> Verdict:
    from execcritic import environments, places
    from execcritic_scaffold import base as bases
    from execcritic_scaffold.outcome import Decision, Verdict
    from execcritic_scaffold.site import reopen_site
    from execcritic_scaffold.verify import verify as judge

    record = frozen.record
    place = said.over(record, repo, bundle)
    delta = frozen.blob(record.delta) if record.delta else b""
    found = bases.rebuild(repo, store, tree=record.base_tree, commit=record.base_commit, delta=delta)
    if found is None:
        commit = f"commit {record.base_commit[:12]}" if record.base_commit else f"tree {record.base_tree[:12]}"
        detail = f"{repo} does not have the frozen test's Base ({commit}); fetch it, or name the right repository."
        return Verdict(Decision.INCONCLUSIVE, "BASE_NOT_FOUND", detail)
    places.check_source_roots(said, found)
    with places.sandbox(place, settings.sandbox) as engine:
        spec = environments.spec(place, settings, settings.verify.setup_seconds)
        site = reopen_site(frozen, found, engine, spec, cache=places.cache())
        return judge(site, frozen, patch, settings.verify)
