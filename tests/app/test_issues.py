"""Issue intake: files, standard input, and a server on loopback that speaks GitHub's API."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from execcritic import config, issues
from execcritic.github.server import Server as GitHub
from execcritic_scaffold.errors import InfrastructureError, UsageError

from .conftest import Cli, git
from .github import Server, serving

API = "/api/v3/repos/o/r/issues/7"
ISSUE = {"title": "It breaks", "body": "When I\r\ndo this", "comments": 1}


@pytest.fixture
def server():
    with serving() as server:
        yield server


def page(server: Server) -> str:
    return f"{server.url}/o/r/issues/7"


def read(source: str, hub: GitHub | None = None, **settings: Any) -> issues.Issue:
    """Read an issue as a command does, by default without a token."""
    known = config.load(environ={}).github.model_copy(update=settings)
    return issues.read(source, hub or GitHub(), known)


def own(server: Server, token: str = "secret") -> GitHub:
    return GitHub.of(None, {"GITHUB_SERVER_URL": server.url, "GITHUB_TOKEN": token})


def test_a_file_and_its_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "issue.md"
    path.write_bytes(b"\xef\xbb\xbfIt breaks\n")
    assert read(str(path)).text == "It breaks\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [(None, "cannot be read"), (b" \n", "is empty"), (b"\xff\xfe\x00", "not UTF-8")],
)
def test_a_file_that_is_no_issue(tmp_path: Path, data: bytes | None, words: str) -> None:
    path = tmp_path / "issue.md"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(UsageError, match=words):
        read(str(path))


def test_title_and_body_of_an_issue_page(server: Server) -> None:
    server.answers[API] = (200, {}, ISSUE)
    assert read(page(server) + "#issuecomment-1").text == "It breaks\n\nWhen I\ndo this\n"


def test_an_issue_without_a_body(server: Server) -> None:
    server.answers[API] = (200, {}, {"title": "It breaks", "body": None})
    assert read(page(server)).text == "It breaks\n"


class TestComments:
    def lay(self, server: Server, *pages: list[Any], size: int = 100) -> None:
        server.answers[API] = (200, {}, {**ISSUE, "comments": sum(map(len, pages)), "url": f"{server.url}{API}"})
        addresses = [f"{API}/comments?per_page={size}", *(f"{API}/comments?page={n}" for n in range(2, 99))]
        for number, comments in enumerate(pages):
            more = number + 1 < len(pages)
            links = {"Link": f'<{server.url}{addresses[number + 1]}>; rel="next", <x>; rel="last"'} if more else {}
            server.answers[addresses[number]] = (200, links, comments)

    def test_they_are_left_out_and_said_unless_asked_for(self, server: Server) -> None:
        self.lay(server, [{"user": {"login": "ann"}, "body": "Use max()"}])
        issue = read(page(server))
        assert "max" not in issue.text
        assert "--comments" in issue.notes[0]
        issue = read(page(server), comments=True)
        assert issue.text.endswith("Comment by ann:\nUse max()\n")
        assert issue.notes == ()

    def test_all_pages_of_them_in_order(self, server: Server) -> None:
        people = [{"user": {"login": f"u{n}"}, "body": f"word {n}"} for n in range(7)]
        self.lay(server, people[:3], people[3:6], people[6:])
        text = read(page(server), comments=True).text
        assert [text.index(f"Comment by u{n}:\nword {n}") for n in range(7)] == sorted(
            text.index(f"word {n}") - len(f"Comment by u{n}:\n") for n in range(7)
        )

    def test_their_number_is_bounded(self, server: Server) -> None:
        people = [{"user": {"login": f"u{n}"}, "body": f"word {n}"} for n in range(5)]
        self.lay(server, people[:2], people[2:4], people[4:], size=3)
        issue = read(page(server), comments=True, max_comments=3)
        assert "word 2" in issue.text
        assert "word 3" not in issue.text
        assert "first 3" in issue.notes[0]

    def test_their_size_is_bounded(self, server: Server) -> None:
        self.lay(server, [{"user": {"login": "ann"}, "body": "x" * 900}, {"user": {"login": "bob"}, "body": "y"}])
        issue = read(page(server), comments=True, comment_characters=100)
        assert issue.text.count("x") == 100
        assert "Further comments" in issue.text
        assert "bob" not in issue.text

    def test_odd_ones(self, server: Server) -> None:
        odd = [{"user": None, "body": "from a deleted account"}, {"user": {"login": "a"}, "body": None}, "no comment"]
        self.lay(server, [*odd, {"user": {"login": "b"}, "body": "half \ud800 a pair\0"}])
        text = read(page(server), comments=True).text
        assert "Comment by ghost:\nfrom a deleted account" in text
        assert text.endswith("Comment by b:\nhalf ? a pair\n")

    def test_a_list_without_an_end(self, server: Server) -> None:
        """Pages that lead to themselves: the bound on the number ends it; an empty one does too."""
        first = f"{API}/comments?per_page=100"
        self.lay(server, [{"user": {"login": "ann"}, "body": "again"}])
        server.answers[first] = (200, {"Link": f'<{first}>; rel="next"'}, server.answers[first][2])
        assert read(page(server), comments=True, max_comments=100).text.count("again") == 100
        server.answers[first] = (200, {"Link": f'<{first}>; rel="next"'}, [])
        assert "again" not in read(page(server), comments=True).text

    def test_the_next_page_is_not_fetched_from_another_host(self, server: Server) -> None:
        self.lay(server, [{"user": {"login": "ann"}, "body": "x"}])
        first = f"{API}/comments?per_page=100"
        with serving() as other:
            server.answers[first] = (200, {"Link": f'<{other.url}/next>; rel="next"'}, server.answers[first][2])
            with pytest.raises(InfrastructureError, match="another host"):
                read(page(server), own(server), comments=True)
            assert other.seen == []

    def test_by_the_option(self, cli: Cli, server: Server, repo: Path) -> None:
        """The issue is read first; that there is no patch is found after it."""
        self.lay(server, [{"user": {"login": "ann"}, "body": "x"}])
        arguments = ("qualify", "--repo", repo, "--issue", page(server), "--test-patch", "absent", "--node", "n")
        assert "--comments adds them" in cli(*arguments).err
        assert len(server.seen) == 1
        assert "--comments" not in cli(*arguments, "--comments").err
        assert len(server.seen) == 3


class TestWhichIssue:
    @pytest.fixture
    def mine(self, repo: Path) -> Path:
        git(repo, "remote", "add", "origin", "git@github.com:o/r.git")
        return repo

    @pytest.mark.parametrize("source", ["#7", "7"])
    def test_a_number_alone_is_of_the_checkout_s_origin(self, mine: Path, source: str) -> None:
        assert issues.located(source, str(mine), GitHub()) == "https://github.com/o/r/issues/7"

    @pytest.mark.parametrize("url", ["https://github.com/o/r", "https://github.com/o/r.git", "git@github.com:o/r"])
    def test_a_number_alone_is_of_the_url(self, url: str) -> None:
        assert issues.located("#7", url, GitHub()) == "https://github.com/o/r/issues/7"

    def test_a_repository_and_a_number(self, tmp_path: Path) -> None:
        assert issues.located("a-b/c.d#12", str(tmp_path), GitHub()) == "https://github.com/a-b/c.d/issues/12"
        ghe = GitHub.of("https://ghe.example", {})
        assert issues.located("o/r#7", str(tmp_path), ghe) == "https://ghe.example/o/r/issues/7"

    def test_an_existing_file_is_what_it_is(self, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("7").write_text("It breaks")
        assert issues.located("7", str(mine), GitHub()) == "7"

    @pytest.mark.parametrize("remote", [None, "https://gitlab.com/o/r.git", "https://github.com.evil.example/o/r"])
    def test_a_number_alone_without_a_repository_on_github(self, repo: Path, remote: str | None) -> None:
        if remote:
            git(repo, "remote", "add", "origin", remote)
        with pytest.raises(UsageError, match="OWNER/REPO#7"):
            issues.located("#7", str(repo), GitHub())

    def test_nothing_of_the_checkout_s_configuration_is_done(self, mine: Path, tmp_path: Path) -> None:
        (mine / ".git" / "evil").write_text('[remote "origin"]\n\turl = https://github.com/evil/evil\n')
        git(mine, "config", "include.path", "evil")
        git(mine, "config", "core.fsmonitor", f"touch {tmp_path}/alarm")
        git(mine, "config", "core.sshCommand", f"touch {tmp_path}/alarm")
        assert issues.located("#7", str(mine), GitHub()).endswith("/o/r/issues/7")
        assert not (tmp_path / "alarm").exists()

    def test_through_the_command(self, cli: Cli, server: Server, repo: Path) -> None:
        server.answers[API] = (200, {}, ISSUE)
        git(repo, "remote", "add", "origin", f"{server.url}/o/r.git")
        where = ("qualify", "--repo", repo, "--test-patch", "absent", "--node", "n")
        cli(*where, "--issue", "o/r#7", "--set", f"github.base_url={server.url}")
        cli(*where, "--issue", "#7", env={"GITHUB_SERVER_URL": server.url})
        assert [path for path, _ in server.seen] == [API] * 2

    def test_a_pull_request_is_no_issue(self, server: Server) -> None:
        server.answers[API] = (200, {}, {**ISSUE, "pull_request": {"url": "x"}})
        with pytest.raises(UsageError, match="is a pull request"):
            read(page(server))

    def test_a_moved_issue_is_followed_with_its_comments(self, server: Server) -> None:
        now = f"{server.url}/api/v3/repos/o/new/issues/9"
        moved = {**ISSUE, "html_url": f"{server.url}/o/new/issues/9", "url": now}
        server.answers[API] = (301, {"Location": now}, {})
        server.answers["/api/v3/repos/o/new/issues/9"] = (200, {}, moved)
        comments = [{"user": {"login": "ann"}, "body": "x"}]
        server.answers["/api/v3/repos/o/new/issues/9/comments?per_page=100"] = (200, {}, comments)
        issue = read(page(server), own(server), comments=True)
        assert issue.text.endswith("Comment by ann:\nx\n")
        assert "/o/new/issues/9" in issue.notes[0]

    def test_a_locked_issue_is_read(self, server: Server) -> None:
        server.answers[API] = (200, {}, {**ISSUE, "locked": True, "active_lock_reason": "resolved"})
        assert read(page(server)).text.startswith("It breaks")


def test_the_token_is_sent_to_the_own_server_and_only_when_there_is_one(server: Server) -> None:
    server.answers[API] = (200, {}, ISSUE)
    read(page(server))
    read(page(server), own(server))
    headers = [seen for _, seen in server.seen]
    assert "Authorization" not in headers[0]
    assert headers[1]["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("base", [None, "https://github.com", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_the_token_is_not_sent_to_whatever_host_the_page_names(server: Server, base: str | None) -> None:
    server.answers[API] = (200, {}, ISSUE)
    assert read(page(server), GitHub.of(base, {"GITHUB_TOKEN": "secret"})).text
    assert all("Authorization" not in headers for _, headers in server.seen)


def test_the_token_does_not_follow_a_redirection_to_another_host(server: Server) -> None:
    with serving() as other:
        server.answers[API] = (301, {"Location": f"{other.url}/moved"}, {})
        other.answers["/moved"] = (200, {}, ISSUE)
        assert read(page(server), own(server)).text
        assert "Authorization" not in other.seen[0][1]


def test_a_page_with_a_user_in_it_is_refused() -> None:
    with pytest.raises(UsageError, match="leave it out") as raised:
        read("https://me:secret@github.com/o/r/issues/7")
    assert "secret" not in str(raised.value)


def test_a_moved_issue_is_followed(server: Server) -> None:
    server.answers[API] = (301, {"Location": f"{server.url}/moved"}, {})
    server.answers["/moved"] = (200, {}, ISSUE)
    assert read(page(server)).text.startswith("It breaks")


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ((404, {}, {}), UsageError, "does not exist or is private"),
        ((410, {}, {"message": "This issue was deleted"}), UsageError, "does not exist any more .This issue was del"),
        ((403, {"x-ratelimit-remaining": "0"}, {}), InfrastructureError, "rate limit"),
        (
            (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1700000000"}, {}),
            InfrastructureError,
            "22:13 UTC",
        ),
        ((403, {"retry-after": "60"}, {"message": "secondary rate limit"}), InfrastructureError, "wait 60 s"),
        ((403, {"x-github-sso": "required"}, {}), InfrastructureError, "single sign-on"),
        ((403, {}, {"message": "Forbidden by the\nowner"}), InfrastructureError, "Forbidden by the owner"),
        ((429, {}, {}), InfrastructureError, "rate limit"),
        ((401, {}, {}), InfrastructureError, "GITHUB_TOKEN"),
        ((301, {"Location": API}, {}), InfrastructureError, "redirects"),
        ((301, {"Location": "http://[::1"}, {}), InfrastructureError, "unreachable"),
        ((200, {}, b"[" * 100000), InfrastructureError, "not answer with JSON"),
        ((200, {}, b"\xff\xfe{"), InfrastructureError, "not answer with JSON"),
        ((200, {"Content-Encoding": "gzip"}, gzip.compress(b" " * (9 << 20))), InfrastructureError, "over 8 MB"),
        ((500, {}, {}), InfrastructureError, "answers 500"),
        ((200, {}, b"<html>"), InfrastructureError, "not answer with JSON"),
        ((200, {}, ["no issue"]), InfrastructureError, "not answer with an issue"),
    ],
)
def test_every_refusal_is_one_sentence_about_the_page(
    server: Server, answer: tuple[int, dict[str, str], object], error: type[Exception], words: str
) -> None:
    server.answers[API] = answer
    with pytest.raises(error, match=words) as raised:
        read(page(server))
    assert page(server) in str(raised.value)


def test_an_unreachable_server() -> None:
    with serving() as server:
        gone = page(server)
    with pytest.raises(InfrastructureError, match="unreachable"):
        read(gone)


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/o/r",
        "https://github.com/o/r/pull/7",
        "ftp://github.com/o/r/issues/7",
        "https:///o/r/issues/7",
    ],
)
def test_a_url_that_is_no_issue_page(url: str) -> None:
    with pytest.raises(UsageError, match="not an issue page"):
        read(url)
