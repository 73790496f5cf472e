"""Issue intake: a file, standard input, or an issue page on GitHub (or GitHub Enterprise, by its own host)."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from execcritic import credentials
from execcritic.hosts import is_loopback
from execcritic_scaffold.errors import InfrastructureError, UsageError

if TYPE_CHECKING:
    import httpx

PAGE = re.compile(
    r"(?P<scheme>https?)://(?P<host>[^/]+)/(?P<owner>[^/]+)/(?P<repo>[^/]+)/issues/(?P<number>\d+)/?(#.*)?$"
)
TIMEOUT = 20.0
"""Seconds a GitHub request may take."""


@dataclass(frozen=True)
class Issue:
    """An issue as the agents read it; `source` says where it came from."""

    text: str
    source: str


def read(source: str, *, comments: bool = False, token: str | None = None) -> Issue:
    """Read an issue. `token` is sent to GitHub alone, and to the server that GITHUB_SERVER_URL names (`trusted`).

    Raises UsageError where the source is missing, empty or not an issue page; InfrastructureError where GitHub is
    unreachable or refuses us.
    """
    if source == "-":
        text, origin = _decode(sys.stdin.buffer.read(), "standard input"), "standard input"
    elif "://" in source:
        text, origin = _fetch(source, comments, token), source
    else:
        path = Path(source)
        try:
            text, origin = _decode(path.read_bytes(), source), os.fspath(path)
        except OSError as error:
            raise UsageError(
                f"The issue {source} cannot be read ({error.strerror}); give a file, a URL or -."
            ) from None
    if not text.strip():
        raise UsageError(f"The issue from {origin} is empty; give a text that says what is wrong.")
    return Issue(text, origin)


def _decode(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"The issue from {source} is not UTF-8 text; convert it first.") from None


def _fetch(url: str, comments: bool, token: str | None) -> str:
    page = PAGE.match(url)
    if page is None:
        raise UsageError(f"{url} is not an issue page; expected https://github.com/OWNER/REPO/issues/NUMBER.")
    host = page["host"]
    if "@" in host:
        shown = credentials.masked_url(url)
        raise UsageError(f"{shown} holds a user or a password; leave it out and set GITHUB_TOKEN.")
    root = "https://api.github.com" if host in ("github.com", "www.github.com") else f"{page['scheme']}://{host}/api/v3"
    address = f"{root}/repos/{page['owner']}/{page['repo']}/issues/{page['number']}"
    import httpx

    headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
    if token and trusted(address):
        headers["Authorization"] = f"Bearer {token}"
    with httpx.Client(headers=headers, timeout=TIMEOUT, follow_redirects=True) as client:
        issue = _get(client, address, url)
        if not isinstance(issue, dict) or not isinstance(issue.get("title"), str):
            raise InfrastructureError(
                f"{url} did not answer with an issue; check the address or save the text as a file."
            )
        parts = [issue["title"], issue.get("body") or ""]
        if comments and issue.get("comments"):
            for comment in _get(client, f"{address}/comments?per_page=100", url):
                parts.append(f"Comment by {comment['user']['login']}:\n{comment['body']}")
    return "\n\n".join(part.replace("\r\n", "\n").strip() for part in parts if part.strip()) + "\n"


def trusted(address: str) -> bool:
    """Whether the token may be sent there: to GitHub, or to the server that GITHUB_SERVER_URL names; encrypted, unless
    that variable itself names a server on this machine over http."""
    try:
        parts, own = urlsplit(address), urlsplit(os.environ.get("GITHUB_SERVER_URL", ""))
        there, named = (parts.scheme, parts.hostname, parts.port), (own.scheme, own.hostname, own.port)
    except ValueError:  # a port that is no number
        return False
    if parts.scheme == "https":
        return parts.netloc in ("github.com", "api.github.com") or there == named
    return parts.scheme == "http" and there == named and is_loopback(parts.hostname or "")


def _get(client: httpx.Client, address: str, url: str) -> Any:
    import httpx

    try:
        answer = client.get(address)
        answer.raise_for_status()
        return answer.json()
    except httpx.HTTPStatusError as error:
        raise _refused(error.response, url) from None
    except httpx.TransportError as error:
        raise InfrastructureError(
            f"{url} is unreachable ({str(error) or type(error).__name__}); check the network, or save it as a file."
        ) from None
    except ValueError:
        raise InfrastructureError(
            f"{url} did not answer with JSON; check the address or save the issue as a file."
        ) from None


def _refused(answer: httpx.Response, url: str) -> UsageError | InfrastructureError:
    status = answer.status_code
    if status in (404, 410):
        return UsageError(
            f"{url} does not exist or is private; check the number, or set GITHUB_TOKEN "
            "(and GITHUB_SERVER_URL for a server of your own)."
        )
    if status == 429 or (status == 403 and answer.headers.get("x-ratelimit-remaining") == "0"):
        return InfrastructureError(f"GitHub's rate limit is used up for {url}; wait, or set GITHUB_TOKEN.")
    if status in (401, 403):
        return InfrastructureError(f"GitHub refuses {url} with {status}; check GITHUB_TOKEN.")
    return InfrastructureError(f"GitHub answers {status} for {url}; try again later or save the issue as a file.")
