"""A GitHub on loopback: the API of one repository and its forks, and git itself through `git http-backend`."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from .conftest import git
from .github import Handler, Server, threaded

TOKEN = "ghp_0123456789abcdefSECRET"
SECRETS = (TOKEN.encode(), base64.b64encode(f"x-access-token:{TOKEN}".encode()))
"""The token as it is, and as HTTP's basic authentication carries it."""


class Hub(Server):
    """`folder` holds bare repositories as OWNER/NAME.git. `writable` are those that the token may push to.

    `pulls` are the pull requests; `refuse` answers the next requests of a kind: ("POST", path) to (status, body).
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(_Handler)
        self.folder = folder
        self.writable: set[str] = set()
        self.private: set[str] = set()
        self.archived: set[str] = set()
        self.pulls: list[dict[str, Any]] = []
        self.refuse: dict[tuple[str, str], tuple[int, Any]] = {}
        self.posted: list[dict[str, Any]] = []
        self.told: list[bytes] = []
        """Command lines on this machine that held the token while git was served."""

    def reset(self) -> None:
        """As new, but for its port."""
        shutil.rmtree(self.folder)
        for kept in (self.answers, self.seen, self.writable, self.private, self.archived, self.refuse):
            kept.clear()
        for listed in (self.pulls, self.posted, self.told):
            listed.clear()

    def env(self, **more: str) -> dict[str, str]:
        """The variables that make this the user's GitHub."""
        return {"GITHUB_SERVER_URL": self.url, "GITHUB_TOKEN": TOKEN, **more}

    def add(self, slug: str, source: Path) -> Path:
        """A repository with the branches and tags of another."""
        path = self.folder / f"{slug}.git"
        path.parent.mkdir(parents=True, exist_ok=True)
        git(source, "clone", "--quiet", "--bare", str(source), str(path))
        git(path, "config", "http.receivepack", "true")
        self.writable.add(slug)
        return path

    def issue(self, slug: str, number: int, **body: Any) -> str:
        """An issue with a title; its page."""
        self.answers[f"/api/v3/repos/{slug}/issues/{number}"] = (200, {}, {"title": "It breaks", "comments": 0, **body})
        return f"{self.url}/{slug}/issues/{number}"


class _Handler(Handler):
    server: Hub

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = b"".join(self._chunks())
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self._serve(body)

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _serve(self, body: bytes) -> None:
        self.server.seen.append((self.path, dict(self.headers)))
        path = urlsplit(self.path).path
        if refused := self.server.refuse.get((self.command, path)):
            self.answer(refused[0], {}, refused[1])
        elif self.path in self.server.answers:
            self.answer(*self.server.answers[self.path])
        elif found := re.fullmatch(r"/([\w-]+/[\w.-]+)\.git(/.*)", path):
            self._git(found[1], found[2], body)
        elif found := re.fullmatch(r"/api/v3/repos/([\w-]+/[\w.-]+?)((?:/.*)?)", path):
            self.answer(*self._api(found[1], unquote(found[2]), body))
        else:
            self.answer(404, {}, {"message": "Not Found"})

    def _api(self, slug: str, rest: str, body: bytes) -> tuple[int, dict[str, str], Any]:
        repo = self.server.folder / f"{slug}.git"
        if not repo.is_dir():
            return 404, {}, {"message": "Not Found"}
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, {}, {"message": "Bad credentials"}
        if not rest:
            branch = git(repo, "symbolic-ref", "--short", "HEAD")
            return 200, {}, {"full_name": slug, "default_branch": branch, "archived": slug in self.server.archived}
        if rest.startswith("/branches/"):
            there = self._has(repo, f"refs/heads/{rest.removeprefix('/branches/')}")
            return (200 if there else 404), {}, {"message": "Branch not found"}
        if rest.startswith("/compare/"):
            base, _, start = rest.removeprefix("/compare/").partition("...")
            if not self._has(repo, start):
                return 404, {}, {"message": "Not Found"}
            return 200, {}, {"ahead_by": int(git(repo, "rev-list", "--count", f"{base}..{start}"))}
        if rest == "/pulls" and self.command == "GET":
            owner, _, branch = parse_qs(urlsplit(self.path).query)["head"][0].partition(":")
            return 200, {}, [p for p in self.server.pulls if p["head"]["label"] == f"{owner}:{branch}"]
        if rest == "/pulls":
            return self._open(slug, json.loads(body))
        return 404, {}, {"message": "Not Found"}

    def _open(self, slug: str, asked: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        owner, _, branch = asked["head"].partition(":")
        head = f"{owner}/{asked.get('head_repo') or slug.partition('/')[2]}"
        if any(p["head"]["label"] == asked["head"] and p["state"] == "open" for p in self.server.pulls):
            message = f"A pull request already exists for {asked['head']}."
            return 422, {}, {"message": "Validation Failed", "errors": [{"message": message}]}
        if not self._has(self.server.folder / f"{head}.git", f"refs/heads/{branch}"):
            error = {"resource": "PullRequest", "field": "head", "code": "invalid"}
            return 422, {}, {"message": "Validation Failed", "errors": [error]}
        self.server.posted.append(asked)
        url = f"{self.server.url}/{slug}/pull/{len(self.server.pulls) + 1}"
        pull = {"html_url": url, "state": "open", "head": {"ref": branch, "label": asked["head"]}}
        self.server.pulls.append(pull)
        return 201, {}, pull

    def _has(self, repo: Path, name: str) -> bool:
        command = ["git", "-C", repo, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
        return subprocess.run(command, capture_output=True).returncode == 0

    def _git(self, slug: str, rest: str, body: bytes) -> None:
        writes = "git-receive-pack" in self.path
        self.server.told += [line for line in command_lines() if any(secret in line for secret in SECRETS)]
        authorised = self.headers.get("Authorization") == f"Basic {SECRETS[1].decode()}"
        if (writes or slug in self.server.private) and not authorised:
            self.answer(401, {"WWW-Authenticate": 'Basic realm="hub"'}, {})
            return
        if writes and slug not in self.server.writable:
            self.answer(403, {}, b"Permission denied")
            return
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.server.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": f"/{slug}.git{rest}",
            "QUERY_STRING": urlsplit(self.path).query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_USER": "t" if authorised else "",
        }
        done = subprocess.run(["git", "http-backend"], env=environment, input=body, capture_output=True)
        head, _, data = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.answer(int(headers.pop("Status", "200")[:3]), headers, data)


def command_lines() -> Iterator[bytes]:
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ended while we looked
            yield process.read_bytes()


@contextmanager
def serving_hub(folder: Path) -> Iterator[Hub]:
    with Hub(folder) as hub:
        yield from threaded(hub)
