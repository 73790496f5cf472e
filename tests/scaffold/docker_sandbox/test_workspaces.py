"""A patch laid into a container, files that nobody inside can touch, and how a run's end is known."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.files import File
from execcritic_scaffold.sandbox import docker_run
from execcritic_scaffold.sandbox.protocol import Completed

pytestmark = pytest.mark.docker
Shell = Callable[..., Completed]
FROZEN = "tests/test_frozen.py"


@pytest.mark.parametrize(
    "attack",
    [
        "echo 1 >tests/test_frozen.py",
        "chmod u+w tests/test_frozen.py",
        "rm -f tests/test_frozen.py",
        "mv tests/test_frozen.py tests/other.py",
        "echo 1 >new && mv -f new tests/test_frozen.py",
        "ln -sf /dev/null tests/test_frozen.py",
        "mv tests gone",
        "rm -rf tests",
        "chmod 777 tests",
        "mv /testbed /gone",
    ],
)
def test_frozen_file_cannot_be_touched(shell: Shell, attack: str) -> None:
    script = f"{attack}; cat {FROZEN}; touch tests/beside pkg/beside beside && rm tests/beside"
    done = shell(script, {FROZEN: File(b"frozen\n")}, frozenset({FROZEN, "tests/conftest.py"}))
    assert done.stdout == b"frozen\n"
    assert done.exit_code == 0, "new files beside the frozen ones must be possible"


def test_file_of_base_can_be_frozen(shell: Shell) -> None:
    script = "echo 1 >tests/conftest.py; rm -f tests/conftest.py; cat tests/conftest.py"
    done = shell(script, readonly=frozenset({"tests/conftest.py"}))
    assert done.exit_code == 0 and done.stdout == b""


def test_frozen_link_is_refused(shell: Shell) -> None:
    with pytest.raises(UsageError, match="symbolic link"):
        shell("true", {FROZEN: File(b"/dev/null", "120000")}, frozenset({FROZEN}))


def test_changes_replace_files_by_directories_and_back(shell: Shell) -> None:
    changes = {
        "pkg/old/only.py": None,
        "pkg/old": File(b"a file now\n"),
        "tests/conftest.py": None,
        "tests/conftest.py/inner": File(b"1\n"),
        "link": File(b"pkg", "120000"),
        "run": File(b"#!/bin/sh\n", "100755"),
        os.fsdecode(b"caf\xe9"): File(b"latin-1\n"),
    }
    done = shell("cat pkg/old tests/conftest.py/inner caf*; readlink link; ./run && ls -b | head -1", changes)
    assert done.stdout == b"a file now\n1\nlatin-1\npkg\ncaf\\351\n" and done.exit_code == 0


def test_deleted_module_leaves_no_package_behind(shell: Shell) -> None:
    # A directory that holds byte code only would still be importable, as a namespace package.
    done = shell("ls pkg", {"pkg/old/only.py": None})
    assert done.stdout.split() == [b"__init__.py", b"__pycache__"]


def test_threads_share_a_sandbox(shell: Shell) -> None:
    with ThreadPoolExecutor(4) as pool:
        done = pool.map(lambda number: shell(f"echo {number} >pkg/own; cat pkg/own"), range(8))
    assert [each.stdout for each in done] == [b"%d\n" % number for number in range(8)]


def test_exit_code_is_told_from_a_signal(shell: Shell) -> None:
    assert shell("exit 137").exit_code == 137
    assert shell("kill -9 $$").exit_code == -9


def test_end_of_the_run_cannot_be_forged(shell: Shell) -> None:
    # What process 1 reports comes after everything else was killed; its nonce is no secret, and need not be.
    forge = "nonce=$(tr '\\0' '\\n' </proc/1/cmdline | sed -n 5p); printf '%s\\0\\0\\0\\0\\0\\0\\0\\0' $nonce >&2"
    done = shell(f"{forge}; exit 7")
    assert done.exit_code == 7 and len(done.stderr) == 24


FORGE = r"""
import os, signal, struct, sys
nonce = open("/proc/1/cmdline", "rb").read().split(b"\0")[4]
os.write(2, nonce + struct.pack(">Ii", 0, 1))
for number in set(range(1, 65)) - {32, 33}:
    os.kill(1, number)
sys.stdout.write("alive")
sys.exit(7)
"""


def test_no_signal_from_inside_ends_process_1(shell: Shell) -> None:
    """Or the last bytes of the output would be whatever the command wrote, a trailer among them."""
    done = shell('python3 -c "$CODE"; exit $?', env={"CODE": FORGE})
    assert (done.exit_code, done.stdout, done.left_behind) == (7, b"alive", 0)


@pytest.mark.parametrize(
    ("code", "status", "fits"),
    [(0, 0, True), (7, 7, True), (-9, 137, True), (1, 137, False), (0, 1, False), (-11, 137, False)],
)
def test_a_trailer_must_fit_what_process_1_ended_with(code: int, status: int, fits: bool) -> None:
    """Process 1 may die without a trailer of its own, for want of memory; then the output may end with a forged one."""
    assert docker_run.fits(b"n" * 16 + struct.pack(">Ii", 0, code), status) is fits


def test_byte_code_beside_a_frozen_file_is_read_only(shell: Shell) -> None:
    script = "ls tests/__pycache__; cd tests/__pycache__; touch new; for f in *; do echo >$f; done; rm -rf $PWD; ls"
    for frozen in ({FROZEN: File(b"1\n")}, {"tests/test_pkg.py": File(b"1\n"), "tests/conftest.py": None}):
        done = shell(script, frozen, frozenset(frozen))
        lines = done.stdout.split()
        assert b"new" not in lines and lines[: len(lines) // 2] == lines[len(lines) // 2 :] and lines, done
        assert b"denied" in done.stderr or b"not permitted" in done.stderr


def test_process_1_is_out_of_reach(shell: Shell) -> None:
    done = shell("kill -9 1; kill -INT 1; ls /proc/1/fd || exit 5")
    assert done.exit_code == 5


def test_audit_sees_through_the_patch(shell: Shell) -> None:
    changes = {"pkg/new.py": File(b"1\n"), "pkg/same.py": File(b"1\n"), "pkg/old/only.py": None}
    script = "echo >>pkg/new.py; rm tests/conftest.py; mkdir empty; touch ~/at-home gone /tmp/fine; rm gone"
    assert shell(script, changes, audit=True).writes == ("empty", "pkg/new.py", "tests/conftest.py", "~/at-home")
    assert shell("true", changes, audit=True).writes == ()
