"""Issue intake: files, standard input, and a server on loopback that speaks GitHub's API."""

from pathlib import Path

import pytest

from execcritic import issues
from execcritic_scaffold.errors import InfrastructureError, UsageError

from .github import Server, serving

API = "/api/v3/repos/o/r/issues/7"
ISSUE = {"title": "It breaks", "body": "When I\r\ndo this", "comments": 1}


@pytest.fixture
def server():
    with serving() as server:
        yield server


def page(server: Server) -> str:
    return f"{server.url}/o/r/issues/7"


def test_a_file_and_its_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "issue.md"
    path.write_bytes(b"\xef\xbb\xbfIt breaks\n")
    assert issues.read(str(path)).text == "It breaks\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [(None, "cannot be read"), (b" \n", "is empty"), (b"\xff\xfe\x00", "not UTF-8")],
)
def test_a_file_that_is_no_issue(tmp_path: Path, data: bytes | None, words: str) -> None:
    path = tmp_path / "issue.md"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(UsageError, match=words):
        issues.read(str(path))


def test_title_and_body_of_an_issue_page(server: Server) -> None:
    server.answers[API] = (200, {}, ISSUE)
    assert issues.read(page(server) + "#issuecomment-1").text == "It breaks\n\nWhen I\ndo this\n"


def test_an_issue_without_a_body(server: Server) -> None:
    server.answers[API] = (200, {}, {"title": "It breaks", "body": None})
    assert issues.read(page(server)).text == "It breaks\n"


def test_comments_are_read_when_asked_for(server: Server) -> None:
    server.answers[API] = (200, {}, ISSUE)
    server.answers[f"{API}/comments?per_page=100"] = (200, {}, [{"user": {"login": "ann"}, "body": "Me too"}])
    assert "Me too" not in issues.read(page(server)).text
    assert issues.read(page(server), comments=True).text.endswith("Comment by ann:\nMe too\n")


def test_the_token_is_sent_to_the_own_server_and_only_when_there_is_one(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_SERVER_URL", server.url)
    server.answers[API] = (200, {}, ISSUE)
    issues.read(page(server))
    issues.read(page(server), token="secret")
    headers = [seen for _, seen in server.seen]
    assert "Authorization" not in headers[0]
    assert headers[1]["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("own", [None, "https://github.com", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_the_token_is_not_sent_to_whatever_host_the_page_names(
    server: Server, own: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_SERVER_URL", raising=False)
    if own:
        monkeypatch.setenv("GITHUB_SERVER_URL", own)
    server.answers[API] = (200, {}, ISSUE)
    assert issues.read(page(server), token="secret").text
    assert all("Authorization" not in headers for _, headers in server.seen)


def test_the_token_does_not_follow_a_redirection_to_another_host(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_SERVER_URL", server.url)
    with serving() as other:
        server.answers[API] = (301, {"Location": f"{other.url}/moved"}, {})
        other.answers["/moved"] = (200, {}, ISSUE)
        assert issues.read(page(server), token="secret").text
        assert "Authorization" not in other.seen[0][1]


@pytest.mark.parametrize(
    ("address", "own", "sent"),
    [
        ("https://api.github.com/repos/o/r", "", True),
        ("https://github.com/o/r", "", True),
        ("http://api.github.com/repos/o/r", "", False),
        ("https://api.github.com.evil.example/repos", "", False),
        ("https://api.github.com:8443/repos", "", False),
        ("https://github.com@evil.example/repos", "", False),
        ("https://ghe.example/api/v3", "https://ghe.example", True),
        ("https://ghe.example:8443/api/v3", "https://ghe.example", False),
        ("http://ghe.example/api/v3", "https://ghe.example", False),
        ("http://ghe.example/api/v3", "http://ghe.example", False),
        ("http://127.0.0.1:80/api/v3", "http://127.0.0.1:80", True),
    ],
)
def test_where_the_token_may_go(address: str, own: str, sent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_SERVER_URL", own)
    assert issues.trusted(address) is sent


def test_a_page_with_a_user_in_it_is_refused() -> None:
    with pytest.raises(UsageError, match="leave it out") as raised:
        issues.read("https://me:secret@github.com/o/r/issues/7")
    assert "secret" not in str(raised.value)


def test_a_moved_issue_is_followed(server: Server) -> None:
    server.answers[API] = (301, {"Location": f"{server.url}/moved"}, {})
    server.answers["/moved"] = (200, {}, ISSUE)
    assert issues.read(page(server)).text.startswith("It breaks")


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ((404, {}, {}), UsageError, "does not exist or is private"),
        ((410, {}, {}), UsageError, "does not exist"),
        ((403, {"x-ratelimit-remaining": "0"}, {}), InfrastructureError, "rate limit"),
        ((429, {}, {}), InfrastructureError, "rate limit"),
        ((401, {}, {}), InfrastructureError, "GITHUB_TOKEN"),
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
        issues.read(page(server))
    assert page(server) in str(raised.value)


def test_an_unreachable_server() -> None:
    with serving() as server:
        gone = page(server)
    with pytest.raises(InfrastructureError, match="unreachable"):
        issues.read(gone)


@pytest.mark.parametrize(
    "url", ["https://github.com/o/r", "https://github.com/o/r/pull/7", "ftp://github.com/o/r/issues/7"]
)
def test_a_url_that_is_no_issue_page(url: str) -> None:
    with pytest.raises(UsageError, match="not an issue page"):
        issues.read(url)
