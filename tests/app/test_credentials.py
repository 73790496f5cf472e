"""Credentials are not written down: not in a run, not in a crash file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from execcritic import config, credentials
from execcritic_scaffold.errors import UsageError

from .conftest import Cli, call, recording


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://host/v1", "https://host/v1"),
        ("https://me:secret@host:8/v1", "https://***@host:8/v1"),
        ("https://ghp_secret@github.com/o/r.git", "https://***@github.com/o/r.git"),
        ("https://host/v1?api-key=secret&api-version=1", "https://host/v1?api-key=***&api-version=1"),
        ("ssh://git@host/r", "ssh://git@host/r"),
        ("ssh://git:secret@host/r", "ssh://***@host/r"),
        ("git@host:o/r.git", "git@host:o/r.git"),
        ("no url", "no url"),
        ("http://[::1/v1", "http://[::1/v1"),
    ],
)
def test_urls(url: str, shown: str) -> None:
    assert credentials.masked_url(url) == shown


def test_fields_that_are_credentials_by_name() -> None:
    body = {
        "extra": {"apiKey": "secret", "headers": {"Authorization": "secret"}, "max_tokens": "5", "stop_token_ids": [1]},
        "repo": "https://secret@host/r",
        "list": [{"password": "secret"}, "at http://a:secret@b/c."],
    }
    masked = credentials.masked(body)
    assert "secret" not in json.dumps(masked)
    assert masked["extra"]["max_tokens"] == "5"
    assert masked["extra"]["stop_token_ids"] == [1]
    assert credentials.holds_mask(masked["extra"])
    assert not credentials.holds_mask({"max_tokens": "5"})


SETS = (
    *("--set", "model.api_key=sk-first-secret"),
    *("--set", "model.extra={client_token: second-secret, top_p: 0.5}"),
    "--set=model.extra.my_key=third-secret",
    *("--base-url", "http://me:fourth-secret@127.0.0.1:9/v1"),
)


def test_a_run_holds_none(cli: Cli, repo: Path, issue: Path, engine: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    ran = cli(
        *("resolve", "--repo", repo, "--issue", issue, "--sandbox", engine, "--out", run, "--json", *SETS),
        *("--test-model", recording(tmp_path / "t.jsonl", call("test", "bash", command="true"))),
        *("--repair-model", "openai:m", "--set", "model.connect_seconds=0"),
    )
    assert (ran.code, ran.json["status"]) == (5, "INFRASTRUCTURE"), ran
    record = b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file())
    assert b"-secret" not in record
    assert "-secret" not in ran.out + ran.err
    kept = json.loads((run / "manifest.json").read_bytes())["config"]["model"]
    assert kept["extra"] == {"client_token": "***", "top_p": 0.5, "my_key": "***"}
    assert kept["base_url"] == "http://***@127.0.0.1:9/v1"
    again = cli("resolve", "--resume", run)
    assert (again.code, "--base-url" in again.sentence()) == (2, True)
    again = cli("resolve", "--resume", run, "--base-url", "http://127.0.0.1:9/v1")
    assert (again.code, "model.extra.client_token" in again.sentence()) == (2, True)


def test_a_crash_file_holds_none(cli: Cli, repo: Path, issue: Path, tmp_path: Path) -> None:
    """A model of the user's own whose factory breaks, with the credentials on the command line around it."""
    ran = cli(
        *("resolve", "--repo", repo, "--issue", issue, "--model", "statistics.mean:sixth-secret", *SETS),
        *("--out", tmp_path / "out"),
        env={"TMPDIR": str(tmp_path), "OPENAI_API_KEY": "sixth-secret"},
    )
    assert ran.code == 70, ran
    (log,) = tmp_path.glob("execcritic-crash-*.log")
    assert "-secret" not in log.read_text() + ran.out + ran.err
    assert "--set model.api_key=***" in log.read_text()


class TestResuming:
    def load(self, *sets: str) -> config.Config:
        return config.load(sets=sets, environ={})

    def test_what_was_masked_comes_from_today_s_options(self) -> None:
        before = self.load("model.api_key=k1", "model.extra={token: t1, top_p: 0.5}", "loop.revisions=1")
        body = json.loads(json.dumps(config.kept(before)))
        with pytest.raises(UsageError, match=r"model\.extra\.token"):
            config.restored(body, self.load())
        again = config.restored(body, self.load("model.api_key=k2", "model.extra.token=t2"))
        assert again.model.extra == {"token": "t2", "top_p": 0.5}
        assert again.model.api_key is not None
        assert again.model.api_key.get_secret_value() == "k2"
        assert again.loop.revisions == 1

    @pytest.mark.parametrize(
        ("url", "taken"),
        [
            ("http://127.0.0.1:8/v1", True),
            ("http://localhost/v1", True),
            ("https://mine.example/v1", True),
            ("https://evil.example/v1", False),
            ("https://mine.example.evil/v1", False),
            ("http://me:x@localhost/v1", False),
        ],
    )
    def test_a_manifest_does_not_say_where_the_key_is_sent(
        self, url: str, taken: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", "https://mine.example/v1")
        body = config.kept(self.load(f"model.base_url={url}"))
        if taken:
            assert config.restored(body, self.load()).model.base_url == url
        else:
            with pytest.raises(UsageError, match="--base-url"):
                config.restored(body, self.load())
        assert config.restored(body, self.load(f"model.base_url={url}")).model.base_url == url


def test_text_of_a_crash() -> None:
    argv = ["--set", "model.api_key=abcdef", "--set=model.extra={x: [ghijkl]}", "--repo", "https://mnopqr@h/r"]
    text = "abcdef ghijkl https://mnopqr@h/r stuvwx rest"
    told = credentials.hidden(text, argv, {"MY_TOKEN": "stuvwx", "PATH": "/bin"})
    assert told == "*** *** https://***@h/r *** rest"
