"""`qualify` and `verify` as a person or a CI job runs them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from execcritic_scaffold.bundle import FrozenBundle

from .conftest import COMPANION, NODE, TEST_FILE, Cli, Ran, diff, fixed, git


@pytest.fixture
def qualify(cli: Cli, repo: Path, issue: Path, test_patch: Path, engine: str):
    def run(*more: object, node: str = NODE, out: Path | None = None) -> Ran:
        where = ("--out", out) if out else ()
        return cli(
            *("qualify", "--repo", repo, "--issue", issue, "--test-patch", test_patch, "--node", node),
            *("--sandbox", engine, "--repeats", 1, *where, *more),
        )

    return run


@pytest.fixture
def fix(repo: Path, tmp_path: Path) -> Path:
    path = tmp_path / "fix.diff"
    path.write_bytes(diff(repo, {"spans/merge.py": fixed(repo)}))
    return path


class TestQualify:
    def test_a_person_s_own_test_is_frozen(self, qualify, tmp_path: Path, repo: Path) -> None:
        before = git(repo, "status", "--porcelain", "--ignored")
        ran = qualify("--companion", COMPANION, "--json", out=tmp_path / "b")
        assert ran.code == 0, ran
        assert ran.json["status"] == "QUALIFIED"
        assert ran.json["nodes"] == {NODE: "FAILED_ASSERT", COMPANION: "PASSED"}
        assert ran.json["bundle"] == str(tmp_path / "b")
        assert (tmp_path / "b" / "bundle.json").is_file()
        assert git(repo, "status", "--porcelain", "--ignored") == before

    def test_a_test_that_passes_on_base_is_rejected_and_leaves_nothing(self, qualify, tmp_path: Path) -> None:
        ran = qualify("--json", node=COMPANION, out=tmp_path / "b")
        assert ran.code == 3
        assert ran.json["status"] == "REJECTED"
        assert ran.json["bundle"] is None
        assert not (tmp_path / "b").exists()

    def test_a_node_that_does_not_exist(self, qualify, tmp_path: Path) -> None:
        ran = qualify("--json", node="tests/test_contained.py::test_absent", out=tmp_path / "b")
        assert ran.code in (2, 3)
        assert "test_absent" in ran.out
        assert not (tmp_path / "b").exists()

    def test_without_out_the_bundle_goes_to_runs_and_is_no_part_of_the_next_base(
        self, cli: Cli, repo: Path, issue: Path, test_patch: Path, engine: str
    ) -> None:
        arguments = ("qualify", "--repo", ".", "--issue", issue, "--test-patch", test_patch, "--node", NODE)
        first = cli(*arguments, "--sandbox", engine, "--repeats", 1, "--json", cwd=repo)
        second = cli(*arguments, "--sandbox", engine, "--repeats", 1, "--json", cwd=repo)
        assert Path(first.json["bundle"]).parts[0] == "runs"
        trees = [
            json.loads((repo / ran.json["bundle"] / "bundle.json").read_bytes())["base_tree"] for ran in (first, second)
        ]
        assert trees[0] == trees[1]
        assert git(repo, "status", "--porcelain") == ""

    def test_a_contract_is_held_to_the_issue(self, qualify, tmp_path: Path) -> None:
        contract = {
            "entrypoint": "spans.merge",
            "trigger": "a contained span",
            "expected_output": "the containing span",
            "issue_evidence": ["words that the issue does not hold"],
            "alternative_hypotheses": [],
            "non_assertions": [],
            "test_nodes": [NODE],
        }
        (tmp_path / "contract.json").write_text(json.dumps(contract))
        assert qualify("--contract", tmp_path / "contract.json", out=tmp_path / "b").code == 3
        contract["issue_evidence"] = ["When one span lies inside another"]
        (tmp_path / "contract.json").write_text(json.dumps(contract))
        assert qualify("--contract", tmp_path / "contract.json", out=tmp_path / "b").code == 0

    def test_the_time_for_set_up_commands_is_configured(self, qualify, tmp_path: Path) -> None:
        ran = qualify("--setup", "sleep 60", "--set", "qualify.setup_seconds=1", out=tmp_path / "b")
        assert (ran.code, "did not end within 1 s" in ran.sentence()) == (5, True), ran

    def test_a_wrong_runner_is_the_first_thing_to_doubt(self, qualify, tmp_path: Path) -> None:
        ran = qualify("--runner", "unittest", "--json", out=tmp_path / "b")
        assert ran.code in (3, 5)
        assert "Leave --runner unittest out" in ran.json["next_action"]

    def test_a_plain_folder_works_too(self, qualify, repo: Path, tmp_path: Path) -> None:
        shutil.rmtree(repo / ".git")
        assert qualify(out=tmp_path / "b").code == 0


class TestVerify:
    def test_the_right_patch_passes(self, cli: Cli, bundle: Path, repo: Path, fix: Path) -> None:
        ran = cli("verify", "--bundle", bundle, "--repo", repo, "--patch", fix, "--json")
        assert ran.code == 0, ran
        assert ran.json["verdict"] == "PASS"
        assert ran.json["nodes"] == {NODE: "PASSED", COMPANION: "PASSED"}
        assert ran.json["guard"]["newly_failing"] == []
        assert {"reason", "findings", "feedback"} <= set(ran.json)

    def test_the_certificate_for_a_comment(self, cli: Cli, bundle: Path, repo: Path, fix: Path, tmp_path: Path) -> None:
        comment = tmp_path / "comment.md"
        ran = cli("verify", "--bundle", bundle, "--repo", repo, "--patch", fix, "--markdown", comment, "--json")
        assert ran.json["certificate"]["nodes"][NODE]["on_base"] == "FAILED_ASSERT"
        assert ran.json["certificate"]["nodes"][NODE]["with_patch"] == "PASSED"
        assert "ExecCritic: PASS" in comment.read_text()
        assert NODE in comment.read_text()

    def test_a_wrong_patch_fails_from_stdin_too(self, cli: Cli, bundle: Path, repo: Path) -> None:
        wrong = diff(repo, {"spans/merge.py": (repo / "spans/merge.py").read_bytes() + b"\n\nSIZE = 1\n"})
        ran = cli("verify", "--bundle", bundle, "--repo", repo, "--patch", "-", "--json", stdin=wrong)
        assert ran.code == 1
        assert ran.json["verdict"] == "FAIL"
        assert "assert" in ran.json["feedback"]

    def test_an_empty_patch_fails(self, cli: Cli, bundle: Path, repo: Path) -> None:
        ran = cli("verify", "--bundle", bundle, "--repo", repo, "--patch", "-", "--json")
        assert (ran.code, ran.json["reason"]) == (1, "EMPTY_PATCH")

    def test_a_patch_of_the_frozen_file_is_forbidden(self, cli: Cli, bundle: Path, repo: Path) -> None:
        tampering = diff(repo, {"conftest.py": b"import sys\n", "spans/merge.py": fixed(repo)})
        ran = cli("verify", "--bundle", bundle, "--repo", repo, "--patch", "-", "--json", stdin=tampering)
        assert (ran.code, ran.json["verdict"]) == (6, "FORBIDDEN")

    def test_a_branch_and_a_repository_that_has_moved_on(self, cli: Cli, bundle: Path, repo: Path) -> None:
        git(repo, "checkout", "--quiet", "-b", "fix")
        (repo / "spans/merge.py").write_bytes(fixed(repo))
        git(repo, "commit", "--quiet", "--all", "--message=fix")
        git(repo, "checkout", "--quiet", "main")
        (repo / "other.py").write_text("y = 2\n")
        git(repo, "add", "--all")
        git(repo, "commit", "--quiet", "--message=more")
        (repo / "spans/merge.py").write_text("broken\n")
        assert cli("verify", "--bundle", bundle, "--repo", repo, "--head", "fix", "--base", "main").code == 0
        assert cli("verify", "--bundle", bundle, "--repo", repo, "--head", "fix").code == 0
        nothing = cli("verify", "--bundle", bundle, "--repo", repo, "--head", "main", "--json")
        assert (nothing.code, nothing.json["verdict"]) == (1, "FAIL")

    def test_another_repository_does_not_have_the_base(self, cli: Cli, bundle: Path, repo: Path, fix: Path) -> None:
        (repo / "README.md").write_text("other\n")
        git(repo, "commit", "--quiet", "--all", "--amend", "--message=rewritten")
        git(repo, "reflog", "expire", "--expire=now", "--all")
        git(repo, "gc", "--quiet", "--prune=now")
        ran = cli("verify", "--bundle", bundle, "--repo", repo, "--patch", fix, "--json")
        assert (ran.code, ran.json["verdict"], ran.json["reason"]) == (5, "INCONCLUSIVE", "BASE_NOT_FOUND")

    @pytest.mark.parametrize("where", ["bundle.json", "test.patch", "files"])
    def test_a_changed_bundle_is_tampered(self, cli: Cli, bundle: Path, repo: Path, fix: Path, where: str) -> None:
        path = bundle / where if where != "files" else sorted((bundle / "files").iterdir())[0]
        data = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(
            data.replace(b"test_contained", b"test_c0ntained", 1) if b"test_contained" in data else data + b" "
        )
        ran = cli("verify", "--bundle", bundle, "--repo", repo, "--patch", fix, "--json")
        assert (ran.code, ran.json["verdict"], ran.json["reason"]) == (6, "TAMPERED", "BUNDLE")

    def test_a_truncated_bundle_and_one_of_a_newer_version(self, cli: Cli, bundle: Path, repo: Path, fix: Path) -> None:
        path = bundle / "bundle.json"
        path.chmod(0o644)
        body = json.loads(path.read_bytes())
        path.write_bytes(path.read_bytes()[:100])
        assert cli("verify", "--bundle", bundle, "--repo", repo, "--patch", fix).code == 2
        path.write_text(json.dumps({**body, "schema_version": 99}))
        ran = cli("verify", "--bundle", bundle, "--repo", repo, "--patch", fix)
        assert ran.code == 2
        assert "upgrade" in ran.sentence()

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"runner": "execcritic_scaffold.runners.pytest"}, "--runner"),
            ({"environment": {"sandbox": "local"}}, "--sandbox local"),
            ({"environment": {"sandbox": "os:getcwd"}}, "--sandbox"),
            ({"environment": {"python": "ci/run-me"}}, "--python"),
        ],
    )
    def test_a_bundle_from_elsewhere_chooses_no_program_of_the_host(
        self, cli: Cli, frozen: Path, repo: Path, fix: Path, tmp_path: Path, change: dict[str, Any], words: str
    ) -> None:
        loaded = FrozenBundle.load(frozen)
        environment = {**loaded.record.environment, **change.get("environment", {})}
        hostile = loaded.record.model_copy(update={**change, "environment": environment})
        FrozenBundle(hostile, loaded.blobs).save(tmp_path / "hostile")
        ran = cli("verify", "--bundle", tmp_path / "hostile", "--repo", repo, "--patch", fix)
        assert (ran.code, words in ran.sentence()) == (2, True), ran

    def test_the_user_s_own_word_about_the_runner_is_enough(
        self, cli: Cli, frozen: Path, repo: Path, fix: Path, tmp_path: Path
    ) -> None:
        """The recorded name is an absent module's: it would be an error to import it."""
        loaded = FrozenBundle.load(frozen)
        hostile = loaded.record.model_copy(update={"runner": "no.such.module"})
        FrozenBundle(hostile, loaded.blobs).save(tmp_path / "hostile")
        ran = cli("verify", "--bundle", tmp_path / "hostile", "--repo", repo, "--patch", fix, "--runner", "pytest")
        assert ran.code == 0, ran

    def test_strict_lets_a_finding_pass_only_where_it_says_nothing_against_the_patch(
        self, cli: Cli, bundle: Path, repo: Path, tmp_path: Path
    ) -> None:
        patch = diff(repo, {"spans/merge.py": fixed(repo), "tests/test_more.py": TEST_FILE})
        (tmp_path / "guard.txt").write_text("tests/test_merge.py::test_absent\n")
        arguments = ("verify", "--bundle", bundle, "--repo", repo, "--patch", "-", "--strict", "--json")
        own_test = cli(*arguments, stdin=patch)
        assert (own_test.code, own_test.json["verdict"]) == (0, "PASS"), own_test
        assert [finding["code"] for finding in own_test.json["findings"]] == ["SET_ASIDE"]
        unguarded = cli(*arguments, "--guard", tmp_path / "guard.txt", stdin=patch)
        assert (unguarded.code, unguarded.json["verdict"]) == (6, "PASS"), unguarded

    def test_a_guard_of_nothing_does_not_read_like_success(
        self, cli: Cli, bundle: Path, repo: Path, fix: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "guard.txt").write_text("tests/test_merge.py::test_absent\n")
        where = ("--bundle", bundle, "--repo", repo, "--patch", fix, "--guard", tmp_path / "guard.txt")
        ran = cli("verify", *where, "--markdown", tmp_path / "comment.md")
        assert "Guard (list): NOTHING was guarded (1 test not run)" in ran.out
        assert "NOTHING was guarded" in (tmp_path / "comment.md").read_text()
        assert "0 of 0" not in ran.out + (tmp_path / "comment.md").read_text()

    def test_a_run_in_which_no_test_qualified(self, cli: Cli, repo: Path, fix: Path, tmp_path: Path) -> None:
        run = tmp_path / "run"
        run.mkdir()
        (run / "journal.jsonl").touch()
        ran = cli("verify", "--bundle", run, "--repo", repo, "--patch", fix)
        assert (ran.code, "a run in which no test qualified" in ran.sentence()) == (2, True), ran

    def test_a_runner_that_is_not_the_frozen_one(self, cli: Cli, bundle: Path, repo: Path, fix: Path) -> None:
        ran = cli("verify", "--bundle", bundle, "--repo", repo, "--patch", fix, "--runner", "django")
        assert (ran.code, "leave --runner out" in ran.sentence()) == (2, True), ran

    def test_a_source_root_that_does_not_exist(self, cli: Cli, bundle: Path, repo: Path, fix: Path) -> None:
        where = ("--bundle", bundle, "--repo", repo, "--patch", fix)
        ran = cli("verify", *where, "--source-root", "nodir")
        assert (ran.code, "no folder nodir" in ran.sentence()) == (2, True), ran

    @pytest.mark.parametrize(
        "listed",
        [
            "tests/test_merge.py::test_nothing_to_merge",
            "test_nothing_to_merge (tests.test_merge.test_nothing_to_merge)",
        ],
    )
    def test_a_guard_list(self, cli: Cli, bundle: Path, repo: Path, tmp_path: Path, listed: str) -> None:
        breaking = fixed(repo).replace(
            b"merged.append((start, end))", b"merged.append((start, end)) if spans else None"
        )
        breaking = breaking.replace(b"    return merged", b"    return merged or None")
        (tmp_path / "guard.txt").write_bytes(f" {listed} \r\n\r\n".encode())
        patch = diff(repo, {"spans/merge.py": breaking})
        arguments = ("verify", "--bundle", bundle, "--repo", repo, "--patch", "-", "--json")
        guarded = cli(*arguments, "--guard", tmp_path / "guard.txt", stdin=patch)
        assert (guarded.code, guarded.json["reason"]) == (1, "GUARD")
        assert guarded.json["guard"]["newly_failing"] == ["tests/test_merge.py::test_nothing_to_merge"]
        assert cli(*arguments, "--guard", "off", stdin=patch).code == 0


@pytest.mark.docker
def test_an_image_is_judged_in_and_remembered_by_the_bundle(
    cli: Cli, repo: Path, issue: Path, test_patch: Path, fix: Path, tmp_path: Path
) -> None:
    image = os.environ.get("EXECCRITIC_TEST_IMAGE")
    if not image:
        pytest.skip("EXECCRITIC_TEST_IMAGE names no image")
    host = {"DOCKER_HOST": os.environ["DOCKER_HOST"]} if "DOCKER_HOST" in os.environ else {}
    ran = cli(
        *("qualify", "--repo", repo, "--issue", issue, "--test-patch", test_patch, "--node", NODE, "--image", image),
        *("--repeats", 1, "--out", tmp_path / "bundle"),
        env=host,
    )
    assert ran.code == 0, ran
    record = json.loads((tmp_path / "bundle" / "bundle.json").read_bytes())["environment"]
    assert (record["sandbox"], record["image"]) == ("docker", image)
    ran = cli("verify", "--bundle", tmp_path / "bundle", "--repo", repo, "--patch", fix, env=host)
    assert ran.code == 0, ran
