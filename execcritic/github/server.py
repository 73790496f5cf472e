"""Which GitHub: github.com or an Enterprise server, where its API is, and where the user's token may go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from execcritic.credentials import masked_url
from execcritic.hosts import is_loopback
from execcritic_scaffold.errors import UsageError

PUBLIC = "https://github.com"


@dataclass(frozen=True)
class Server:
    """A GitHub server: the address of its pages and of its API, without a slash at the end, and the user's token."""

    web: str = PUBLIC
    api: str = "https://api.github.com"
    token: str | None = field(default=None, repr=False)

    @staticmethod
    def of(base_url: str | None, environ: Mapping[str, str]) -> Server:
        """The user's server: `base_url`, else GITHUB_SERVER_URL, else github.com. The token, GITHUB_TOKEN, is its own.

        GITHUB_API_URL is where the API of GITHUB_SERVER_URL's server is. Raises UsageError for what is no address.
        """
        named, api = environ.get("GITHUB_SERVER_URL"), environ.get("GITHUB_API_URL")
        usual = _web(named, "GITHUB_SERVER_URL") if named else None
        web = _web(base_url, "github.base_url") if base_url else usual or PUBLIC
        own = _address(api, "GITHUB_API_URL").rstrip("/") if api and usual in (None, web) else _api(web)
        return Server(web, own, _token(environ.get("GITHUB_TOKEN")))

    def at(self, url: str) -> Server:
        """The server that a page or a clone URL is on; without the token where that is another one than the user's."""
        web = _web(f"{urlsplit(url).scheme}://{urlsplit(url).netloc}", "it")
        return self if origin(web) == origin(self.web) else Server(web, _api(web))

    def trusted(self, url: str) -> bool:
        """Whether the token may be sent there: to this server, encrypted, or unencrypted on this machine."""
        try:
            there = origin(url)
        except ValueError:  # a port that is no number
            return False
        safe = there[0] == "https" or is_loopback(there[1])
        return safe and "@" not in urlsplit(url).netloc and there in (origin(self.web), origin(self.api))


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of a URL. Raises ValueError for a port that is no number."""
    parts = urlsplit(url)
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), port


def _web(url: str, said: str) -> str:
    """The address of the pages, from that or from the API's."""
    parts = urlsplit(_address(url, said))
    host = (parts.hostname or "").lower()
    if host in ("github.com", "www.github.com", "api.github.com") and parts.port in (None, 80, 443):
        return PUBLIC
    if _hosted(host):
        return f"https://{host.removeprefix('api.')}"
    if parts.path.rstrip("/") not in ("", "/api/v3"):
        raise UsageError(f"{url} is not the address of a GitHub server; {said} is https://HOST without a path.")
    return f"{parts.scheme}://{parts.netloc.lower()}"


def _api(web: str) -> str:
    parts = urlsplit(web)
    if web == PUBLIC:
        return "https://api.github.com"
    return f"https://api.{parts.netloc}" if _hosted(parts.netloc) else f"{web}/api/v3"


def _hosted(host: str) -> bool:
    """Whether this is an Enterprise server that GitHub hosts itself."""
    return host.endswith(".ghe.com")


def _address(url: str, said: str) -> str:
    parts: SplitResult | None
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{masked_url(url)!r} is not the address of a GitHub server; {said} is https://HOST.")
    if "@" in parts.netloc:
        raise UsageError(f"{masked_url(url)} holds a user or a password; leave it out and set GITHUB_TOKEN.")
    return url


def _token(value: str | None) -> str | None:
    token = (value or "").strip()
    if not all(33 <= ord(sign) <= 126 for sign in token):
        raise UsageError("GITHUB_TOKEN holds blanks or signs that no token has; set it again.")
    return token or None
