"""What is shipped: the built wheel holds four packages, with their data, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("execcritic", "scaffold", "roles", "training")


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    source = tmp_path_factory.mktemp("source")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", source],
        check=True,
        capture_output=True,
        timeout=300,
    )
    with zipfile.ZipFile(next((source / "dist").glob("*.whl"))) as wheel:
        return wheel.namelist()


def test_only_four_uniquely_named_packages(names: list[str]) -> None:
    top = {name.partition("/")[0] for name in names}
    packages = {"execcritic", "execcritic_scaffold", "execcritic_roles", "execcritic_training"}
    assert {name for name in top if not name.endswith(".dist-info")} == packages


def test_every_file_of_the_packages_is_in_it(names: list[str]) -> None:
    """Modules, prompts, in-sandbox programs, the sample: what lies in a package folder is shipped."""
    homes = {"execcritic": ROOT, "scaffold": ROOT / "scaffold", "roles": ROOT / "roles", "training": ROOT / "training"}
    expected = {
        path.relative_to(home).as_posix()
        for folder, home in homes.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path)
    }
    assert expected - set(names) == set()
    for part in (
        "execcritic/sample/repository.patch",
        "execcritic/config.yaml",
        "execcritic_roles/prompts/tester.yaml",
    ):
        assert part in names
