"""Which server, whose token, which repository, and what a pull request says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from execcritic import config
from execcritic.github import identity, names, proposal
from execcritic.github.names import Repository
from execcritic.github.proposal import Subject
from execcritic.github.server import Server
from execcritic_scaffold.errors import UsageError

from .conftest import git

GHE = "https://ghe.example"


@pytest.mark.parametrize(
    ("base", "environ", "web", "api"),
    [
        (None, {}, "https://github.com", "https://api.github.com"),
        (
            None,
            {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_API_URL": "https://api.github.com"},
            "https://github.com",
            "https://api.github.com",
        ),
        ("http://www.github.com/", {}, "https://github.com", "https://api.github.com"),
        ("https://api.github.com", {}, "https://github.com", "https://api.github.com"),
        (GHE, {}, GHE, f"{GHE}/api/v3"),
        (f"{GHE}/api/v3", {}, GHE, f"{GHE}/api/v3"),
        ("https://me.ghe.com", {}, "https://me.ghe.com", "https://api.me.ghe.com"),
        (None, {"GITHUB_SERVER_URL": f"{GHE}:8443/"}, f"{GHE}:8443", f"{GHE}:8443/api/v3"),
        (None, {"GITHUB_SERVER_URL": GHE, "GITHUB_API_URL": "https://api.example/v3/"}, GHE, "https://api.example/v3"),
        (GHE, {"GITHUB_API_URL": "https://api.example/v3"}, GHE, "https://api.example/v3"),
        (
            GHE,
            {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_API_URL": "https://api.github.com"},
            GHE,
            f"{GHE}/api/v3",
        ),
    ],
)
def test_which_server(base: str | None, environ: dict[str, str], web: str, api: str) -> None:
    server = Server.of(base, environ)
    assert (server.web, server.api) == (web, api)


@pytest.mark.parametrize(
    "url", ["ghe.example", "ftp://ghe.example", "https://", "https://h:x", "https://h/path", "http://[::1"]
)
def test_what_is_no_server(url: str) -> None:
    with pytest.raises(UsageError, match="address of a GitHub server"):
        Server.of(url, {})


def test_a_server_with_a_password_is_refused() -> None:
    with pytest.raises(UsageError) as raised:
        Server.of("https://me:secret@ghe.example", {})
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("address", "own", "sent"),
    [
        ("https://api.github.com/repos/o/r", None, True),
        ("https://github.com/o/r", None, True),
        ("http://api.github.com/repos/o/r", None, False),
        ("https://api.github.com.evil.example/repos", None, False),
        ("https://api.github.com:8443/repos", None, False),
        ("https://github.com@evil.example/repos", None, False),
        ("https://github.com:x/repos", None, False),
        ("https://ghe.example/api/v3", GHE, True),
        ("https://GHE.example:443/api/v3", GHE, True),
        ("https://ghe.example:8443/api/v3", GHE, False),
        ("http://ghe.example/api/v3", GHE, False),
        ("http://ghe.example/api/v3", "http://ghe.example", False),
        ("https://api.github.com/repos/o/r", GHE, False),
        ("http://127.0.0.1:80/api/v3", "http://127.0.0.1:80", True),
    ],
)
def test_where_the_token_may_go(address: str, own: str | None, sent: bool) -> None:
    """To the user's one server."""
    assert Server.of(own, {"GITHUB_TOKEN": "t"}).trusted(address) is sent


def test_a_run_from_elsewhere_does_not_say_which_server_gets_the_token() -> None:
    body = config.kept(config.load(sets=["github.base_url=https://evil.example"], environ={}))
    assert config.restored(body, config.load(environ={})).github.base_url is None


@pytest.mark.parametrize(
    ("url", "slug"),
    [
        ("https://github.com/o/r", "o/r"),
        ("https://github.com/o/r.git", "o/r"),
        ("https://github.com/o/r.js/issues/7", "o/r.js"),
        ("https://token@github.com/o/r.git", "o/r"),
        ("http://www.github.com/o/r/", "o/r"),
        ("git@github.com:o/r.git", "o/r"),
        ("github.com:o/r", "o/r"),
        ("ssh://git@github.com/o/r", "o/r"),
        ("ssh://git@ssh.github.com:443/o/r.git", "o/r"),
        ("git://github.com/o/r", "o/r"),
        ("https://gitlab.com/o/r", None),
        ("https://github.com.evil.example/o/r", None),
        ("https://github.com/o", None),
        ("https://github.com/o/..", None),
        ("https://github.com/o/r%2f", None),
        ("https://[::1/o/r", None),
        ("/home/me/o/r", None),
        ("file:///o/r", None),
    ],
)
def test_the_repository_of_a_remote(url: str, slug: str | None) -> None:
    found = names.of_url(url, Server())
    assert (found.slug if found else None) == slug


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("merge() loses a span", "Fix: merge() loses a span"),
        ("# A heading", "Fix: A heading"),
        ("closes #1, o/r#2 and GH-3", "Fix: closes 1, o/r2 and GH 3"),
        (
            "@property and @ann, see https://github.com/o/r/issues/1",
            "Fix: property and ann, see https github.com/o/r/issues/1",
        ),
        ("right\u202eleft\u200b\x1b[31m", "Fix: right left [31m"),
        ("C# and #[derive]", "Fix: C# and #[derive]"),
        ("", "Fix an issue"),
    ],
)
def test_titles(line: str, title: str) -> None:
    assert proposal.title(Subject(line)) == title


def test_a_long_title_is_cut_at_a_word() -> None:
    title = proposal.title(Subject("word " * 40))
    assert len(title) <= 80
    assert title.endswith("word…")


def test_how_an_issue_is_named_from_elsewhere() -> None:
    here = Repository(Server(), "o", "r")
    subject = Subject("x", here, 7)
    assert subject.named(Repository(Server(), "O", "R")) == "#7"
    assert subject.named(Repository(Server(), "o", "other")) == "o/r#7"
    assert subject.named(Repository(Server.of(GHE, {}), "o", "r")) == "https://github.com/o/r/issues/7"
    assert Subject("x").named(here) is None


def test_a_body_that_is_too_long_keeps_its_beginning() -> None:
    record = "### PASS\n" + "| node |\n" * 10 + "\n<details>\n" + "x\n" * proposal.LONGEST
    body = proposal._bounded("head\n", record)
    assert body.startswith("head\n### PASS\n")
    assert "<details>" not in body
    assert len(proposal._bounded("head\n", "| node |\n" * proposal.LONGEST)) <= proposal.LONGEST


class TestIdentity:
    def test_in_the_order_of_git(self, tmp_path: Path) -> None:
        repo = tmp_path / "repo"
        subprocess.run(["git", "init", "--quiet", repo], check=True)
        (tmp_path / "more").write_text("[user]\n\temail = me@include.example\n")
        (tmp_path / ".gitconfig").write_text(f"[user]\n\tname = Me\n[include]\n\tpath = {tmp_path}/more\n")
        home = {"HOME": str(tmp_path)}
        assert identity.author(None, repo, home) == "Me <me@include.example>"
        git(repo, "config", "user.name", "Repo Me")
        assert identity.author(None, repo, home) == "Repo Me <me@include.example>"
        assert identity.author(None, repo, {**home, "GIT_AUTHOR_EMAIL": "e@x"}) == "Repo Me <e@x>"
        assert identity.author("A B <a@b>", repo, home) == "A B <a@b>"

    @pytest.mark.parametrize("said", ["", "A B", "A <b> <c>", "A <>", "<a@b>", "A\nauthor B <c@d>", "A <a b>"])
    def test_what_is_no_author(self, said: str) -> None:
        with pytest.raises(UsageError, match="--author"):
            identity.author(said, None, {})

    def test_none(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="git config --global"):
            identity.author(None, tmp_path, {"HOME": str(tmp_path)})
