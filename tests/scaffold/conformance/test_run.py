"""One-shot commands: exit codes, streams, limits of time and output, a fresh workspace each time."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.files import EXECUTABLE, SYMLINK, File
from execcritic_scaffold.sandbox.protocol import Command, Workspace
from tests.scaffold.conformance.boxes import (
    LIMITS,
    Box,
    gone,
    marker,
)


@pytest.mark.parametrize("code", [0, 1, 3, 127])
def test_exit_code(box: Box, code: int) -> None:
    done = box.sh(f"exit {code}")
    assert (done.exit_code, done.timed_out, done.out_of_memory, done.left_behind) == (code, False, False, 0)


def test_death_by_signal(box: Box) -> None:
    done = box.sh("kill -9 $$")
    assert (done.exit_code, done.stderr) == (-9, b"")


def test_missing_program(box: Box) -> None:
    done = box.sandbox.run(Workspace(box.prepared), Command(["no-such-program"]), LIMITS)
    assert done.exit_code == 127
    assert b"no-such-program" in done.stderr


def test_streams_are_bytes_and_apart(box: Box) -> None:
    done = box.sh(r"printf 'a\xff\r\n\0'; printf '\xe9' >&2")
    assert (done.stdout, done.stderr) == (b"a\xff\r\n\0", b"\xe9")


def test_stdin(box: Box) -> None:
    data = bytes(range(256)) * 2048
    assert box.sh("cat", stdin=data).stdout == data
    assert box.sh("read x; echo $?").stdout == b"1\n"
    assert box.sh("exit 4", stdin=data).exit_code == 4


def test_directory_and_environment(box: Box) -> None:
    done = box.sh("cat __init__.py; echo $MORE", cwd="pkg", env={"MORE": "x y"})
    assert done.stdout == b"value = 1\nx y\n"


def test_interpreter_is_the_one_inspected_and_imports_the_workspace(box: Box) -> None:
    done = box.python("import sys, pkg; print(sys.executable, pkg.value)")
    assert done.stdout.decode().split() == [box.prepared.interpreter.python, "1"], done.stderr


def test_output_is_capped_at_head_and_tail(box: Box) -> None:
    limits = replace(LIMITS, output=1000)
    done = box.sh("echo first; yes | head -c 50000000; echo last; echo err >&2", limits)
    assert done.stdout.startswith(b"first\n") and done.stdout.endswith(b"last\n")
    assert len(done.stdout) == 1000
    assert done.dropped == (50_000_000 + 11 - 1000, 0)
    assert done.stderr == b"err\n"


def test_time_limit_ends_everything(box: Box) -> None:
    mark = marker()
    done = box.sh(
        f"trap '' TERM; setsid sleep {mark} & (setsid nohup sleep {mark} >/dev/null 2>&1 &); echo on; sleep {mark}",
        replace(LIMITS, seconds=0.7),
    )
    assert (done.exit_code, done.timed_out, done.stdout) == (None, True, b"on\n")
    assert gone(mark)


def test_what_is_left_behind_is_counted_and_ended(box: Box) -> None:
    mark = marker()
    done = box.sh(f"sleep {mark} & (setsid sleep {mark} &) ; echo done")
    assert (done.exit_code, done.stdout, done.left_behind) == (0, b"done\n", 2)
    assert gone(mark)


def test_workspace_is_fresh_and_base_untouched(box: Box) -> None:
    first = box.sh(
        "echo new > new; echo changed > pkg/__init__.py; rm -r tests; chmod +x link; touch ~/mine $TMPDIR/mine"
    )
    assert first.exit_code == 0, first.stderr
    second = box.sh("ls; cat pkg/__init__.py; ls -d ~/mine $TMPDIR/mine 2>/dev/null | wc -l")
    assert second.stdout.split() == [b"data", b"link", b"pkg", b"run.sh", b"tests", b"value", b"=", b"1", b"0"]


def test_only_our_byte_code(box: Box) -> None:
    done = box.sh("find . -name '*.pyc'")
    names = {Path(os.fsdecode(line)).name.partition(".")[0] for line in done.stdout.split()}
    assert names == {"__init__", "test_it"}
    # Bits 0 and 1 of the flags: checked hash (PEP 552).
    assert box.sh("od -An -tu1 -j4 -N1 pkg/__pycache__/*.pyc").stdout.split() == [b"3"]


def test_stale_byte_code_never_runs(box: Box) -> None:
    changes = {"pkg/__init__.py": File(b"value = 2\n")}
    assert (
        box.sh(f"{box.prepared.interpreter.python} -c 'import pkg; print(pkg.value)'", changes=changes).stdout == b"2\n"
    )


def test_changes(box: Box) -> None:
    changes = {
        "new/deep/file.txt": File(b"\xff\n"),
        "pkg/__init__.py": File(b"value = 2\n"),
        "pkg/only/one.txt": None,
        "run.sh": File(b"#!/bin/sh\necho ran\n"),
        "tool": File(b"#!/bin/sh\necho tool\n", EXECUTABLE),
        "pointer": File(b"new/deep", SYMLINK),
        "link": None,
        "link/below": File(b"was a link\n"),
        "data/latin-\udce9.bin": None,
        "data": File(b"was a directory\n"),
    }
    done = box.sh(
        "find . -name __pycache__ -prune -o -printf '%p %y\n' | sort; ./tool; test -x run.sh || echo plain;"
        "cat pointer/file.txt link/below data pkg/__init__.py; echo >> tool && echo >> new/x && echo writable",
        changes=changes,
    )
    assert done.stdout == (
        b". d\n./data f\n./link d\n./link/below f\n./new d\n./new/deep d\n./new/deep/file.txt f\n./pkg d\n"
        b"./pkg/__init__.py f\n./pointer l\n./run.sh f\n./tests d\n./tests/test_it.py f\n./tool f\n"
        b"tool\nplain\n\xff\nwas a link\nwas a directory\nvalue = 2\nwritable\n"
    ), done.stderr


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../b", ".git/config", "a//b", ""])
def test_changes_outside_the_workspace_are_refused(box: Box, path: str) -> None:
    with pytest.raises(UsageError):
        box.sh("true", changes={path: File(b"x")})


def test_audit_lists_what_was_written(box: Box) -> None:
    done = box.sh(
        "echo > pkg/new; echo > pkg/__init__.py; rm run.sh; rm -r tests; mkdir tests; echo > tests/other;"
        "echo > ~/note; echo > $TMPDIR/free; cat link >/dev/null",
        audit=True,
    )
    assert done.writes is not None
    wanted = {"pkg/new", "pkg/__init__.py", "run.sh", "tests/other", "~/note"}
    assert wanted <= set(done.writes), done.stderr
    assert {path.partition("/")[0] for path in done.writes} == {"pkg", "run.sh", "tests", "~"}


def test_audit_of_a_command_that_writes_nothing(box: Box) -> None:
    assert box.sh("cat run.sh", audit=True).writes == ()
    assert box.sh("cat run.sh").writes is None
