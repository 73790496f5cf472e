"""What an agent works in."""

from __future__ import annotations

import errno

import pytest

from execcritic_scaffold.errors import SandboxError
from execcritic_scaffold.files import EXECUTABLE, SYMLINK, Entry, File
from execcritic_scaffold.sandbox.protocol import ActionResult, Workspace
from tests.scaffold.conformance.boxes import (
    BASE,
    LIMITS,
    Box,
    appeared,
    as_git,
    git_id,
    gone,
    marker,
    sources,
)


def test_directory_and_variables_persist(box: Box) -> None:
    with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
        assert session.act("pwd", 5).output.decode() == session.workdir + "\n"
        session.act("cd pkg; export A='x\ny \"$z\"' B=\u00e9; C=3", 5)
        done = session.act('pwd; echo "$A$B$C"; cd - >/dev/null; unset B; exit 7', 5)
        assert done.output.decode() == f'{session.workdir}/pkg\nx\ny "$z"\u00e9\n'
        assert done.exit_code == 7
        assert session.act("pwd; echo ${B-unset}; echo $OLDPWD", 5).output.decode() == (
            f"{session.workdir}\nunset\n{session.workdir}/pkg\n"
        )
        session.act("mkdir gone; cd gone; rmdir ../gone", 5)
        assert session.act("ls run.sh", 5).output.endswith(b"run.sh\n")


def test_environment_is_ours(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXECCRITIC_CANARY", "secret-canary")
    with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
        lines = session.act("env", 5).output.decode().splitlines()
    variables = dict(line.split("=", 1) for line in lines)
    wanted = {"LANG": "C.UTF-8", "PAGER": "cat", "GIT_PAGER": "cat", "EDITOR": "true", "GIT_EDITOR": "true"}
    assert wanted.items() <= variables.items()
    assert (variables["TERM"], variables["PYTHONDONTWRITEBYTECODE"]) == ("dumb", "1")
    assert set(variables) <= set(wanted) | {
        "PATH", "HOME", "PWD", "OLDPWD", "SHLVL", "_", "TERM", "TMPDIR", "VISUAL", "MANPAGER",
        "GIT_SEQUENCE_EDITOR", "PYTHONDONTWRITEBYTECODE",
    }  # fmt: skip


def test_results(box: Box) -> None:
    with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
        assert session.act("echo out; echo err >&2; printf '\\xff'; false", 5).output == b"out\nerr\n\xff"
        assert session.act("kill -9 $$", 5).exit_code == -9
        assert session.act("read x; echo $?", 5).output == b"1\n"
        assert session.act("if; then", 5).exit_code == 2
        assert session.act("nosuch", 5).output == b"bash: line 1: nosuch: command not found\n"
        large = "cat > big <<'EOF'\n" + "x" * 300_000 + "\nEOF\nwc -c < big"
        assert session.act(large, 5).output == b"300001\n"
        capped = session.act("yes | head -c 30000000; echo last", 20, output=1000)
        assert (len(capped.output), capped.dropped) == (1000, 30_000_005 - 1000)
        assert capped.output.endswith(b"last\n")


def test_time_limit_ends_the_tree_and_spares_earlier_jobs(box: Box) -> None:
    early, late = marker(), marker()
    with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
        session.act(f"sleep {early} &", 5)
        done = session.act(f"trap '' TERM; (setsid sleep {late} &); setsid sleep {late} & echo on; sleep {late}", 0.5)
        assert (done.exit_code, done.timed_out, done.output) == (None, True, b"on\n")
        assert gone(late)
        assert appeared(early, 1)
        assert session.act("echo alive", 5).output == b"alive\n"
    assert gone(early)


def test_background_jobs_do_not_block(box: Box) -> None:
    mark = marker()
    with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
        assert session.act(f"sleep {mark} & (while echo noise; do sleep 0.01; done) & echo done", 20).seconds < 10
        assert session.act("sleep 0.3; jobs; echo next", 20).output == b"next\n"
    assert gone(mark)


def test_files(box: Box) -> None:
    with box.sandbox.open(Workspace(box.prepared, {"laid": File(b"1\n")}), LIMITS) as session:
        wanted = as_git({**BASE, "laid": File(b"1\n")})
        assert sources(session.manifest()) == wanted
        session.act("mkdir -p sub/.git .git; echo x > sub/inside; echo y > .git/config; mkfifo pipe; git init", 5)
        session.act("printf 'a\\r\\n' > 'new name'; chmod 755 'new name'; chmod 000 laid; ln -s /etc/passwd out", 5)
        listed = sources(session.manifest())
        assert listed.pop("sub").mode == "160000"
        more = {"new name": File(b"a\r\n", EXECUTABLE), "out": File(b"/etc/passwd", SYMLINK)}
        assert listed == wanted | as_git(more)
        assert session.read("new name") == b"a\r\n"
        assert session.read("out") == b"/etc/passwd"
        assert session.read("data/latin-\udce9.bin") == b"\x00\xff\r\n"


def test_reading_stops_at_its_limit(box: Box) -> None:
    with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
        session.act("printf 12345 > five", 5)
        assert session.read("five", 5) == b"12345"
        with pytest.raises(OSError, match="more than 4 bytes") as caught:
            session.read("five", 4)
        assert caught.value.errno == errno.EFBIG
        assert session.act("cat five", 5).output == b"12345"


@pytest.mark.parametrize("path", ["nothing", "pkg", "../etc/passwd", "/etc/passwd", "evil/passwd", "pkg/x/y"])
def test_reading_what_is_no_workspace_file(box: Box, path: str) -> None:
    with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
        session.act("ln -s /etc evil", 5)
        with pytest.raises(FileNotFoundError):
            session.read(path)


def test_writing(box: Box) -> None:
    with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
        session.act("ln -s /tmp evil", 5)
        session.write(
            {
                "evil/file": File(b"stays inside\n"),
                "pkg/only/one.txt": None,
                "nowhere/at/all": None,
                "data": File(b"was a directory\n"),
                "data/latin-\udce9.bin": None,
                "run.sh": File(b"#!/bin/sh\n", EXECUTABLE),
                "link": File(b"run.sh", SYMLINK),
                "tests/test_it.py": None,
                "tests/test_it.py/now": File(b"a directory"),
            }
        )
        wanted = {
            "pkg/__init__.py": BASE["pkg/__init__.py"],
            "evil/file": File(b"stays inside\n"),
            "data": File(b"was a directory\n"),
            "run.sh": File(b"#!/bin/sh\n", EXECUTABLE),
            "link": File(b"run.sh", SYMLINK),
            "tests/test_it.py/now": File(b"a directory"),
        }
        assert sources(session.manifest()) == as_git(wanted)
        assert session.act("ls /tmp/file; ls -d pkg/only", 5).exit_code != 0
        with pytest.raises(SandboxError, match="workspace"):
            session.write({"../outside": File(b"x")})
        assert session.act("echo alive", 5).output == b"alive\n"


def test_same_size_edits_are_noticed(box: Box) -> None:
    with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
        for value in range(10):
            session.act(f"printf {value} > quick; touch -d @1 quick", 5)
            assert session.manifest()["quick"] == Entry("100644", git_id(b"%d" % value))


def test_a_dead_session_is_an_error(box: Box) -> None:
    session = box.sandbox.open(Workspace(box.prepared), LIMITS)
    session.close()
    session.close()
    with pytest.raises(SandboxError):
        session.act("true", 5)


def test_the_runner_survives_what_runs_in_it(isolating: Box) -> None:
    """A command may not end the session, nor write answers in the runner's place."""
    with isolating.sandbox.open(Workspace(isolating.prepared), LIMITS) as session:
        done: ActionResult = session.act("kill -9 -1; kill -TERM -1; kill -9 1; kill -9 $PPID; echo still here", 5)
        assert done.output.endswith(b"still here\n")
        session.act("for fd in /proc/1/fd/* /proc/$PPID/fd/*; do echo forged > $fd; done", 5)
        assert session.act("echo mine", 5).output == b"mine\n"


def test_fork_bomb_does_not_end_the_session(isolating: Box) -> None:
    mark = marker()
    with isolating.sandbox.open(Workspace(isolating.prepared), LIMITS) as session:
        session.act(f"while true; do sleep {mark} & done 2>/dev/null", 3)
        assert gone(mark)
        assert session.act("echo alive", 10).output == b"alive\n"


def test_a_memory_hog_does_not_end_the_session(isolating: Box) -> None:
    with isolating.sandbox.open(Workspace(isolating.prepared), LIMITS) as session:
        python = isolating.prepared.interpreter.python
        done = session.act(f"{python} -c \"x = b'x' * (900 << 20); print('had' + ' it')\"", 20)
        assert done.exit_code != 0 and b"had it" not in done.output
        assert session.act("echo alive", 5).output == b"alive\n"
