"""Issue intake: a file, standard input, or an issue on GitHub (`execcritic.github.issue`)."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from execcritic.github import issue, names, origin
from execcritic.github.issue import GitHubSettings
from execcritic.github.server import Server
from execcritic_scaffold.errors import UsageError


@dataclass(frozen=True)
class Issue:
    """An issue as the agents read it; `source` says where it came from, `notes` what the user should know of it."""

    text: str
    source: str
    notes: tuple[str, ...] = ()


def located(source: str, repo: str, server: Server) -> str:
    """`source` in a form that means the same anywhere: `owner/repo#7`, and `#7` or `7` of the repository that `repo`
    (a folder or a URL) belongs to, as the issue's address. An existing file is what it is, whatever its name.

    Raises UsageError where an address, or the repository of a bare number, is none on GitHub.
    """
    if source == "-" or Path(source).exists():
        return source
    if "://" in source:
        issue.page(source, server)
        return source
    if found := names.ISSUE.fullmatch(source):
        return names.Repository(server, found["owner"], found["name"]).issue(found["number"])
    if found := names.NUMBER.fullmatch(source):
        wanted = f"The issue {source}"
        return origin.need(repo, server, wanted, f"write OWNER/REPO#{found['number']}").issue(found["number"])
    return source


def read(source: str, server: Server, settings: GitHubSettings) -> Issue:
    """Read an issue from what `located` gave.

    Raises UsageError where the source is missing, empty or not an issue page; InfrastructureError where GitHub is
    unreachable or refuses us.
    """
    notes: tuple[str, ...] = ()
    if source == "-":
        text, where = _decode(sys.stdin.buffer.read(), "standard input"), "standard input"
    elif "://" in source:
        found = issue.fetch(source, server, settings)
        text, notes, where = found.text, found.notes, source
    else:
        path = Path(source)
        try:
            text, where = _decode(path.read_bytes(), source), os.fspath(path)
        except OSError as error:
            raise UsageError(
                f"The issue {source} cannot be read ({error.strerror}); give a file, a URL, OWNER/REPO#NUMBER or -."
            ) from None
    if not text.strip():
        raise UsageError(f"The issue from {where} is empty; give a text that says what is wrong.")
    return Issue(text, where, notes)


def _decode(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"The issue from {source} is not UTF-8 text; convert it first.") from None
