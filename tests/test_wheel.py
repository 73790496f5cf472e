"""The built wheel: four uniquely named packages with all that they need at run time, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from execcritic import __version__

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "execcritic": ROOT,
    "execcritic_roles": ROOT / "roles",
    "execcritic_scaffold": ROOT / "scaffold",
    "execcritic_training": ROOT / "training",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # From a copy: setuptools leaves a build folder in the source tree, and a stale one would end up in the wheel.
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for package, folder in PACKAGES.items():
        shutil.copytree(folder / package, source / (folder / package).relative_to(ROOT), ignore=unwanted)
    shutil.copytree(ROOT / "bin", source / "bin")
    (source / "tests").mkdir()
    (source / "tests" / "__init__.py").touch()
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-index", "--no-build-isolation", "--no-deps", "-w", str(out)]
    subprocess.run([*command, str(source)], check=True, capture_output=True)
    (wheel,) = out.glob("execcritic-*.whl")
    return wheel


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_only_our_four_packages(names: set[str]) -> None:
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == set(PACKAGES)


def test_every_package_is_typed(names: set[str]) -> None:
    assert {f"{package}/py.typed" for package in PACKAGES} <= names


def test_all_of_each_package_is_there(names: set[str]) -> None:
    """Modules, prompts, in-sandbox programs, launchers, the sample: whatever lies in a package is in the wheel."""
    expected = {
        str(path.relative_to(folder))
        for package, folder in PACKAGES.items()
        for path in (folder / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert expected - names == set()
    assert any(name.startswith("execcritic_roles/prompts/") and name.endswith(".yaml") for name in names)
    assert "execcritic_scaffold/inject/run_pytest.py" in names


def test_licence_and_script(wheel: Path, names: set[str]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (listed,) = (name for name in names if name.endswith(".dist-info/entry_points.txt"))
        entry_points = archive.read(listed).decode()
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert {name for name in names if ".data/" in name} == {f"execcritic-{__version__}.data/scripts/execcritic"}
    assert "console_scripts" not in entry_points  # would import us before the isolated start
    assert "[execcritic.commands]\ntrain = execcritic_training.cli:train\n" in entry_points
