"""Repositories by URL: cloned once, whole or not at all, without anything of theirs being executed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from execcritic import credentials, transport
from execcritic.github import names
from execcritic.github.server import Server
from execcritic.transport import TransportFailure
from execcritic_scaffold.errors import InfrastructureError, UsageError

CLONE_SECONDS = 1800
_HIDDEN = re.compile(r"(?:refs/)?(?P<pull>pull/\d+/(?:head|merge))|(?P<other>refs/[\w./-]+|[0-9a-f]{40})")
"""What a server may have and a clone leaves out: pull requests, other refs, commits of neither."""

_ABSENT = ("couldn't find remote ref", "not our ref", "unadvertised object")
"""How git says that the server does not have, or does not give, what was asked for."""


def is_url(repo: str) -> bool:
    """A URL, or `git@host:path` unless a folder of that name exists."""
    host, colon, path = repo.partition(":")
    scp_like = bool(colon and path and "@" in host and "/" not in host) and not Path(repo).exists()
    return "://" in repo or scp_like


def located(repo: str, server: Server) -> str:
    """What `--repo` names, in a form that means the same anywhere: a URL, or an absolute path.

    `owner/repo` is a repository on GitHub where it cannot be meant as a folder: `owner` is none here.
    """
    found = names.repository(repo, server)
    if is_url(repo) or found is None or os.path.lexists(repo) or Path(found.owner).exists():
        return repo if is_url(repo) else str(Path(repo).absolute())
    return found.clone_url


def clone(url: str, directory: Path, ref: str | None = None, server: Server | None = None) -> None:
    """Clone without a work tree: no hook, filter or attribute of the repository has anything to act on.

    HEAD of the clone is `ref` (a branch, a tag, any commit that the server gives, `pull/7/head`), else the default
    branch. The clone appears at `directory` whole or not at all, and keeps no password of the URL. `server` is shown
    its token where the URL is on it. Raises InfrastructureError, and UsageError for a `ref` that is not there.
    """
    partial = directory.with_name(f"{directory.name}.partial").absolute()
    shutil.rmtree(partial, ignore_errors=True)  # of an attempt that was killed
    shown = credentials.masked_url(url)
    owner = server if server is not None and server.trusted(url) else None

    def git(*arguments: str) -> str:
        inside = partial / ".git" if partial.exists() else None
        answer = transport.run(*arguments, server=owner, directory=inside, seconds=CLONE_SECONDS)
        return answer.decode(errors="replace").strip()

    try:
        git("clone", "--quiet", "--no-checkout", "--template=", "--", url, os.fspath(partial))
        if ref is not None:
            commit = _commit(git, ref) or _fetched(git, url, ref)
            if commit is None:
                raise UsageError(f"{shown} has no branch, tag or commit {ref}; check --ref.")
            git("update-ref", "--no-deref", "HEAD", commit)
        if shown != url:
            git("config", "--file", os.fspath(partial / ".git" / "config"), "remote.origin.url", shown)
        partial.rename(directory)
    except subprocess.TimeoutExpired:
        raise InfrastructureError(
            f"Cloning {shown} took over {CLONE_SECONDS} s; clone it yourself, give the folder."
        ) from None
    except TransportFailure as failure:
        raise _uncloned(url, failure) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _commit(git: transport.Call, ref: str) -> str | None:
    """A branch of the server, else a tag, else any other revision of the clone."""
    for name in (f"refs/remotes/origin/{ref}", f"refs/tags/{ref}", ref):
        try:
            return git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        except TransportFailure:
            continue
    return None


def _fetched(git: transport.Call, url: str, ref: str) -> str | None:
    found = _HIDDEN.fullmatch(ref)
    if found is None:
        return None
    source = f"refs/{found['pull']}" if found["pull"] else found["other"]
    try:
        git("fetch", "--quiet", "--no-tags", "--", url, f"+{source}:refs/execcritic/ref")
    except TransportFailure as failure:
        if any(words in failure.output for words in _ABSENT):
            return None
        raise
    return _commit(git, "refs/execcritic/ref")


def _uncloned(url: str, failure: TransportFailure) -> InfrastructureError:
    shown = credentials.masked_url(url)
    if "could not read Username" in failure.reason:
        step = "it does not exist or is private; check the address, or set GITHUB_TOKEN for a repository on GitHub"
        return InfrastructureError(f"{shown} cannot be cloned: {step}.")
    reason = failure.reason.replace(url, shown)
    return InfrastructureError(f"{shown} cannot be cloned ({reason}); check the address, or clone it yourself.")
