"""How people name repositories and issues: URLs, `owner/repo`, `owner/repo#7`, remotes of a checkout."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from execcritic.github.server import Server, origin

OWNER = r"[A-Za-z0-9_][A-Za-z0-9_-]*"
NAME = r"(?!\.{1,2}(?:\.git)?(?:[/#]|$))[A-Za-z0-9._-]+"
SLUG = re.compile(rf"(?P<owner>{OWNER})/(?P<name>{NAME}?)(?:\.git)?/?")
ISSUE = re.compile(rf"(?P<owner>{OWNER})/(?P<name>{NAME})#(?P<number>\d+)")
NUMBER = re.compile(r"#?(?P<number>\d+)")
_SCP = re.compile(r"(?:[^@/]+@)?(?P<host>[^:/@]+):(?P<path>[^:].*)")


@dataclass(frozen=True)
class Repository:
    """A repository on a GitHub server."""

    server: Server
    owner: str
    name: str

    @property
    def slug(self) -> str:
        return f"{self.owner}/{self.name}"

    @property
    def url(self) -> str:
        return f"{self.server.web}/{self.slug}"

    @property
    def clone_url(self) -> str:
        return f"{self.url}.git"

    @property
    def api(self) -> str:
        return f"{self.server.api}/repos/{self.slug}"

    def issue(self, number: int | str) -> str:
        """The address of an issue's page."""
        return f"{self.url}/issues/{int(number)}"


def repository(slug: str, server: Server) -> Repository | None:
    """The repository that `owner/repo` names; None where the text is something else."""
    found = SLUG.fullmatch(slug)
    return Repository(server, found["owner"], found["name"]) if found else None


def of_url(url: str, server: Server) -> Repository | None:
    """The repository that a clone URL or a page of it names, on the user's server; None for any other host.

    Through ssh a server may have another port and, for github.com, another host name.
    """
    scp = None if "://" in url else _SCP.fullmatch(url)
    try:
        parts = urlsplit(f"ssh://{scp['host']}/{scp['path'].lstrip('/')}" if scp else url)
        ours = origin(server.web)
        if parts.scheme in ("http", "https"):
            same = origin(server.at(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}").web) == ours
        else:
            host = (parts.hostname or "").lower()
            same = parts.scheme in ("ssh", "git", "git+ssh") and host.removeprefix("ssh.") == ours[1].removeprefix(
                "ssh."
            )
    except ValueError:
        return None
    found = "/".join(parts.path.strip("/").split("/")[:2])
    return repository(found, server) if same else None
