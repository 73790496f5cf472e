"""An issue on GitHub as the text that the agents read: title, body and, where they are wanted, its comments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from execcritic import credentials
from execcritic.github.api import Api
from execcritic.github.names import NAME, OWNER, Repository
from execcritic.github.server import Server
from execcritic_scaffold.errors import InfrastructureError, UsageError

PAGE = re.compile(
    rf"https?://[^/]+/(?P<owner>{OWNER})/(?P<name>{NAME})/(?P<kind>issues|pull)/(?P<number>\d{{1,18}})(?:[/?#].*)?"
)
PER_PAGE = 100
"""Comments that GitHub gives at once, at most."""


class GitHubSettings(BaseModel):
    """Which GitHub, and what of an issue is read.

    Comments are left out unless asked for: anybody can write them, and they often tell the fix.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str | None
    comments: bool
    max_comments: int = Field(gt=0)
    comment_characters: int = Field(gt=0)
    """Of all comments together."""


@dataclass(frozen=True)
class Fetched:
    """The text, and sentences about it for the user."""

    text: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Page:
    """An issue by its address."""

    repository: Repository
    number: int

    @property
    def url(self) -> str:
        return self.repository.issue(self.number)

    @property
    def api(self) -> str:
        return f"{self.repository.api}/issues/{self.number}"


def page(url: str, server: Server) -> Page:
    """The issue that a page's URL names, with the server it is on. Raises UsageError for any other URL."""
    shown = credentials.masked_url(url)
    found = PAGE.fullmatch(url)
    if found is None:
        raise UsageError(f"{shown} is not an issue page; expected {server.web}/OWNER/REPO/issues/NUMBER.")
    if found["kind"] == "pull":
        raise _pull(shown)
    return Page(Repository(server.at(url), found["owner"], found["name"]), int(found["number"]))


def fetch(url: str, server: Server, settings: GitHubSettings) -> Fetched:
    """Read an issue. Raises UsageError where there is none, InfrastructureError where GitHub does not give it."""
    issue = page(url, server)
    shown = issue.url
    with Api(issue.repository.server) as api:
        body = api.get(issue.api, shown).body
        if not isinstance(body, dict) or not isinstance(body.get("title"), str):
            raise InfrastructureError(f"{shown} did not answer with an issue; check the address, or save it as a file.")
        if body.get("pull_request"):
            raise _pull(shown)
        notes = _moved(body, issue)
        parts = [body["title"], _text(body.get("body"))]
        number = body.get("comments")
        if isinstance(number, int) and number > 0:
            if settings.comments:
                # Where a transferred issue is now, its comments are too.
                at = body["url"] if notes and api.server.trusted(str(body.get("url"))) else issue.api
                comments, left = _comments(api, at, shown, settings)
                parts += comments
                if left:
                    parts.append("(Further comments are left out here.)")
                    notes += (f"{shown} has {number} comments, of which the first {len(comments)} are read.",)
            else:
                notes += (f"{shown} has comments that are not read ({number}); --comments adds them.",)
    text = "\n\n".join(part for part in map(_clean, parts) if part) + "\n"
    return Fetched(text, notes)


def _comments(api: Api, address: str, shown: str, settings: GitHubSettings) -> tuple[list[str], bool]:
    """The first comments, within both bounds, and whether there are more."""
    parts: list[str] = []
    room = settings.comment_characters
    size = min(PER_PAGE, settings.max_comments)
    for found in api.pages(f"{address}/comments?per_page={size}", shown):
        for comment in found:
            text = _text(comment.get("body") if isinstance(comment, dict) else None)
            if not text.strip():
                continue
            if len(parts) == settings.max_comments or room <= 0:
                return parts, True
            user = comment.get("user")
            name = user.get("login") if isinstance(user, dict) else "ghost"  # as GitHub calls a deleted account
            cut = text if len(text) <= room else f"{text[:room]} […]"
            room -= len(text)
            parts.append(f"Comment by {name}:\n{cut}")
    return parts, False


def _moved(body: dict[str, Any], issue: Page) -> tuple[str, ...]:
    now = body.get("html_url")
    found = PAGE.fullmatch(now) if isinstance(now, str) else None
    before = (issue.repository.owner.lower(), issue.repository.name.lower(), str(issue.number))
    if found is None or (found["owner"].lower(), found["name"].lower(), found["number"]) == before:
        return ()
    return (f"{issue.url} has moved to {now}.",)


def _pull(shown: str) -> UsageError:
    return UsageError(
        f"{shown} is a pull request, not an issue page; name the issue that it is about, or save its text as a file."
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _clean(text: str) -> str:
    """With the line ends of this machine, and without what is no text: NULs and halves of surrogate pairs."""
    whole = text.replace("\r\n", "\n").replace("\0", "").encode("utf-8", "replace").decode()
    return whole.strip()
