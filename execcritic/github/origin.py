"""The GitHub repository that a checkout, or a URL, belongs to: its remote `origin`."""

from __future__ import annotations

from pathlib import Path

from execcritic import credentials
from execcritic.clones import is_url
from execcritic.github import names
from execcritic.github.names import Repository
from execcritic.github.server import Server
from execcritic_scaffold.checkout import configured
from execcritic_scaffold.errors import UsageError


def of(repo: str, server: Server) -> Repository | None:
    """The repository on `server` that `--repo` (a folder or a URL) belongs to; None where there is none."""
    url = _remote(repo)
    return names.of_url(url, server) if url else None


def need(repo: str, server: Server, wanted: str, otherwise: str) -> Repository:
    """As `of`. Raises UsageError, which says what it was `wanted` for and what else can be given (`otherwise`)."""
    url = _remote(repo)
    found = names.of_url(url, server) if url else None
    if found is not None:
        return found
    shown = credentials.masked_url(repo)
    if url is None:
        raise UsageError(f"{wanted} needs a repository on GitHub, and {shown} has no remote `origin`; {otherwise}.")
    if is_url(repo):
        raise UsageError(f"{wanted} needs a repository on {server.web}, and {shown} is none; {otherwise}.")
    raise UsageError(
        f"{wanted} needs a repository on {server.web}, and origin of {shown} is {credentials.masked_url(url)}; "
        f"{otherwise}, or set github.base_url."
    )


def _remote(repo: str) -> str | None:
    return repo if is_url(repo) else configured(Path(repo), "remote.origin.url")
