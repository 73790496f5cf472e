"""What an action leaves: its whole output in a file, processes that run on, and programs that wanted a terminal."""

from __future__ import annotations

import pytest

from execcritic_scaffold.inject import spool
from execcritic_scaffold.sandbox.protocol import Workspace
from tests.scaffold.conformance.boxes import LIMITS, Box, gone, marker


def test_a_long_output_can_be_read_again(box: Box) -> None:
    with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
        before = session.manifest()
        assert session.act("printf %1000d 1", 5, output=400, spool=1000).spooled is None
        done = session.act("printf 'START\\377\\0'; seq 30000; echo END", 5, output=400, spool=1000)
        assert done.spooled is not None and done.dropped > 0
        assert (done.spooled.kept, done.spooled.dropped) == (len(done.output) + done.dropped, 0)
        read = session.act(
            f"head -c 7 {done.spooled.path}; wc -c < {done.spooled.path}; tail -n 2 {done.spooled.path}", 5
        )
        assert read.output.decode("latin-1").split() == ["START\xff\0" + str(done.spooled.kept), "30000", "END"]
        assert session.manifest() == before  # nothing of it is in the workspace


def test_the_files_are_bounded_one_by_one_and_together(box: Box) -> None:
    with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
        flood = f"head -c {spool.FILE + 1000} /dev/zero | tr '\\0' x"
        paths, removed = [], []
        for _ in range(spool.TOTAL // spool.FILE + 2):
            kept = session.act(flood, 20, output=100, spool=100).spooled
            assert kept is not None and (kept.kept, kept.dropped) == (spool.FILE, 1000)
            paths.append(kept.path)
            removed += kept.removed
        assert removed == paths[:2]
        there = session.act(f"ls {' '.join(paths)} 2>/dev/null", 5).output.decode().split()
        assert sorted(there) == sorted(paths[2:])


@pytest.mark.parametrize(
    "spoil",
    ["rm -rf {0}", "rm -rf {0}; ln -s $PWD {0}", "rm -rf {0}; touch {0}", "rm -rf {0}/*; mkfifo {0}/output-2.txt"],
)
def test_an_agent_that_spoils_the_folder_spoils_only_its_own_files(box: Box, spoil: str) -> None:
    with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
        before = session.manifest()
        first = session.act("seq 1000", 5, spool=10).spooled
        assert first is not None
        session.act(spoil.format(first.path.rpartition("/")[0]), 5)
        again = session.act("seq 1000", 5, spool=10)
        assert again.output.endswith(b"1000\n")
        assert again.spooled is None or session.act(f"wc -l < {again.spooled.path}", 5).output == b"1000\n"
        assert session.manifest() == before


def test_a_full_temporary_folder_costs_the_file_and_not_the_action(isolating: Box) -> None:
    with isolating.sandbox.open(Workspace(isolating.prepared), LIMITS) as session:
        session.act("cat /dev/zero > $TMPDIR/fill", 20)
        done = session.act("seq 100000; echo END", 5, output=1000, spool=100)
        assert done.output.endswith(b"END\n")
        limited = isolating.sandbox.name != "remote"  # where it says that it cannot limit "disk"
        assert done.spooled is None or done.spooled.dropped > 0 or not limited


def test_processes_left_behind_are_reported(box: Box) -> None:
    mark = marker()
    with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
        done = session.act(f"sleep {mark} & (setsid sleep {mark} &) ; sleep 0.3", 5)
        assert done.left_behind == 2 and all(f"sleep {mark} (pid " in name for name in done.left_names)
        assert session.act("echo", 5).left_behind == 0  # those of before are known
        assert session.act("for n in 1 2 3 4 5 6 7 8 9 10 11; do sleep 1000 & done", 5).left_behind == 11
        assert session.act(f"sleep {mark}", 0.3).left_behind == 0  # killed with the action
    assert gone(mark)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("vi f", 1),
        ("(vim f)", 1),
        ("less run.sh | tail -n 1", 0),
        ("more run.sh | tail -n 1", 0),
        ("cat", 0),
        ("bash", 0),
        ("$PYTHON", 0),
        ("$PYTHON -i 2>&1 | tail -n 1", 0),
        ("$PYTHON -c 'input()' 2>/dev/null", 1),
        ("$PYTHON -c 'open(\"/dev/tty\")' 2>/dev/null", 1),
        ("read x", 1),
        ("select x in a b; do echo $x; done 2>/dev/null", 1),
        ("top -n 1 2>/dev/null >&2; test $? -ne 0", 0),
        ("man ls > /dev/null 2>&1; true", 0),
        ("ed 2>/dev/null <&0; true", 0),
    ],
)
def test_programs_that_want_a_terminal_end(box: Box, script: str, code: int) -> None:
    with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
        done = session.act(f"PYTHON={box.prepared.interpreter.python}; {script}", 20)
        assert (done.exit_code, done.timed_out) == (code, False), done
        assert "vi" not in script or b"no terminal for an editor" in done.output


def test_git_never_waits_for_an_editor_or_a_pager(box: Box) -> None:
    with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
        session.act("git init -q; git config user.name n; git config user.email e; git config core.editor vi", 5)
        session.act("git config sequence.editor vi; git config core.pager less; git add -A", 5)
        refused = session.act("git commit", 20)
        assert refused.exit_code == 1 and b"empty commit message" in refused.output
        for script in (
            "git commit -qm one; seq 200 > long; git add long; git commit -qm two",
            "git commit --amend && git rebase -i HEAD~1 && git log -p && git branch -a && git help -a > /dev/null",
        ):
            done = session.act(script, 20)
            assert (done.exit_code, done.timed_out) == (0, False), done


def test_editors_with_a_command_run(box: Box) -> None:
    with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
        if session.act("type -P vim", 5).exit_code != 0:
            pytest.skip("no vim here")
        assert session.act("vim -es -c '%s/ran/RAN/' -c wq run.sh; cat run.sh", 20).output.endswith(b"RAN\n")


def test_what_persists_and_what_does_not(box: Box) -> None:
    with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
        session.act("cd pkg; export A=1; B=2; f() { echo f; }; alias g=pwd; set -e; umask 077", 5)
        done = session.act('pwd; echo "$A ${B-}"; f 2>/dev/null; false; echo on', 5)
        assert done.output.decode().split() == [f"{session.workdir}/pkg", "1", "on"]


def test_a_manifest_that_is_the_same_is_known(box: Box) -> None:
    with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
        first = session.manifest()
        first.pop("run.sh")  # the caller's copy
        again = session.manifest()
        assert "run.sh" in again
        session.act("chmod 644 run.sh", 5)
        assert session.manifest()["run.sh"].mode == "100644"
        session.act("chmod 755 run.sh", 5)
        assert session.manifest() == again
