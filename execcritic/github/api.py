"""Calls of GitHub's REST API: bounded in time and size, and every refusal one sentence with the next step."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from execcritic import credentials
from execcritic.github.server import Server, origin
from execcritic_scaffold.errors import ExecCriticError, InfrastructureError, UsageError

if TYPE_CHECKING:
    from types import TracebackType

    import httpx

TIMEOUT = 20.0
"""Seconds without a byte after which a request is given up."""
TOTAL = 60.0
"""Seconds an answer may take altogether."""
LARGEST = 8 << 20
"""Bytes of an answer that are read."""


@dataclass(frozen=True)
class Answer:
    """An answer: its JSON value, and the address of the next page where there is one."""

    status: int
    body: Any
    next: str | None = None


class Api:
    """A connection to one server, for the time of a `with` block.

    Redirections of a GET are followed, at most five; the token is left behind where they lead to another host.
    """

    def __init__(self, server: Server) -> None:
        import httpx

        self.server = server
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        self._client = httpx.Client(
            headers={**headers, "User-Agent": "execcritic"}, timeout=TIMEOUT, max_redirects=5, follow_redirects=False
        )

    def __enter__(self) -> Api:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def get(self, url: str, shown: str, allow: Collection[int] = ()) -> Answer:
        """The answer to a GET; `shown` is what messages call it. A status of `allow` is no error.

        Raises UsageError for what is not there, InfrastructureError for everything else.
        """
        return self._call("GET", url, shown, None, allow)

    def post(self, url: str, body: Any, shown: str, allow: Collection[int] = ()) -> Answer:
        """The answer to a POST of a JSON value; as `get`, but no redirection is followed."""
        return self._call("POST", url, shown, body, allow)

    def pages(self, url: str, shown: str) -> Iterator[list[Any]]:
        """The pages of a list, fetched as they are asked for. One on another host is not fetched."""
        following: str | None = url
        while following:
            answer = self.get(following, shown)
            if not isinstance(answer.body, list):
                raise _unreadable(shown)
            yield answer.body
            following = answer.next if answer.body else None
            if following and origin(following) != origin(url):
                raise InfrastructureError(f"{shown} continues on another host; save the issue as a file.")

    def _call(self, method: str, url: str, shown: str, body: Any, allow: Collection[int]) -> Answer:
        import httpx

        token = self.server.token if self.server.trusted(url) else None
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            with self._client.stream(
                method, url, headers=headers, json=body, follow_redirects=method == "GET"
            ) as response:
                data = _read(response, shown)
                following = response.links.get("next", {}).get("url")
                following = str(response.url.join(following)) if following else None
        except (httpx.RequestError, httpx.InvalidURL) as error:
            said = self._hidden(str(error) or type(error).__name__)
            raise InfrastructureError(
                f"{shown} is unreachable ({said}); check the network and the address, and try again."
            ) from None
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            value = None
        if not response.is_success and response.status_code not in allow:
            raise self._refused(response, value, shown, token is not None)
        if value is None:
            raise _unreadable(shown)
        return Answer(response.status_code, value, following)

    def _refused(self, answer: httpx.Response, body: Any, shown: str, authorised: bool) -> ExecCriticError:
        status = answer.status_code
        said = self.said(body)
        why = f" ({said})" if said else ""
        if answer.is_redirect:
            return UsageError(f"{shown} has moved; name its new address.")
        if status == 404 and authorised:
            return UsageError(
                f"{shown} does not exist or is private; check the address, and that GITHUB_TOKEN may see it."
            )
        if status == 404:
            return UsageError(
                f"{shown} does not exist or is private; check the address, or set GITHUB_TOKEN "
                "(and GITHUB_SERVER_URL for a server of your own)."
            )
        if status == 410:
            return UsageError(f"{shown} does not exist any more{why}; name another, or save its text as a file.")
        if (limited := _limited(answer, said)) is not None:
            more = "" if authorised else ", or set GITHUB_TOKEN"
            return InfrastructureError(f"GitHub's rate limit is used up for {shown}; {limited}{more}.")
        if answer.headers.get("x-github-sso"):
            return InfrastructureError(
                f"GitHub refuses {shown}: the organisation wants single sign-on; authorise GITHUB_TOKEN for it."
            )
        if status in (401, 403):
            step = "check GITHUB_TOKEN, its expiry and what it may do" if authorised else "set GITHUB_TOKEN"
            return InfrastructureError(f"GitHub refuses {shown} with {status}{why}; {step}.")
        return InfrastructureError(f"GitHub answers {status} for {shown}{why}; try again later.")

    def said(self, body: Any) -> str:
        """What the server says went wrong, in one bounded line."""
        if not isinstance(body, dict) or not isinstance(body.get("message"), str):
            return ""
        errors = body.get("errors")
        more = [
            str(error.get("message") or f"{error.get('field')}: {error.get('code')}")
            for error in (errors if isinstance(errors, list) else ())
            if isinstance(error, dict)
        ]
        return self._hidden(": ".join([body["message"], *more]))

    def _hidden(self, text: str) -> str:
        one = " ".join(text.split()).rstrip(".;")
        return credentials.hidden(one, (), {"TOKEN": self.server.token or ""})[:300]


def _read(response: httpx.Response, shown: str) -> bytes:
    started, data = time.monotonic(), bytearray()
    for chunk in response.iter_bytes():
        data += chunk
        if len(data) > LARGEST:
            raise InfrastructureError(f"{shown} answers with over {LARGEST >> 20} MB; save the issue as a file.")
        if time.monotonic() - started > TOTAL:
            raise InfrastructureError(f"{shown} takes over {TOTAL:.0f} s to answer; try again later.")
    return bytes(data)


def _limited(answer: httpx.Response, said: str) -> str | None:
    """When to come back, where a rate limit is what refuses us."""
    if answer.status_code not in (403, 429):
        return None
    after, reset = answer.headers.get("retry-after", ""), answer.headers.get("x-ratelimit-reset", "")
    spent = answer.headers.get("x-ratelimit-remaining") == "0"
    if answer.status_code == 403 and not (spent or after or "rate limit" in said):
        return None
    if after.isdecimal() and len(after) < 7:
        return f"wait {int(after)} s"
    if spent and reset.isdecimal() and len(reset) < 12:
        return f"wait until {time.strftime('%H:%M', time.gmtime(int(reset)))} UTC"
    return "wait"


def _unreadable(shown: str) -> InfrastructureError:
    return InfrastructureError(f"{shown} did not answer with JSON of GitHub's API; check the address of the server.")
