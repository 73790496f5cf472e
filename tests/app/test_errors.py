"""Bad input and bad luck: one clear sentence, the right exit code, no traceback, nothing half-written."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.openai_server import serve

from .conftest import NODE, SCRIPT, Cli, Ran, call, recording
from .github import serving


@pytest.fixture
def qualify(cli: Cli, repo: Path, issue: Path, test_patch: Path, tmp_path: Path):
    def run(env: Mapping[str, str] | None = None, **options: object) -> Ran:
        given = {
            "repo": repo,
            "issue": issue,
            "test_patch": test_patch,
            "node": NODE,
            "out": tmp_path / "out",
            **options,
        }
        arguments: list[object] = ["qualify"]
        for name, value in given.items():
            arguments += [f"--{name.replace('_', '-')}", value]
        return cli(*arguments, env=env)

    return run


def in_mount_namespace(prepare: str, command: list[object], env: Mapping[str, str], cwd: Path) -> Ran:
    """Run a command where the shell lines `prepare` may mount things that nobody else sees."""
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    done = subprocess.run(
        [*namespace, "sh", "-c", f'{prepare} && exec "$@"', "sh", *map(str, command)],
        env=env,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


class TestUsage:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"repo": "absent"}, "There is no absent"),
            ({"issue": "absent"}, "The issue absent cannot be read"),
            ({"test_patch": "absent"}, "absent cannot be read"),
            ({"issue": "https://github.com/o/r/pull/1"}, "not an issue page"),
            ({"set": "loop.revision=1"}, "nearest known key is loop.revisions"),
            ({"config": "absent.yaml"}, "check --config"),
            ({"sandbox": "chroot"}, "There is no sandbox 'chroot'"),
            ({"python": "no-such-python"}, "check --python"),
            ({"python": "/nonexistent"}, "check --python"),
            ({"python": shutil.which("true")}, "is not a Python 3.8 or later"),
            ({"source_root": "nodir"}, "The repository has no folder nodir; check --source-root."),
            ({"source_root": "../repo"}, "not inside the repository"),
            ({"repo": "https://github.com/o/r"}, "Only a folder is accepted here"),
            ({"guard": "absent"}, "check --guard"),
            ({"contract": "absent"}, "check --contract"),
            ({"repeats": "many"}, "repeats"),
        ],
    )
    def test_what_cannot_be_is_said_in_one_sentence(
        self, qualify, tmp_path: Path, options: dict[str, object], words: str
    ) -> None:
        ran = qualify(**options)
        assert ran.code == 2, ran
        assert words in ran.sentence()
        assert ran.out == ""
        assert not (tmp_path / "out").exists()

    def test_errors_are_json_too(self, cli: Cli) -> None:
        for arguments in (("verify",), ("nonsense",), ("verify", "--bundle", "b", "--repo", "r")):
            ran = cli(*arguments, "--json")
            assert ran.code == 2
            assert ran.json["exit_code"] == 2
            assert ran.json["error"] in ran.err

    def test_an_output_folder_that_is_taken(self, qualify, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine").touch()
        assert "is not empty" in qualify().sentence()
        assert "is not a folder" in qualify(out=tmp_path / "out" / "mine").sentence()

    @pytest.mark.parametrize("patch", [b"nonsense\n", b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-no\n+such line\n"])
    def test_a_patch_that_does_not_parse_or_apply(
        self, cli: Cli, bundle: Path, repo: Path, qualify, tmp_path: Path, patch: bytes
    ) -> None:
        ran = cli("verify", "--bundle", bundle, "--repo", repo, "--patch", "-", stdin=patch)
        assert ran.code in (2, 6), ran
        (tmp_path / "bad.diff").write_bytes(patch)
        ran = qualify(test_patch=tmp_path / "bad.diff")
        assert ran.code in (2, 3), ran
        assert not (tmp_path / "out").exists()

    def test_a_folder_that_is_no_bundle(self, cli: Cli, repo: Path) -> None:
        ran = cli("verify", "--bundle", repo, "--repo", repo, "--patch", "-")
        assert (ran.code, "holds no bundle.json" in ran.sentence()) == (2, True)

    def test_the_file_of_a_bundle_is_not_its_folder(self, cli: Cli, bundle: Path, repo: Path) -> None:
        ran = cli("verify", "--bundle", bundle / "bundle.json", "--repo", repo, "--patch", "-")
        assert (ran.code, f"name the folder {bundle}" in ran.sentence()) == (2, True), ran

    def test_base_belongs_to_head(self, cli: Cli, bundle: Path, repo: Path) -> None:
        ran = cli("verify", "--bundle", bundle, "--repo", repo, "--patch", "-", "--base", "main")
        assert (ran.code, "leave it out with --patch" in ran.sentence()) == (2, True), ran

    @pytest.mark.parametrize(
        ("text", "words"),
        [(b"", "names no test"), (b"\r\n \n", "names no test"), (b"tests/test_merge.py\n", "names the file")],
    )
    def test_a_guard_list_without_tests(self, qualify, tmp_path: Path, text: bytes, words: str) -> None:
        (tmp_path / "guard.txt").write_bytes(text)
        ran = qualify(guard=tmp_path / "guard.txt")
        assert (ran.code, words in ran.sentence()) == (2, True), ran

    def test_patch_and_head_exclude_each_other(self, cli: Cli, bundle: Path, repo: Path) -> None:
        for more in ((), ("--patch", "-", "--head", "HEAD")):
            ran = cli("verify", "--bundle", bundle, "--repo", repo, *more)
            assert (ran.code, "either --patch FILE or --head REV" in ran.sentence()) == (2, True)

    def test_a_revision_that_does_not_exist(self, cli: Cli, bundle: Path, repo: Path) -> None:
        ran = cli("verify", "--bundle", bundle, "--repo", repo, "--head", "absent")
        assert (ran.code, "has no commit absent" in ran.sentence()) == (2, True)


class TestInfrastructure:
    def test_an_unreachable_issue_page(self, qualify) -> None:
        with serving() as server:
            gone = f"{server.url}/o/r/issues/1"
        ran = qualify(issue=gone)
        assert (ran.code, "unreachable" in ran.sentence()) == (5, True)

    @pytest.mark.bubblewrap
    def test_no_sandbox_at_all(
        self, repo: Path, issue: Path, test_patch: Path, tmp_path: Path, environment: Mapping[str, str]
    ) -> None:
        ran = in_mount_namespace(
            'mount --bind /dev/null "$(readlink -f "$(command -v bwrap)")"',
            [
                SCRIPT,
                "qualify",
                "--repo",
                repo,
                "--issue",
                issue,
                "--test-patch",
                test_patch,
                "--node",
                NODE,
                "--out",
                "out",
            ],
            {**environment, "DOCKER_HOST": f"unix://{tmp_path}/absent.sock"},
            tmp_path,
        )
        assert ran.code == 5, ran
        assert "--sandbox local" in ran.sentence()
        assert not (tmp_path / "out").exists()

    def test_docker_without_an_engine(self, qualify, tmp_path: Path) -> None:
        ran = qualify(sandbox="docker", env={"DOCKER_HOST": f"unix://{tmp_path}/absent.sock"})
        assert (ran.code, "docker sandbox does not work here" in ran.sentence()) == (5, True)

    @pytest.mark.bubblewrap
    def test_the_advice_names_only_a_sandbox_that_works(
        self, qualify, repo: Path, issue: Path, tmp_path: Path, environment: Mapping[str, str]
    ) -> None:
        gone = {"DOCKER_HOST": f"unix://{tmp_path}/absent.sock"}
        assert "Or use --sandbox bubblewrap, which works here." in qualify(sandbox="docker", env=gone).sentence()
        ran = in_mount_namespace(
            'mount --bind /dev/null "$(readlink -f "$(command -v bwrap)")"',
            [SCRIPT, *f"test --repo {repo} --issue {issue} --model human --sandbox bubblewrap".split()],
            {**environment, **gone},
            tmp_path,
        )
        assert (ran.code, "--sandbox docker" in ran.sentence()) == (5, False), ran


class TestFolders:
    def test_a_folder_that_cannot_be_written(self, qualify) -> None:
        ran = qualify(out="/sys/execcritic/out")
        assert ran.code == 2, ran
        assert "--out" in ran.sentence()

    @pytest.mark.bubblewrap
    def test_a_full_disk(self, repo: Path, issue: Path, tmp_path: Path, environment: Mapping[str, str]) -> None:
        replies = recording(
            tmp_path / "r.jsonl", *[call("test", "bash", command=f"echo {'x' * 9000}") for _ in range(50)]
        )
        (tmp_path / "small").mkdir()
        ran = in_mount_namespace(
            "mount -t tmpfs -o size=48k tmpfs small",
            [
                SCRIPT,
                *f"test --repo {repo} --issue {issue} --model {replies} --out small/run --sandbox local".split(),
                "--json",
            ],
            environment,
            tmp_path,
        )
        assert ran.code == 5, ran
        assert "disk is full" in ran.json["error"]
        assert "Traceback" not in ran.err


class TestModels:
    @pytest.fixture
    def resolve(self, cli: Cli, repo: Path, issue: Path, tmp_path: Path, engine: str):
        def run(*more: object, **kw: object) -> Ran:
            return cli(
                *(
                    "resolve",
                    "--repo",
                    repo,
                    "--issue",
                    issue,
                    "--sandbox",
                    engine,
                    "--out",
                    tmp_path / "run",
                    "--json",
                ),
                *more,
                **kw,
            )

        return run

    def test_no_model_is_named(self, resolve, tmp_path: Path) -> None:
        ran = resolve()
        assert (ran.code, "No model is named" in ran.sentence()) == (2, True)
        assert not (tmp_path / "run").exists()

    def test_a_model_that_does_not_exist(self, resolve) -> None:
        assert "is not a model" in resolve("--model", "gpt").sentence()
        assert resolve("--model", "replay:absent.jsonl").code == 2

    def test_an_endpoint_that_is_down(self, resolve, tmp_path: Path) -> None:
        ran = resolve(
            *("--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1", "--set", "model.connect_seconds=0"),
            env={"OPENAI_API_KEY": "k"},
        )
        assert (ran.code, ran.json["status"]) == (5, "INFRASTRUCTURE")
        assert "127.0.0.1:9" in ran.json["stopped"]["reason"]
        assert (tmp_path / "run" / "verdict.json").is_file()

    def test_an_endpoint_that_refuses_the_key(self, resolve, tmp_path: Path) -> None:
        with serve() as server:
            for _ in range(2):
                server.status(401, {"error": {"message": "bad key"}})
            ran = resolve(
                *("--model", "openai:m", "--base-url", f"{server.url}"), env={"OPENAI_API_KEY": "secret-key-value"}
            )
        assert ran.code == 5, ran
        assert "401" in ran.json["stopped"]["reason"] or "OPENAI_API_KEY" in ran.json["stopped"]["reason"]
        kept = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
        assert b"secret-key-value" not in kept


def test_a_defect_of_ours_is_one_sentence_and_a_file(cli: Cli, repo: Path, issue: Path, tmp_path: Path) -> None:
    """A model of the user's own whose factory breaks in a way that nobody foresees."""
    arguments = ("resolve", "--repo", repo, "--issue", issue, "--model", "statistics.mean:x", "--out", tmp_path / "out")
    ran = cli(*arguments, "--json", env={"TMPDIR": str(tmp_path)})
    assert ran.code == 70
    assert ran.json["exit_code"] == 70
    (log,) = tmp_path.glob("execcritic-crash-*.log")
    assert str(log) in ran.sentence()
    assert "Traceback" in log.read_text()
    assert not (tmp_path / "out").exists()


def test_a_closed_pipe_changes_nothing(repo: Path, bundle: Path, environment: Mapping[str, str]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [SCRIPT, "verify", "--bundle", bundle, "--repo", repo, "--patch", "-", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=write,
        stderr=subprocess.PIPE,
        env=environment,
        timeout=120,
    )
    os.close(write)
    assert done.returncode == 1  # FAIL: an empty patch
    assert b"Traceback" not in done.stderr
    assert b"BrokenPipe" not in done.stderr
