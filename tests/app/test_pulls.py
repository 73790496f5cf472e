"""A verified run as a pull request, through the console script: a GitHub on loopback, real git over HTTP."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from execcritic import pulls
from execcritic.github.server import Server
from execcritic.pulls import Wishes
from execcritic.runs import Run
from execcritic_scaffold.errors import BundleTampered, ExecCriticError, InfrastructureError, UsageError

from .conftest import NODE, SAMPLE, TEST_FILE, Cli, Ran, call, fixed, git, recording, run
from .github import serving
from .hub import SECRETS, Hub, serving_hub
from .test_resolve import CONTRACT, FAST, GOOD_TEST, RIGHT

AUTHOR = "An Author <an@author.example>"
FIX = call("repair", "bash", command=RIGHT)
DONE = call("repair", "check")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with serving_hub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub


def lay(hub: Hub, template: Path) -> None:
    hub.add("o/r", template)
    hub.private.add("o/r")
    title, _, body = (SAMPLE / "issue.md").read_text().partition("\n")
    hub.issue("o/r", 7, title=f"{title} (@ann, closes #1)", body=body)


@pytest.fixture(scope="module")
def resolved(
    shared: Hub, template: Path, environment: Mapping[str, str], engine: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Ran, Path]:
    """A private repository and its issue by their short names, resolved and shown; what was said, and the run."""
    lay(shared, template)
    folder = tmp_path_factory.mktemp("resolved")
    replies = recording(folder / "r.jsonl", *GOOD_TEST, FIX, DONE)
    ran = run(
        environment,
        folder,
        *("resolve", "--repo", "o/r", "--issue", "#7", "--open-pr", "--model", replies, "--sandbox", engine, *FAST),
        *("--out", "run", "--json"),
        env=shared.env(GIT_AUTHOR_NAME="An Author", GIT_AUTHOR_EMAIL="an@author.example"),
    )
    return ran, folder / "run"


@pytest.fixture
def hub(shared: Hub, resolved: tuple[Ran, Path], template: Path) -> Hub:
    shared.reset()
    lay(shared, template)
    return shared


@pytest.fixture
def done(resolved: tuple[Ran, Path], tmp_path: Path) -> Path:
    return shutil.copytree(resolved[1], tmp_path / "run", symlinks=True)


Pr = Callable[..., Mapping[str, Any]]


@pytest.fixture
def pr(hub: Hub, done: Path) -> Pr:
    """What `execcritic pr` does on the resolved run; the answer is what it prints with --json."""

    def call(*, push: bool = False, author: str | None = AUTHOR, **wishes: Any) -> Mapping[str, Any]:
        run = Run.reopen(done)
        try:
            return pulls.make(run, Wishes(author=author, **wishes), Server.of(None, hub.env()), push).body
        finally:
            run.close()

    return call


def command(cli: Cli, hub: Hub, done: Path, *arguments: object, **env: str) -> Ran:
    return cli("pr", "--run", done, *arguments, env=hub.env(**env))


def refusal(ran: Ran, code: int, words: str) -> None:
    assert (ran.code, words in ran.sentence()) == (code, True), ran


def writes(hub: Hub) -> list[str]:
    return [path for path, _ in hub.seen if "receive-pack" in path or path.endswith("/pulls")]


class TestShown:
    def test_resolve_shows_it_and_sends_nothing(self, resolved: tuple[Ran, Path]) -> None:
        ran, folder = resolved
        assert ran.code == 0, ran
        shown = ran.json["pull_request"]
        assert (shown["state"], shown["url"], shown["into"], shown["base"]) == ("shown", None, "o/r", "main")
        assert shown["author"] == AUTHOR
        assert shown["title"].startswith("Fix: merge() loses part of a span")
        assert shown["branch"].startswith("execcritic/issue-7-")
        assert [commit["subject"] for commit in shown["commits"]] == [
            "Add a regression test for issue #7",
            shown["title"],
        ]
        assert "Fixes #7." in shown["body"]
        assert NODE in shown["body"]
        assert (folder / "pr" / "body.md").read_text() == shown["body"]
        assert "There is no folder o/r here" in ran.err

    def test_its_patches_are_the_commits(self, resolved: tuple[Ran, Path], template: Path, tmp_path: Path) -> None:
        """`git am` gives the test alone first, and then the very tree that was judged."""
        _, folder = resolved
        checkout = shutil.copytree(template, tmp_path / "checkout")
        git(checkout, "am", "--quiet", "--keep-cr", *(str(path) for path in sorted((folder / "pr").glob("*.patch"))))
        assert git(checkout, "diff", "--name-only", "HEAD~2", "HEAD~1") == "tests/test_contained.py"
        assert git(checkout, "diff", "--name-only", "HEAD~1", "HEAD") == "spans/merge.py"
        assert (checkout / "tests/test_contained.py").read_bytes() == TEST_FILE
        assert (checkout / "spans/merge.py").read_bytes() == fixed(template)
        assert git(checkout, "log", "-1", "--format=%an <%ae>") == AUTHOR

    def test_nothing_of_the_issue_acts_on_github(self, resolved: tuple[Ran, Path]) -> None:
        """The issue's title mentions somebody and closes another issue."""
        shown = resolved[0].json["pull_request"]
        for text in (shown["title"], *(commit["subject"] for commit in shown["commits"])):
            assert "@" not in text
            assert "#1" not in text

    def test_pr_shows_the_same_and_asks_nobody(
        self, cli: Cli, pr: Pr, hub: Hub, done: Path, resolved: tuple[Ran, Path]
    ) -> None:
        assert pr()["commits"] == resolved[0].json["pull_request"]["commits"]
        text = command(cli, hub, done, "--author", AUTHOR).out
        assert hub.seen == []
        assert "nothing was sent" in text
        assert "tests/test_contained.py" in text
        assert f"--run {done} --push" in text

    def test_a_local_checkout(self, pr: Pr, done: Path, repo: Path, hub: Hub) -> None:
        manifest = json.loads((done / "manifest.json").read_bytes())
        manifest["request"]["repo"] = str(repo)
        (done / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(UsageError, match="--into"):
            pr()
        git(repo, "remote", "add", "origin", f"{hub.url}/o/r.git")
        (repo / "spans" / "merge.py").write_text("changed since\n")
        before = git(repo, "for-each-ref"), git(repo, "count-objects")
        shown = pr(base="main")
        assert (shown["into"], shown["base"]) == ("o/r", "main")
        assert (git(repo, "for-each-ref"), git(repo, "count-objects")) == before
        git(repo, "config", "user.name", "Local Name")
        git(repo, "config", "user.email", "local@author.example")
        assert pr(author=None)["author"] == "Local Name <local@author.example>"


class TestSent:
    def test_test_first_then_fix(self, pr: Pr, hub: Hub, template: Path) -> None:
        sent = pr(push=True)
        assert (sent["state"], sent["url"]) == ("open", f"{hub.url}/o/r/pull/1")
        (asked,) = hub.posted
        assert (asked["head"], asked["base"], asked["draft"]) == (f"o:{sent['branch']}", "main", False)
        assert (asked["title"], asked["body"]) == (sent["title"], sent["body"])
        bare = hub.folder / "o/r.git"
        log = git(bare, "log", "--reverse", "--format=%H %an <%ae>", f"main..{sent['branch']}").splitlines()
        assert log == [f"{commit['id']} {AUTHOR}" for commit in sent["commits"]]
        assert git(bare, "rev-parse", f"{sent['branch']}~2") == git(template, "rev-parse", "HEAD")

    def test_the_token_is_nowhere(self, cli: Cli, hub: Hub, done: Path, resolved: tuple[Ran, Path]) -> None:
        ran = command(cli, hub, done, "--author", AUTHOR, "--push")
        assert ran.code == 0, ran
        said = (ran.out + ran.err + resolved[0].out + resolved[0].err).encode()
        record = b"".join(path.read_bytes() for path in done.rglob("*") if path.is_file())
        assert not [secret for secret in SECRETS if secret in said + record]
        assert writes(hub)
        assert hub.told == []

    def test_again_is_not_twice(self, pr: Pr, hub: Hub) -> None:
        assert not pr(push=True)["existed"]
        hub.seen.clear()
        again = pr(push=True)
        assert (again["existed"], again["url"]) == (True, f"{hub.url}/o/r/pull/1")
        assert len(hub.posted) == 1
        assert not writes(hub)
        hub.pulls[0] |= {"state": "closed", "merged_at": "2030-01-01T00:00:00Z"}
        assert pr(push=True)["state"] == "merged"
        assert len(hub.posted) == 1

    def test_a_branch_with_other_commits_is_left(self, pr: Pr, hub: Hub) -> None:
        bare = hub.folder / "o/r.git"
        git(bare, "branch", "mine", "main")
        with pytest.raises(UsageError, match="with other commits"):
            pr(push=True, branch="mine")
        assert git(bare, "rev-parse", "mine") == git(bare, "rev-parse", "main")
        assert not hub.posted

    def test_through_a_fork(self, pr: Pr, hub: Hub, template: Path) -> None:
        hub.writable.discard("o/r")
        with pytest.raises(UsageError, match="--head-repo OWNER/REPO"):
            pr(push=True)
        hub.add("me/r-fork", template)
        sent = pr(push=True, head_repo="me/r-fork")
        assert (sent["head"], sent["into"]) == ("me/r-fork", "o/r")
        (asked,) = hub.posted
        assert (asked["head"], asked["head_repo"]) == (f"me:{sent['branch']}", "r-fork")
        assert "execcritic" not in git(hub.folder / "o/r.git", "branch")

    def test_pushed_and_not_opened(self, pr: Pr, hub: Hub) -> None:
        hub.refuse["POST", "/api/v3/repos/o/r/pulls"] = (502, {"message": "Bad gateway"})
        with pytest.raises(InfrastructureError, match="is pushed to o/r, the pull request is not open") as raised:
            pr(push=True)
        assert "compare/main...o:execcritic" in str(raised.value)
        hub.refuse.clear()
        assert not pr(push=True)["existed"]
        assert len(hub.posted) == 1

    def test_what_github_does_not_take(self, pr: Pr, hub: Hub) -> None:
        errors = [{"field": "base", "code": "invalid"}]
        hub.refuse["POST", "/api/v3/repos/o/r/pulls"] = (422, {"message": "Validation Failed", "errors": errors})
        with pytest.raises(UsageError, match="Validation Failed: base: invalid"):
            pr(push=True)

    def test_other_commits_do_not_come_along(self, pr: Pr, hub: Hub, template: Path) -> None:
        """The run started from a commit that its target does not have, or has on another branch only."""
        other = hub.add("other/r", template)
        empty = git(other, "commit-tree", "-m", "another start", git(other, "rev-parse", "main^{tree}"))
        git(other, "branch", "dev", "main")
        git(other, "update-ref", "refs/heads/main", empty)
        with pytest.raises(UsageError, match="is not on the branch main of other/r"):
            pr(push=True, into="other/r")
        with pytest.raises(UsageError, match="has no branch absent"):
            pr(push=True, into="other/r", base="absent")
        assert not writes(hub)
        assert pr(push=True, into="other/r", base="dev")["into"] == "other/r"

    @pytest.mark.parametrize(
        ("answer", "error", "words"),
        [
            ((404, {}), UsageError, "does not exist or is private"),
            ((401, {"message": "Bad credentials"}), InfrastructureError, r"401 \(Bad credentials\)"),
            (
                (200, {"full_name": "../evil", "default_branch": "main"}),
                InfrastructureError,
                "not answer with a repository",
            ),
            ((200, b"<html>"), InfrastructureError, "JSON"),
            ((301, {}), UsageError, "has moved"),
        ],
    )
    def test_a_target_that_cannot_be_read(
        self, pr: Pr, hub: Hub, answer: Any, error: type[Exception], words: str
    ) -> None:
        hub.refuse["GET", "/api/v3/repos/o/r"] = answer
        with pytest.raises(error, match=words):
            pr(push=True)
        assert not writes(hub)

    def test_the_token_does_not_follow_git_to_another_host(self, pr: Pr, hub: Hub, template: Path) -> None:
        """The server sends git on to another one, which asks for a password."""
        with serving() as other:
            asks = (401, {"WWW-Authenticate": 'Basic realm="x"'}, {})
            other.answers["/x.git/info/refs?service=git-receive-pack"] = asks
            away = f"{other.url}/x.git/info/refs?service=git-receive-pack"
            hub.answers["/o/r.git/info/refs?service=git-receive-pack"] = (302, {"Location": away}, {})
            with pytest.raises(ExecCriticError):
                pr(push=True)
            assert other.seen
            assert all("Authorization" not in headers for _, headers in other.seen)

    def test_nothing_of_the_user_s_configuration_is_done(self, cli: Cli, hub: Hub, done: Path, tmp_path: Path) -> None:
        hooks = tmp_path / "hooks"
        hooks.mkdir()
        for name in ("pre-push", "reference-transaction", "post-index-change"):
            (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/alarm\n")
            (hooks / name).chmod(0o755)
        (tmp_path / ".gitconfig").write_text(
            f'[core]\n\thooksPath = {hooks}\n[credential]\n\thelper = "!touch {tmp_path}/alarm;"\n'
            f'[url "http://127.0.0.1:1/"]\n\tinsteadOf = {hub.url}/\n[commit]\n\tgpgSign = true\n'
            "[user]\n\tname = Global Name\n\temail = global@author.example\n"
        )
        ran = command(cli, hub, done, "--push", "--json", HOME=str(tmp_path), GIT_TRACE_CURL="1")
        assert (ran.code, ran.json["author"]) == (0, "Global Name <global@author.example>"), ran
        assert not (tmp_path / "alarm").exists()


class TestRefused:
    """Nothing that is not verified, and nothing before what was asked for is complete."""

    def test_a_patch_that_was_changed_since(self, pr: Pr, done: Path) -> None:
        patch = (done / "fix.patch").read_bytes()
        (done / "fix.patch").write_bytes(patch.replace(b"max(", b"min("))
        with pytest.raises(UsageError, match="not the patch that was verified"):
            pr()

    def test_a_frozen_test_that_was_changed_since(self, pr: Pr, done: Path) -> None:
        file = next((done / "test/bundle/files").iterdir())
        file.chmod(0o644)
        file.write_bytes(file.read_bytes() + b"\n")
        with pytest.raises(BundleTampered, match="was changed"):
            pr()

    @pytest.mark.parametrize("status", ["NOT_FIXED", "UNQUALIFIED"])
    def test_a_run_that_is_not_verified(self, pr: Pr, done: Path, status: str) -> None:
        verdict = json.loads((done / "verdict.json").read_bytes())
        (done / "verdict.json").write_text(json.dumps({**verdict, "status": status}))
        with pytest.raises(UsageError, match=f"no verified patch .it ended as {status}"):
            pr(push=True)

    def test_a_status_alone_does_not_make_it_verified(self, pr: Pr, done: Path) -> None:
        for check in (done / "repair/checks").glob("*.json"):
            check.write_text(check.read_text().replace('"decision": "PASS"', '"decision": "FAIL"'))
        with pytest.raises(UsageError, match="not the patch that was verified"):
            pr()

    @pytest.mark.parametrize("name", ["verdict.json", "manifest.json", "journal.jsonl"])
    def test_a_damaged_record(self, pr: Pr, done: Path, name: str) -> None:
        (done / name).write_bytes(b"{" if name != "verdict.json" else b'{"status": "RESOLVED"}')
        with pytest.raises(UsageError, match="is damaged"):
            pr()

    def test_no_author(self, cli: Cli, hub: Hub, done: Path, pr: Pr) -> None:
        refusal(command(cli, hub, done), 2, "--author")
        with pytest.raises(UsageError, match="--author"):
            pr(author="nobody")

    def test_no_token(self, cli: Cli, hub: Hub, done: Path) -> None:
        refusal(command(cli, hub, done, "--author", AUTHOR, "--push", GITHUB_TOKEN=""), 2, "GITHUB_TOKEN")
        ran = command(cli, hub, done, "--author", AUTHOR, "--push", GITHUB_TOKEN="two words-SECRET")
        refusal(ran, 2, "GITHUB_TOKEN")
        assert "SECRET" not in ran.err
        assert hub.seen == []

    @pytest.mark.parametrize(
        ("wish", "value"),
        [
            ("branch", "-f"),
            ("branch", "a..b"),
            ("base", "a:b"),
            ("title", "a\nb"),
            ("into", "x"),
            ("head_repo", "../x"),
        ],
    )
    def test_odd_wishes(self, pr: Pr, wish: str, value: str) -> None:
        with pytest.raises(UsageError, match=f"--{wish.replace('_', '-')}"):
            pr(**{wish: value})

    def test_a_checkout_with_changes(self, cli: Cli, repo: Path, issue: Path, engine: str, tmp_path: Path) -> None:
        """Found before any model is asked."""
        git(repo, "remote", "add", "origin", "https://github.com/o/r")
        (repo / "new.py").write_text("x = 1\n")
        env = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b"}
        replies = recording(tmp_path / "r.jsonl", *GOOD_TEST, DONE)
        where = ("resolve", "--repo", repo, "--issue", issue, "--sandbox", engine, "--model", replies)
        ran = cli(*where, "--open-pr", "--out", tmp_path / "out", env=env)
        refusal(ran, 2, "uncommitted changes")
        assert not (tmp_path / "out").exists()
        refusal(cli(*where, "--push", env=env), 2, "--open-pr")
        refusal(cli(*where, "--open-pr", "--push", env=env), 2, "GITHUB_TOKEN")

    @pytest.mark.slow
    def test_no_patch_is_verified(self, cli: Cli, repo: Path, issue: Path, engine: str, tmp_path: Path) -> None:
        git(repo, "remote", "add", "origin", "https://github.com/o/r")
        wrong = call("test", "submit_test", nodes=[NODE], contract=CONTRACT)
        replies = recording(tmp_path / "r.jsonl", wrong, call("repair", "submit", reason="it is no bug"))
        ran = cli(
            *("resolve", "--repo", repo, "--issue", issue, "--sandbox", engine, "--model", replies, "--open-pr"),
            *("--out", tmp_path / "out", "--json", "--set", "loop.submissions=1"),
            env={"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b"},
        )
        assert (ran.code, ran.json["status"]) == (3, "UNQUALIFIED"), ran
        assert "No pull request is made" in ran.err
        assert "pull_request" not in ran.json
        assert not (tmp_path / "out" / "pr").exists()


def test_a_resolved_run_goes_out_in_one_command(cli: Cli, hub: Hub, done: Path) -> None:
    """`--resume` of a run that has ended does what is left to do."""
    env = hub.env(GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@b")
    ran = cli("resolve", "--resume", done, "--open-pr", "--push", "--json", env=env)
    assert (ran.code, ran.json["pull_request"]["state"]) == (0, "open"), ran
    hub.refuse["GET", "/api/v3/repos/o/r"] = (500, {})
    ran = cli("resolve", "--resume", done, "--open-pr", "--push", "--json", env=env)
    assert (ran.code, ran.json["status"]) == (5, "RESOLVED"), ran
    assert "500" in ran.sentence()


def test_a_patch_of_the_user_s_git(resolved: tuple[Ran, Path]) -> None:
    """The patches are what `git mailinfo` reads: subject and author survive."""
    patch = (resolved[1] / "pr" / "0001-test.patch").read_bytes()
    done = subprocess.run(["git", "mailinfo", "/dev/null", "/dev/null"], input=patch, capture_output=True, check=True)
    assert b"Subject: Add a regression test for issue #7" in done.stdout


@pytest.mark.slow
def test_a_repair_for_a_test_of_one_s_own(cli: Cli, repo: Path, bundle: Path, issue: Path, tmp_path: Path) -> None:
    """The frozen test lies outside the run, and a person wrote it."""
    git(repo, "remote", "add", "origin", "git@github.com:o/r.git")
    replies = recording(tmp_path / "r.jsonl", FIX, DONE)
    where = ("--repo", repo, "--issue", issue, "--model", replies, "--out", tmp_path / "run", *FAST)
    assert cli("repair", "--bundle", bundle, *where).code == 0
    ran = cli("pr", "--run", tmp_path / "run", "--author", AUTHOR, "--json")
    assert (ran.code, ran.json["state"], ran.json["base"]) == (0, "shown", None), ran
    assert "A person wrote the test" in ran.json["body"]
    assert "Fixes" not in ran.json["body"]
