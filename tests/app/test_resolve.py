"""The main job through the console script: real repositories, real sandboxes, recorded replies or a real endpoint."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.openai_server import serve

from .conftest import NODE, SAMPLE, SCRIPT, TEST_FILE, Cli, Ran, call, git, recording, run

WRITE_TEST = f"cat > tests/test_contained.py <<'EOF'\n{TEST_FILE.decode()}EOF\n"
WRONG = "sed -i 's/in sorted(spans):/in sorted(set(spans)):/' spans/merge.py"
RIGHT = "sed -i 's/(merged\\[-1\\]\\[0\\], end)/(merged[-1][0], max(merged[-1][1], end))/' spans/merge.py"
CONTRACT = {
    "entrypoint": "spans.merge",
    "trigger": "a contained span",
    "expected_output": "the containing span",
    "issue_evidence": ["When one span lies inside another"],
    "alternative_hypotheses": ["none"],
    "non_assertions": ["none"],
    "test_nodes": [NODE],
}
GOOD_TEST = [
    call("test", "bash", command=WRITE_TEST),
    call("test", "submit_test", nodes=[NODE], contract=CONTRACT),
]
FAST = (
    "--set",
    "qualify.repeats=1",
    "--set",
    "verify.repeats=1",
    "--set",
    "verify.guard=off",
    "--set",
    "qualify.guard=off",
)


@pytest.fixture
def arguments(repo: Path, issue: Path, engine: str) -> list[object]:
    return ["--repo", repo, "--issue", issue, "--sandbox", engine, *FAST]


def events(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines() if line]


def opening(trajectory: Path) -> str:
    """What the user's first message of a recorded conversation says."""
    lines = [json.loads(line) for line in trajectory.read_text().splitlines()]
    return next(str(x["message"]["content"]) for x in lines if x.get("message", {}).get("role") == "user")


def running(command: str) -> bool:
    """Whether exactly this command runs somewhere on the machine."""
    wanted = b"\0".join(word.encode() for word in command.split()) + b"\0"
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if process.read_bytes() == wanted:
                return True
        except OSError:
            continue  # it ended while we looked
    return False


def leftovers(pid: int) -> list[str]:
    """Folders and processes that a run of ours with this process id left on the machine."""
    mark = re.compile(rf"execcritic-\d+-{pid}-")
    found = [str(path) for path in Path(tempfile.gettempdir()).iterdir() if mark.search(path.name)]
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = process.read_bytes().decode(errors="replace")
        except OSError:
            continue  # it ended while we looked
        if mark.search(command):
            found.append(command)
    return found


class TestResolve:
    def test_fail_feedback_revise_pass(self, cli: Cli, arguments: list[object], repo: Path, tmp_path: Path) -> None:
        replies = recording(
            tmp_path / "r.jsonl",
            *GOOD_TEST,
            call("repair", "bash", command=WRONG),
            call("repair", "check"),
            call("repair", "bash", command=RIGHT),
            call("repair", "check"),
        )
        before = git(repo, "status", "--porcelain", "--ignored")
        run = tmp_path / "run"
        ran = cli("resolve", *arguments, "--model", replies, "--out", run, "--json")
        assert ran.code == 0, ran
        body = ran.json
        assert (body["status"], body["verdict"], body["rounds"], body["checks"]) == ("RESOLVED", "PASS", 1, 2)
        assert body["turns"] == 6
        assert body["cost"] == 0
        assert body == json.loads((run / "verdict.json").read_bytes())
        for name in ("fix_patch", "test_patch"):
            git(repo, "apply", "--check", body[name])
        assert b"test_contained" not in Path(body["fix_patch"]).read_bytes()
        assert [json.loads((run / f"repair/checks/{n}.json").read_bytes())["verdict"]["decision"] for n in (1, 2)] == [
            "FAIL",
            "PASS",
        ]
        assert git(repo, "status", "--porcelain", "--ignored") == before
        verified = cli("verify", "--bundle", run, "--repo", repo, "--patch", body["fix_patch"], "--guard", "off")
        assert verified.code == 0, verified

    def test_the_brief_opens_both_conversations(self, cli: Cli, arguments: list[object], tmp_path: Path) -> None:
        """From Base: what lies uncommitted in the checkout counts, what is ignored does not."""
        repo = Path(str(arguments[1]))
        (repo / ".git" / "info" / "exclude").write_text("ignored_merge.py\n")
        (repo / "spans" / "ignored_merge.py").write_text("def merge(): pass\n")
        (repo / "tests" / "test_merge.py").write_text(
            "import spans\n\n\ndef test_one():\n    assert spans.merge([]) == []\n"
        )
        wrong = call("test", "submit_test", nodes=[NODE], contract=CONTRACT)
        replies = recording(tmp_path / "r.jsonl", wrong, call("repair", "submit", reason="no"))
        run = tmp_path / "run"
        cli("resolve", *arguments, "--model", replies, "--out", run, "--set", "loop.submissions=1")
        for role in ("test", "repair"):
            text = opening(run / role / "trajectory.jsonl")
            for said in ("- spans/merge.py: defines merge (line 1)", "- tests/test_merge.py", "def test_one():"):
                assert said in text
            assert "-m pytest -q NODE`" in text and "`tests/test_merge.py::test_one`" in text
            assert "ignored_merge" not in text

    def test_no_test_qualifies_and_round_0_is_kept(self, cli: Cli, arguments: list[object], tmp_path: Path) -> None:
        passing = {**CONTRACT, "test_nodes": ["tests/test_contained.py::test_touching"]}
        replies = recording(
            tmp_path / "r.jsonl",
            call("test", "bash", command=WRITE_TEST),
            *[call("test", "submit_test", nodes=passing["test_nodes"], contract=passing)] * 2,
            call("repair", "bash", command=RIGHT),
            call("repair", "submit", reason="done"),
        )
        run = tmp_path / "run"
        ran = cli(
            *("resolve", *arguments, "--model", replies, "--out", run, "--json", "--set", "loop.submissions=2"),
        )
        assert (ran.code, ran.json["status"]) == (3, "UNQUALIFIED")
        assert ran.json["verdict"] is None
        assert b"max(" in (run / "fix.patch").read_bytes()
        assert not (run / "test").joinpath("bundle").exists()

    def test_no_test_and_no_patch(self, cli: Cli, arguments: list[object], tmp_path: Path) -> None:
        wrong = call("test", "submit_test", nodes=[NODE], contract=CONTRACT)
        replies = recording(tmp_path / "r.jsonl", wrong, call("repair", "submit", reason="it is not a bug"))
        ran = cli(*("resolve", *arguments, "--model", replies, "--out", tmp_path / "r", "--set", "loop.submissions=1"))
        assert ran.code == 3, ran
        assert "No test qualified; there is no patch." in ran.out
        assert "fix patch" not in ran.out
        assert 'stopped     the Repair agent ended its work: "it is not a bug"' in ran.out
        assert "after 1 submission (" in ran.err

    def test_the_test_agent_s_endpoint_fails(self, cli: Cli, arguments: list[object], tmp_path: Path) -> None:
        fixer = recording(
            tmp_path / "f.jsonl", call("repair", "bash", command=RIGHT), call("repair", "submit", reason="done")
        )
        with serve() as server:
            server.status(401, {"error": {"message": "bad key"}})
            models = ("--test-model", "openai:m", "--base-url", server.url, "--repair-model", fixer)
            ran = cli("resolve", *arguments, *models, "--out", tmp_path / "run", env={"OPENAI_API_KEY": "k-e-y"})
        assert ran.code == 5, ran
        assert "error       The Test agent's model failed: http" in ran.out
        assert "Test agent    its model failed: http" in ran.err
        assert "no test qualified" not in ran.err

    def test_a_test_is_frozen_and_the_fix_is_wrong(self, cli: Cli, arguments: list[object], tmp_path: Path) -> None:
        replies = recording(
            tmp_path / "r.jsonl",
            *GOOD_TEST,
            call("repair", "bash", command=WRONG),
            call("repair", "check"),
            call("repair", "submit", reason="the test is wrong"),
        )
        ran = cli("resolve", *arguments, "--model", replies, "--out", tmp_path / "run", "--json")
        assert (ran.code, ran.json["status"], ran.json["verdict"]) == (4, "NOT_FIXED", "FAIL")
        assert ran.json["stopped"] == {"kind": "submit", "reason": "the test is wrong"}
        assert b"set(spans)" in (tmp_path / "run" / "fix.patch").read_bytes()

    def test_the_halves_put_together(self, cli: Cli, arguments: list[object], tmp_path: Path) -> None:
        tester = recording(tmp_path / "t.jsonl", *GOOD_TEST)
        fixer = recording(tmp_path / "f.jsonl", call("repair", "bash", command=RIGHT), call("repair", "check"))
        first = cli("test", *arguments, "--model", tester, "--out", tmp_path / "one", "--json")
        assert first.code == 0, first
        assert first.json["bundle"] == str(tmp_path / "one" / "test" / "bundle")
        second = cli(
            *(
                "repair",
                *arguments,
                "--bundle",
                first.json["bundle"],
                "--model",
                fixer,
                "--out",
                tmp_path / "two",
                "--json",
            )
        )
        assert (second.code, second.json["verdict"]) == (0, "PASS"), second
        assert second.json["bundle_id"] == first.json["bundle_id"]

    def test_a_real_endpoint_with_usage(self, cli: Cli, arguments: list[object], tmp_path: Path) -> None:
        """The Repair agent speaks to a server; the key reaches the server and nothing else."""
        tester = recording(tmp_path / "t.jsonl", *GOOD_TEST)
        with serve() as server:
            server.call(("bash", {"command": "env; " + RIGHT}))
            server.call(("check", {}))
            ran = cli(
                *("resolve", *arguments, "--test-model", tester, "--repair-model", "openai:some-model"),
                *("--base-url", server.url, "--out", tmp_path / "run", "--json"),
                env={"OPENAI_API_KEY": "secret-key-value"},
            )
        assert ran.code == 0, ran
        assert ran.json["cost"] is None
        assert ran.json["tokens"]["output"] > 0
        record = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
        assert b"secret-key-value" not in record

    def test_a_model_without_tool_calls_at_an_endpoint_that_is_busy(
        self, cli: Cli, arguments: list[object], tmp_path: Path
    ) -> None:
        tester = recording(tmp_path / "t.jsonl", *GOOD_TEST)
        with serve() as server:
            server.status(429, retry_after="0.2").say(f"<think>hm</think>\nSo:\n```bash\n{RIGHT}\n```").say(
                "```check\n```"
            )
            ran = cli(
                *(
                    "resolve",
                    *arguments,
                    "--test-model",
                    tester,
                    "--repair-model",
                    "openai:m",
                    "--base-url",
                    server.url,
                ),
                *("--set", "model.protocol=text", "--out", tmp_path / "run"),
            )
            assert ran.code == 0, ran
            assert all("tools" not in request for request in server.requests)
        assert "Repair agent  waits 0 s for its model (HTTP 429" in ran.err
        assert any(event["event"] == "model.waiting" for event in events(tmp_path / "run"))

    def test_a_repository_by_url(self, cli: Cli, arguments: list[object], repo: Path, tmp_path: Path) -> None:
        fixer = recording(tmp_path / "r.jsonl", *GOOD_TEST)
        arguments[1] = f"file://{repo}"
        ran = cli("test", *arguments, "--model", fixer, "--out", tmp_path / "run", "--json")
        assert ran.code == 0, ran
        arguments[1] = f"file://{tmp_path}/absent"
        ran = cli("test", *arguments, "--model", fixer, "--out", tmp_path / "other", "--json")
        assert (ran.code, "cannot be cloned" in ran.sentence()) == (5, True)
        assert not (tmp_path / "other").exists()


class TestInterruption:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_the_fix_is_kept_nothing_is_left_and_resume_goes_on(
        self, cli: Cli, arguments: list[object], environment: Mapping[str, str], tmp_path: Path, number: signal.Signals
    ) -> None:
        """The endpoint hangs after the first edit; a signal ends the run; a resumed one starts from the recording."""
        temporary = tmp_path / "temporary"
        temporary.mkdir()
        run = tmp_path / "run"
        tester = recording(tmp_path / "t.jsonl", *GOOD_TEST)
        with serve() as server:
            server.call(("bash", {"command": RIGHT})).hang()
            options = [
                "--test-model",
                tester,
                "--repair-model",
                "openai:m",
                "--base-url",
                server.url,
                "--out",
                str(run),
            ]
            process = subprocess.Popen(
                [SCRIPT, "resolve", *map(str, arguments), *options, "--json"],
                env={**environment, "OPENAI_API_KEY": "k", "TMPDIR": str(temporary)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            wait_for(lambda: len(server.requests) == 2 and (run / "test" / "bundle").is_dir())
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            assert process.returncode == 130, err
            assert "Traceback" not in err
            assert "resume" in json.loads(out)["error"]
            assert b"max(" in (run / "fix.patch").read_bytes()
            assert leftovers(process.pid) == []
            assert list(temporary.iterdir()) == []
            assert events(run)[-1]["event"] == "run.broken"

            server.call(("check", {}))
            resumed = cli("resolve", "--resume", run, "--json", env={"OPENAI_API_KEY": "k"})
            assert resumed.code == 0, resumed
            assert len(server.requests) == 3  # the recorded reply was not asked for again
        assert resumed.json["verdict"] == "PASS"
        assert len([event for event in events(run) if event["event"] == "test.started"]) == 1

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_a_signal_while_both_agents_commands_run(
        self, arguments: list[object], environment: Mapping[str, str], tmp_path: Path, number: signal.Signals
    ) -> None:
        if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            pytest.skip("hang-ups are ignored here (nohup), so the program ignores them too")
        run, temporary = tmp_path / "run", tmp_path / "temporary"
        temporary.mkdir()
        waits = {role: f"sleep {number:d}{os.getpid()}{index}" for index, role in enumerate(("test", "repair"))}
        replies = recording(tmp_path / "r.jsonl", *[call(role, "bash", command=waits[role]) for role in waits])
        process = subprocess.Popen(
            [SCRIPT, "resolve", *map(str, arguments), "--model", replies, "--out", str(run), "--json"],
            env={**environment, "TMPDIR": str(temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_for(lambda: all(running(command) for command in waits.values()))
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        assert "Traceback" not in err
        assert "resolve --resume DIR" in json.loads(out)["error"]
        assert leftovers(process.pid) == []
        assert list(temporary.iterdir()) == []
        assert not any(running(command) for command in waits.values())

    def test_a_second_signal_ends_at_once_with_one_line(self, tmp_path: Path) -> None:
        code = """
import sys, time
from execcritic.cli.boundary import guarded

def command():
    try:
        print("working", flush=True)
        time.sleep(60)
    finally:
        print("cleaning up", flush=True)
        time.sleep(60)

sys.exit(guarded([], command))
"""
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for line in ("working\n", "cleaning up\n"):
            assert process.stdout.readline() == line
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert (process.returncode, len(err.splitlines())) == (130, 1), err
        assert "execcritic clean" in err

    def test_a_person_who_stops_typing_can_leave(
        self, arguments: list[object], environment: Mapping[str, str], tmp_path: Path
    ) -> None:
        run = tmp_path / "run"
        process = subprocess.Popen(
            [SCRIPT, "resolve", *map(str, arguments), "--model", "human", "--out", str(run)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_for(lambda: (run / "test" / "trajectory.jsonl").exists())
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        _, err = process.communicate()
        assert process.returncode == 130, err
        assert "Fatal Python error" not in err

    def test_what_cannot_be_resumed(self, cli: Cli, tmp_path: Path, repo: Path) -> None:
        ran = cli("resolve", "--resume", tmp_path)
        assert (ran.code, "not a run that can be resumed" in ran.sentence()) == (2, True)
        ran = cli("resolve", "--resume", tmp_path, "--repo", repo)
        assert (ran.code, "leave the other options out" in ran.sentence()) == (2, True)


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("what was waited for did not come")


@pytest.fixture(scope="module")
def demo(environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """The run's directory, and how the command ended: with no network to be had."""
    folder = tmp_path_factory.mktemp("a folder") / "a run"
    offline = {**environment, "https_proxy": "http://127.0.0.1:9"}
    return folder, run(offline, folder.parent, "demo", "--out", folder)


class TestDemo:
    def test_the_demo_shows_a_rejection_a_failure_and_a_fix(self, demo: tuple[Path, Ran]) -> None:
        folder, ran = demo
        assert (ran.code, json.loads((folder / "verdict.json").read_bytes())["verdict"]) == (0, "PASS"), ran
        assert f"report      {folder / 'report.html'}" in ran.out
        report = (folder / "report.html").read_text()
        assert "2 frozen nodes pass" in report and "Missing or left out" not in report
        for words in ("REJECTED PASSES_ON_BASE", "QUALIFIED", "check 1: FAIL", "check 2: PASS"):
            assert words in ran.err
        assert (folder / "sample" / "spans" / "merge.py").is_file()

    def test_what_it_tells_a_newcomer_to_do_next_works(
        self, demo: tuple[Path, Ran], environment: Mapping[str, str]
    ) -> None:
        command = shlex.split(demo[1].err.splitlines()[-1])
        assert command[1:3] == ["verify", "--bundle"]
        path = os.pathsep.join(item for item in environment["PATH"].split(os.pathsep) if item != str(SCRIPT.parent))
        done = subprocess.run(command, env={**environment, "PATH": path}, capture_output=True, text=True)
        assert (done.returncode, done.stdout[:4]) == (0, "PASS"), done.stderr

    def test_a_run_that_has_ended_is_not_done_again(self, cli: Cli, demo: tuple[Path, Ran]) -> None:
        before = events(demo[0])
        again = cli("resolve", "--resume", demo[0], "--json")
        assert (again.code, again.json) == (0, json.loads((demo[0] / "verdict.json").read_bytes()))
        assert events(demo[0]) == before

    def test_the_sample_is_part_of_the_package(self) -> None:
        assert {path.name for path in SAMPLE.iterdir()} >= {"repository.patch", "issue.md", "replies.jsonl"}


def test_doctor_says_what_to_do(cli: Cli, tmp_path: Path, engine: str) -> None:
    ran = cli(
        "doctor",
        "--json",
        env={"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "DOCKER_HOST": f"unix://{tmp_path}/absent.sock"},
    )
    found = {check["name"]: check for check in ran.json["checks"]}
    assert found["git"]["ok"]
    assert found["docker"]["ok"] is False
    assert found["model"]["ok"] is False
    assert "unreachable" in found["model"]["detail"]
    assert ran.code == (0 if engine == "bubblewrap" else 5)
    assert ran.json["ready"] is (ran.code == 0)


def test_doctor_tells_a_missing_tool_from_a_refusal(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    git_here = shutil.which("git")
    assert git_here is not None
    (tmp_path / "bin" / "git").symlink_to(git_here)
    ran = cli("doctor", "--json", env={"PATH": str(tmp_path / "bin")})
    found = {check["name"]: check for check in ran.json["checks"]}["user namespaces"]
    assert "unshare is missing" in found["detail"]
    assert "util-linux" in found["remedy"]
