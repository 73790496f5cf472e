"""What a path is, by the repository's own discovery rules."""

from __future__ import annotations

import pytest

from execcritic_scaffold.paths import Discovery, PathKind, discover

BASE = ["pkg/core.py", "tests/unit/test_a.py", "pkg/testing/test_b.py", "pkg/testing/tools.py", "setup.cfg"]
USUAL = discover(BASE)


@pytest.mark.parametrize(
    ("kind", "paths"),
    [
        (PathKind.TEST, ["tests/test_a.py", "test_a.py", "pkg/test_a.py", "a/b/core_test.py", "tests/unit/test_ä.py"]),
        (PathKind.SUPPORT, ["tests/data/a.json", "tests/helpers.py", "pkg/test/x.py", "pkg/testing/tools.py",
                            "tests/docs/Makefile"]),
        (PathKind.CONFTEST, ["conftest.py", "tests/conftest.py", "pkg/conftest.py", "conftest.cpython-311.so"]),
        (PathKind.CONFIG, ["pytest.ini", ".pytest.ini", "uv.lock", "Makefile", ".github/workflows/a.yml", "noxfile.py",
                           "tests/pytest.ini", "tests/unit/pytest.ini", ".pre-commit-config.yaml"]),
        (PathKind.SHARED_CONFIG, ["pyproject.toml", "setup.cfg", "tox.ini", "tests/tox.ini"]),
        (PathKind.HOOK, ["sitecustomize.py", "tests/usercustomize.py", "a.pth", "x/__pycache__/a.pyc", "a.pyc", "b.pyo",
                         "sitecustomize/__init__.py", "sitecustomize.cpython-311-x86_64-linux-gnu.so",
                         "pkg.egg-info/entry_points.txt", "tests/x.dist-info/METADATA", "x.egg-link"]),
        (PathKind.VCS, [".git/config", "sub/.git/hooks/x", ".gitmodules"]),
        (PathKind.SOURCE, ["pkg/core.py", "pkg/tester.py", "pkg/Test_a.py", "testing.py", "docs/Makefile", "README.md",
                           "pkg/contest.py", "docs/pyproject.toml", ".gitignore", "setup.py", "latest/test.py"]),
    ],
)  # fmt: skip
def test_kinds(kind: PathKind, paths: list[str]) -> None:
    assert {path: USUAL.kind(path) for path in paths} == dict.fromkeys(paths, kind)


def test_patterns_of_the_repository() -> None:
    own = discover(["checks/check_a.py"], ["check_*.py"], ["./checks/"])
    assert own.kind("checks/check_b.py") is PathKind.TEST
    assert own.kind("checks/test_b.py") is PathKind.SUPPORT
    assert own.kind("pkg/test_b.py") is PathKind.SOURCE
    assert own.kind("checks/pytest.ini") is PathKind.CONFIG


def test_only_some_directories_hold_tests() -> None:
    own = Discovery(("test*.py", "tests.py"), frozenset({"tests"}), True, frozenset({"tests/tools"}))
    assert own.kind("tests/admin/tests.py") is PathKind.TEST
    assert own.kind("pkg/test/tests.py") is PathKind.SOURCE
    assert own.kind("pkg/tests/x.py") is PathKind.SOURCE
    assert own.kind("tests/tools/x.py") is PathKind.SOURCE
    assert own.kind("tests/admin/models.py") is PathKind.SUPPORT


def test_the_root_is_no_test_directory() -> None:
    assert discover(["test_a.py"], testpaths=["."]).kind("core.py") is PathKind.SOURCE
