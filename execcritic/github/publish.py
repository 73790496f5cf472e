"""Sending a pull request: one branch pushed, one request opened; what is there already is reported, never changed."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from execcritic import transport
from execcritic.github import names
from execcritic.github.api import Api
from execcritic.github.names import Repository
from execcritic.transport import TransportFailure
from execcritic_scaffold.errors import ExecCriticError, InfrastructureError, UsageError

PUSH_SECONDS = 900


@dataclass(frozen=True)
class Order:
    """What is to be sent: commit `commit` as `branch` of `head`, to be merged `into` its branch `base` (None: the
    default one). `start` is the commit that it builds on."""

    into: Repository
    head: Repository
    base: str | None
    branch: str
    commit: str
    start: str
    title: str
    body: str
    draft: bool
    published: bool
    """Whether `start` is known to be on the branch `base` already."""


@dataclass(frozen=True)
class Opened:
    """The pull request: its address, and whether it was there before, with its state."""

    url: str
    existed: str | None = None


def publish(order: Order, git_dir: Path) -> Opened:
    """Push the branch out of `git_dir` and open the pull request.

    Raises UsageError for what can be put right (no right to push, a branch of that name with other commits, a base that
    does not fit), InfrastructureError where GitHub fails; once the branch is pushed, the message says so.
    """
    server = order.into.server
    if not server.token or not server.trusted(server.api):
        raise UsageError(
            f"Opening a pull request on {server.web} needs GITHUB_TOKEN (and https); "
            "give one that may write contents and pull requests."
        )
    with Api(server) as api:
        target = _repository(api, order.into)
        head = _repository(api, order.head) if order.head.url != order.into.url else target
        into, source = target.repository, head.repository
        base = order.base or target.default_branch
        if source.slug.lower() == into.slug.lower() and order.branch == base:
            raise UsageError(f"The branch {base} cannot be merged into itself; name another with --branch.")
        if found := _existing(api, into, source, order.branch):
            return found
        if not (order.published and base == order.base == target.default_branch):
            _fits(api, into, base, order.start)
        _push(order, source, git_dir)
        try:
            return _open(api, order, into, source, base)
        except ExecCriticError as error:
            there = f"{into.url}/compare/{quote(base)}...{source.owner}:{quote(order.branch)}?expand=1"
            said = str(error).rstrip(".")
            raise type(error)(
                f"The branch {order.branch} is pushed to {source.slug}, the pull request is not open: {said}. "
                f"Give the same command again, or open it at {there}."
            ) from None


@dataclass(frozen=True)
class _Known:
    repository: Repository
    default_branch: str


def _repository(api: Api, asked: Repository) -> _Known:
    """A repository by its present name. Raises UsageError for one that nothing can be pushed to."""
    body = api.get(asked.api, asked.url).body
    slug, branch = (body.get("full_name"), body.get("default_branch")) if isinstance(body, dict) else (None, None)
    now = names.repository(slug, asked.server) if isinstance(slug, str) else None
    if now is None or not isinstance(branch, str):
        raise InfrastructureError(f"{asked.url} did not answer with a repository; check the address of the server.")
    if body.get("archived"):
        raise UsageError(f"{now.url} is archived and takes no pull request; name another with --into.")
    return _Known(now, branch)


def _existing(api: Api, into: Repository, head: Repository, branch: str) -> Opened | None:
    """The newest pull request from this branch, in whatever state, an open one before all others."""
    query = urlencode({"head": f"{head.owner}:{branch}", "state": "all", "per_page": 100})
    found = api.get(f"{into.api}/pulls?{query}", f"{into.url}/pulls").body
    # GitHub answers with all pull requests where it does not understand the filter.
    ours = [pull for pull in (found if isinstance(found, list) else ()) if _is_from(pull, head, branch)]
    ours.sort(key=lambda pull: pull.get("state") != "open")
    if not ours:
        return None
    state = "merged" if ours[0].get("merged_at") else str(ours[0].get("state"))
    return Opened(_url(ours[0], into), state)


def _is_from(pull: Any, head: Repository, branch: str) -> bool:
    source = pull.get("head") if isinstance(pull, dict) else None
    if not isinstance(source, dict) or source.get("ref") != branch:
        return False
    label = str(source.get("label") or f"{head.owner}:{branch}")
    return label.lower() == f"{head.owner}:{branch}".lower()


def _fits(api: Api, into: Repository, base: str, start: str) -> None:
    """Raises UsageError where the pull request would hold more than its two commits."""
    where = f"{into.url}/tree/{quote(base)}"
    if api.get(f"{into.api}/branches/{quote(base, safe='')}", where, allow=(404,)).status == 404:
        raise UsageError(f"{into.url} has no branch {base}; name another with --base.")
    # The second page: GitHub lists the changed files on the first.
    url = f"{into.api}/compare/{quote(base, safe='')}...{start}?per_page=1&page=2"
    answer = api.get(url, where, allow=(404, 422))
    if answer.status != 200:
        raise UsageError(
            f"{into.url} does not have the commit {start[:12]} that the fix was verified on; push that first."
        )
    ahead = answer.body.get("ahead_by") if isinstance(answer.body, dict) else None
    if ahead != 0:
        raise UsageError(
            f"The commit {start[:12]} that the fix was verified on is not on the branch {base} of {into.slug}, so the "
            "pull request would hold other commits too; name the branch that has it with --base."
        )


def _push(order: Order, head: Repository, git_dir: Path) -> None:
    reference = f"refs/heads/{order.branch}"
    arguments = (
        *("push", "--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no"),
        f"--force-with-lease={reference}:",  # only where there is no such branch; one at this very commit is fine
        *("--", head.clone_url, f"{order.commit}:{reference}"),
    )
    try:
        transport.run(*arguments, server=head.server, directory=git_dir, seconds=PUSH_SECONDS)
    except subprocess.TimeoutExpired:
        raise InfrastructureError(
            f"Pushing to {head.url} took over {PUSH_SECONDS} s; give the same command again."
        ) from None
    except TransportFailure as failure:
        raise _unpushed(failure, head, order.branch) from None


def _unpushed(failure: TransportFailure, head: Repository, branch: str) -> ExecCriticError:
    if "stale info" in failure.output or "fetch first" in failure.output:
        return UsageError(
            f"{head.url} has a branch {branch} with other commits, which is left as it is; name another with --branch."
        )
    denied = re.search(r"Permission .*denied|HTTP 40[13]|error: 40[13]|Authentication failed", failure.output)
    if denied:
        return UsageError(
            f"GITHUB_TOKEN may not push to {head.url}; fork it there and name the fork with --head-repo OWNER/REPO, "
            "or give a token that may."
        )
    refused = re.search(r"^!\t.*\[remote rejected\] \((.*)\)", failure.output, re.MULTILINE)
    if refused:
        return UsageError(
            f"{head.url} refuses the branch {branch} ({refused[1]}); see its rules, or the token's rights."
        )
    said = re.findall(r"^(?:fatal|error|remote): (.*)", failure.output, re.MULTILINE)
    return InfrastructureError(f"Pushing to {head.url} failed ({(said or [failure.reason])[0]}); try again.")


def _open(api: Api, order: Order, into: Repository, head: Repository, base: str) -> Opened:
    body: dict[str, Any] = {
        "title": order.title,
        "body": order.body,
        "head": f"{head.owner}:{order.branch}",
        "base": base,
        "draft": order.draft,
    }
    if head.slug != into.slug:
        body["head_repo"] = head.name
    answer = api.post(f"{into.api}/pulls", body, f"{into.url}/pulls", allow=(422,))
    if answer.status == 422:
        if found := _existing(api, into, head, order.branch):  # opened by somebody else meanwhile
            return found
        raise UsageError(f"GitHub does not take it ({api.said(answer.body) or '422'}); put that right.")
    return Opened(_url(answer.body, into))


def _url(pull: Any, into: Repository) -> str:
    url = pull.get("html_url") if isinstance(pull, dict) else None
    return url if isinstance(url, str) else f"{into.url}/pulls"
