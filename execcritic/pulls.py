"""A verified run as a pull request: shown, kept in the run's folder `pr/`, and sent only where that was said.

::

    pr/title.txt  pr/body.md                       what the pull request says
    pr/0001-test.patch  pr/0002-fix.patch          its two commits, for `git am --keep-cr`
    pr/pull_request.json                           where it is, once it was sent
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from execcritic import clones, evidence, places
from execcritic.github import commits, identity, names, origin, proposal, publish
from execcritic.github import issue as issues
from execcritic.github.commits import Author, Commit
from execcritic.github.names import Repository
from execcritic.github.proposal import Subject
from execcritic.github.publish import Opened, Order
from execcritic.github.server import Server
from execcritic.runs import Run
from execcritic_scaffold.base import Base
from execcritic_scaffold.checkout import Checkout, open_checkout
from execcritic_scaffold.errors import UsageError

_BRANCH = re.compile(
    r"(?!-)(?!.*(?:\.\.|//|@\{|\.lock(?:/|$)|/\.|[./]$))(?!/|\.)[^\x00-\x20\x7f~^:?*\[\\\ud800-\udfff]+"
)


@dataclass(frozen=True)
class Wishes:
    """What the user says of a pull request; None: found."""

    into: str | None = None
    base: str | None = None
    head_repo: str | None = None
    branch: str | None = None
    title: str | None = None
    author: str | None = None
    draft: bool = False


@dataclass(frozen=True)
class Shown:
    """A pull request as it was shown or sent, for `--json` and for people."""

    body: Mapping[str, Any]
    text: str


def check(repo: str, wishes: Wishes, server: Server, push: bool) -> tuple[Repository, str]:
    """Find what can be known to be wrong before any work is done: the repository and the commits' author.

    Raises UsageError.
    """
    if push and not server.token:
        raise UsageError("--push needs GITHUB_TOKEN; give one that may write contents and pull requests.")
    for option, name in (("--branch", wishes.branch), ("--base", wishes.base)):
        if name is not None and not _BRANCH.fullmatch(name):
            raise UsageError(f"{name!r} cannot be a branch; check {option}.")
    if wishes.title is not None and (not wishes.title.strip() or not wishes.title.isprintable()):
        raise UsageError("A title is one line of text; check --title.")
    if wishes.into is not None:
        into = _named(wishes.into, server, "--into")
    else:
        into = origin.need(repo, server, "A pull request", "name it with --into OWNER/REPO")
    if wishes.head_repo is not None:
        _named(wishes.head_repo, server, "--head-repo")
    return into, identity.author(wishes.author, None if clones.is_url(repo) else Path(repo), os.environ)


def check_base(base: Base) -> None:
    """Raises UsageError where a verdict on this Base would not hold for any commit that can be pushed."""
    _need_commit(base.commit, bool(base.delta))


def make(run: Run, wishes: Wishes, server: Server, push: bool) -> Shown:
    """Make the pull request of a verified run, keep it in the run, and, with `push`, send it.

    Raises UsageError where the run has no verified patch, or for what can be put right; InfrastructureError.
    """
    found = evidence.of(run)
    record = found.bundle.record
    _need_commit(record.base_commit, record.delta is not None)
    repo, ref = found.repo, found.ref
    into, author = check(repo, wishes, server, push)
    head = _named(wishes.head_repo, server, "--head-repo") if wishes.head_repo else into
    subject = _subject(run, found.issue, server)
    title = wishes.title or proposal.title(subject)
    with open_checkout(places.checkout(repo, run.path("repository"), ref, server)) as checkout:
        messages = proposal.messages(subject, found, title, into)
        made = commits.series(checkout, found.bundle, found.patch, messages, Author(author, found.ended))
        base = wishes.base or _base_branch(checkout, ref)
        order = Order(
            into=into,
            head=head,
            base=base,
            branch=wishes.branch or proposal.branch(subject, found),
            commit=made[1].id,
            start=str(record.base_commit),
            title=title,
            body=proposal.body(subject, found, into),
            draft=wishes.draft,
            published=_published(checkout, repo, into, base, str(record.base_commit)),
        )
        folder = _keep(run, order, made)
        opened = publish.publish(order, checkout.git.directory) if push else None
    body = _record(order, author, made, folder, opened)
    if opened is not None:
        run.write_json("pr/pull_request.json", body)
        run.log("pull.existed" if opened.existed else "pull.opened", {"url": opened.url, "branch": order.branch})
    return Shown(body, _text(order, author, made, folder, opened, run))


def _need_commit(commit: str | None, dirty: bool) -> None:
    if commit is None:
        raise UsageError("A pull request needs a git checkout with a commit to build on; commit first, and run again.")
    if dirty:
        raise UsageError(
            "The checkout has uncommitted changes, which the verdict rests on and a pull request would lack; commit "
            "and push them, or start from a commit with --ref, and run again."
        )


def _named(slug: str, server: Server, option: str) -> Repository:
    found = names.repository(slug, server) or (names.of_url(slug, server) if clones.is_url(slug) else None)
    if found is None:
        raise UsageError(f"{slug!r} is no repository on {server.web}; give OWNER/REPO with {option}.")
    return found


def _subject(run: Run, source: str, server: Server) -> Subject:
    text = (run.directory / "issue.md").read_bytes().decode("utf-8", "replace")
    line = next((line for line in text.splitlines() if line.strip()), "")
    page = issues.page(source, server) if "://" in source else None
    return Subject(line, page.repository, page.number) if page else Subject(line)


def _base_branch(checkout: Checkout, ref: str | None) -> str | None:
    """The branch of the server that the run started from; None for the default one, or where that is not known."""
    if ref and ref != "HEAD" and checkout.commit(f"refs/remotes/origin/{ref}"):
        return ref
    default = checkout.git.directory / "refs" / "remotes" / "origin" / "HEAD"
    pointer = default.read_bytes().decode("utf-8", "replace") if default.is_file() else ""
    return pointer.strip().partition("refs/remotes/origin/")[2] or None


def _published(checkout: Checkout, repo: str, into: Repository, base: str | None, start: str) -> bool:
    """Whether the branch `base`, as it was fetched last from this very repository, has the commit `start`."""
    own = origin.of(repo, into.server)
    tip = checkout.commit(f"refs/remotes/origin/{base}") if base and own and own.url == into.url else None
    return tip is not None and not checkout.git.need("rev-list", "-n1", start, f"^{tip}")


def _keep(run: Run, order: Order, made: tuple[Commit, Commit]) -> Path:
    run.write("pr/title.txt", f"{order.title}\n".encode())
    run.write("pr/body.md", order.body.encode("utf-8", "backslashreplace"))
    for name, commit in zip(("0001-test.patch", "0002-fix.patch"), made, strict=True):
        run.write(f"pr/{name}", commit.patch)
    return run.path("pr")


def _record(
    order: Order, author: str, made: tuple[Commit, Commit], folder: Path, opened: Opened | None
) -> dict[str, Any]:
    state = "shown" if opened is None else f"{opened.existed or 'open'}"
    return {
        "state": state,
        "existed": bool(opened and opened.existed),
        "url": opened.url if opened else None,
        "into": order.into.slug,
        "base": order.base,
        "head": order.head.slug,
        "branch": order.branch,
        "title": order.title,
        "body": order.body,
        "draft": order.draft,
        "author": author,
        "commits": [{"id": commit.id, "subject": commit.subject} for commit in made],
        "folder": str(folder),
    }


def _text(
    order: Order,
    author: str,
    made: tuple[Commit, Commit],
    folder: Path,
    opened: Opened | None,
    run: Run,
) -> str:
    if opened is not None and opened.existed:
        return f"There is a pull request from {order.branch} already ({opened.existed}): {opened.url}"
    if opened is not None:
        return f"Opened {opened.url}"
    lines = [
        "Pull request (shown only: nothing was sent)",
        f"  into    {order.into.slug}, {f'branch {order.base}' if order.base else 'its default branch'}",
        f"  from    {order.head.slug}, branch {order.branch}{' (draft)' if order.draft else ''}",
        f"  title   {order.title}",
        f"  author  {author}",
    ]
    for number, commit in enumerate(made, 1):
        lines += [f"  {number}.      {commit.id[:12]} {commit.subject}"]
        lines += [f"          {line.strip()}" for line in commit.stat.splitlines()]
    lines += ["", *(f"  | {line}".rstrip() for line in order.body.splitlines()), ""]
    lines.append(f"Kept in {folder}. To send it: execcritic pr --run {run.directory} --push (and the same options)")
    return "\n".join(lines)
