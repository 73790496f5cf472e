"""Where results go: a standard output that takes nothing, certificates and folders that cannot be written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from .conftest import NODE, SCRIPT, Cli, Ran, diff, fixed
from .test_errors import in_mount_namespace


def to_full_disk(environment: Mapping[str, str], *arguments: object) -> Ran:
    """Run a command whose standard output is on a full disk."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [SCRIPT, *map(str, arguments)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=120,
        )
    return Ran(done.returncode, "", done.stderr.decode())


class TestStandardOutput:
    @pytest.mark.parametrize("arguments", ["--version", "--help", "verify --help", "clean --dry-run --json", "doctor"])
    def test_a_full_disk_is_one_sentence(self, environment: Mapping[str, str], arguments: str) -> None:
        ran = to_full_disk(environment, *arguments.split())
        assert ran.code == 5, ran
        assert "cannot be written to standard output (No space left on device)" in ran.sentence()

    @pytest.mark.parametrize("more", [(), ("--json",)])
    def test_a_verdict_that_is_lost_is_not_a_success(
        self, environment: Mapping[str, str], bundle: Path, repo: Path, more: tuple[str, ...]
    ) -> None:
        ran = to_full_disk(environment, "verify", "--bundle", bundle, "--repo", repo, "--patch", "-", *more)
        assert (ran.code, len(ran.err.splitlines())) == (5, 1), ran

    def test_an_error_keeps_its_exit_code(self, environment: Mapping[str, str]) -> None:
        ran = to_full_disk(environment, "verify", "--json")
        assert (ran.code, "Missing option" in ran.sentence()) == (2, True), ran

    def test_a_reader_of_the_help_may_leave(self, environment: Mapping[str, str]) -> None:
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([SCRIPT, "verify", "--help"], env=environment, stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        assert (done.returncode, done.stderr) == (0, b"")


class TestCertificateFile:
    @pytest.fixture
    def verify(self, cli: Cli, bundle: Path, repo: Path):
        def run(comment: object, **more: object) -> Ran:
            patch = diff(repo, {"spans/merge.py": fixed(repo)})
            where = ("--bundle", bundle, "--repo", repo, "--patch", "-", "--guard", "off", "--repeats", 1)
            return cli("verify", *where, "--markdown", comment, stdin=patch, **more)

        return run

    @pytest.mark.parametrize("name", ["absent/comment.md", "/proc/comment.md", "."])
    def test_what_cannot_be_written_is_found_before_any_work(self, verify, name: str) -> None:
        ran = verify(name)
        assert (ran.code, ran.out, "--markdown" in ran.sentence()) == (2, "", True), ran

    def test_a_file_that_is_there_is_replaced(self, verify, tmp_path: Path) -> None:
        (tmp_path / "comment.md").write_text("old")
        assert verify(tmp_path / "comment.md").code == 0
        assert "ExecCritic: PASS" in (tmp_path / "comment.md").read_text()
        assert not list(tmp_path.glob(".execcritic-*"))

    def test_the_verdict_is_said_before_the_file_fails(self, verify) -> None:
        ran = verify("/dev/full")
        assert ran.code == 5, ran
        assert ran.out.startswith("PASS")
        assert "The disk is full at /dev/full" in ran.sentence()

    @pytest.mark.bubblewrap
    def test_a_full_disk_leaves_no_empty_file(
        self, bundle: Path, repo: Path, tmp_path: Path, environment: Mapping[str, str]
    ) -> None:
        (tmp_path / "full").mkdir()
        (tmp_path / "fix.diff").write_bytes(diff(repo, {"spans/merge.py": fixed(repo)}))
        command = f"verify --bundle {bundle} --repo {repo} --patch fix.diff --guard off --repeats 1 --sandbox local"
        ran = in_mount_namespace(
            "mount -t tmpfs -o size=8k tmpfs full && { cat /dev/zero >full/filler 2>/dev/null; true; }",
            ["sh", "-c", f'"{SCRIPT}" {command} --markdown full/c.md --json; code=$?; ls -A full >&2; exit $code'],
            environment,
            tmp_path,
        )
        assert ran.code == 5, ran
        assert ran.json["verdict"] == "PASS"
        assert ran.err.splitlines()[-1] == "filler"


class TestOutputFolders:
    @pytest.fixture
    def qualify(self, cli: Cli, repo: Path, issue: Path, test_patch: Path):
        def run(out: object) -> Ran:
            given = ("--repo", repo, "--issue", issue, "--test-patch", test_patch, "--node", NODE)
            return cli("qualify", *given, "--out", out)

        return run

    @pytest.mark.parametrize("out", ["/proc/x", "/proc/x/y", "afile/b", "afile", "n" * 300])
    def test_what_can_be_no_folder(self, qualify, tmp_path: Path, out: str) -> None:
        (tmp_path / "afile").touch()
        ran = qualify(out)
        assert (ran.code, "--out" in ran.sentence()) == (2, True), ran
        if out.startswith("afile"):
            assert f"{tmp_path / 'afile'} is not a folder" in ran.sentence()

    def test_a_bundle_s_folder_is_not_resumed(self, qualify, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine").touch()
        ran = qualify("out")
        assert (ran.code, "is not empty" in ran.sentence(), "resume" in ran.sentence()) == (2, True, False), ran

    @pytest.mark.bubblewrap
    def test_a_full_disk_leaves_no_folder(
        self, repo: Path, issue: Path, tmp_path: Path, environment: Mapping[str, str]
    ) -> None:
        (tmp_path / "full").mkdir()
        command = f"test --repo {repo} --issue {issue} --model human --out full/a/run --sandbox local"
        ran = in_mount_namespace(
            "mount -t tmpfs -o size=16k tmpfs full && { cat /dev/zero >full/filler 2>/dev/null; true; }",
            ["sh", "-c", f'"{SCRIPT}" {command}; code=$?; ls -A full; exit $code'],
            environment,
            tmp_path,
        )
        assert (ran.code, ran.out) == (5, "filler\n"), ran
        assert "disk is full" in ran.sentence()
