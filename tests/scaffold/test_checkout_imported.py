"""Where a repository's code lies, and that it is what tests import although the environment has a copy as well."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from execcritic_scaffold.execute import RunRequest, execute
from execcritic_scaffold.layout import source_roots, top_level
from execcritic_scaffold.outcome import RunStatus
from execcritic_scaffold.sandbox.registry import get
from execcritic_scaffold.settings import QualifySettings
from tests.scaffold.harness import Lab

NAMED = b'[project]\nname = "Shop-Kit"\n'


@pytest.mark.parametrize(
    ("files", "roots", "tops"),
    [
        ({"code/shop_kit/__init__.py": None, "pyproject.toml": NAMED}, ("code", "."), {"shop_kit"}),
        ({"shop_kit.py": None, "pyproject.toml": NAMED}, (".",), {"shop_kit"}),
        ({"examples/shop_kit/__init__.py": None, "pyproject.toml": NAMED}, (".",), set()),
        ({"a/shop_kit/__init__.py": None, "b/shop_kit/__init__.py": None, "pyproject.toml": NAMED}, (".",), set()),
        ({"code/x/__init__.py": None, "setup.cfg": b"[metadata]\nname = x\n"}, ("code", "."), {"x"}),
    ],
)  # fmt: skip
def test_the_project_s_own_name_tells_where_it_lies(
    files: dict[str, bytes | None], roots: tuple[str, ...], tops: set[str]
) -> None:
    found = source_roots(files)
    assert found == roots
    assert top_level(files, found) == tops


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter whose environment holds another copy of `shop` and an editable install of a third."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "shop").mkdir()
    (site / "shop" / "__init__.py").write_text("WHERE = 'installed'\n")
    (folder / "editable" / "shop").mkdir(parents=True)
    (folder / "editable" / "shop" / "__init__.py").write_text("WHERE = 'editable'\n")
    own = Path(pytest.__file__).parents[1]
    (site / "all.pth").write_text(f"{own}\nimport sys; sys.path.insert(0, {str(folder / 'editable')!r})\n")
    return folder / "bin" / "python"


TEST = "from shop import WHERE\n\ndef test_where():\n    assert WHERE == 'checkout'\n"


@pytest.mark.parametrize("runner", ["pytest", "unittest"])
@pytest.mark.parametrize("root", ["", "src/"])
def test_the_checkout_is_what_is_imported(root: str, runner: str, installed: Path, lab: Lab) -> None:
    test = TEST if runner == "pytest" else (
        "import unittest\nfrom shop import WHERE\nclass T(unittest.TestCase):\n"
        "    def test_where(self):\n        assert WHERE == 'checkout'\n"
    )  # fmt: skip
    files = {f"{root}shop/__init__.py": "WHERE = 'checkout'\n", "tests/test_shop.py": test}
    site = lab.site(files, get("local"), python=str(installed), runner=runner)
    report = execute(site, {}, frozenset(), RunRequest(("tests/test_shop.py",)), QualifySettings(test_seconds=60))
    assert [str(r.outcome) for r in report.results.values()] == ["PASSED"], (report.detail, report.log[-2000:])


def test_another_copy_voids_the_run(installed: Path, lab: Lab) -> None:
    files = {"shop/__init__.py": "WHERE = 'checkout'\n", "tests/test_shop.py": TEST}
    move = "import sys\nsys.path.insert(0, next(p for p in sys.path if p.endswith('site-packages')))\n"
    site = lab.site({**files, "conftest.py": move}, get("local"), python=str(installed))
    report = execute(site, {}, frozenset(), RunRequest(("tests/test_shop.py",)), QualifySettings(test_seconds=60))
    assert report.status is RunStatus.WRONG_IMPORT_TARGET and "shop was imported from" in report.detail, report


def test_processes_that_a_test_starts_import_the_checkout_too(lab: Lab) -> None:
    test = (
        "import subprocess, sys\n"
        "def test_child(tmp_path):\n"
        "    code = 'import shop; print(shop.WHERE)'\n"
        "    said = subprocess.run([sys.executable, '-c', code], cwd=tmp_path, capture_output=True, text=True)\n"
        "    assert said.stdout == 'checkout\\n', said.stderr\n"
    )
    site = lab.site({"src/shop/__init__.py": "WHERE = 'checkout'\n", "tests/test_shop.py": test})
    report = execute(site, {}, frozenset(), RunRequest(("tests/test_shop.py",)), QualifySettings(test_seconds=60))
    assert [str(r.outcome) for r in report.results.values()] == ["PASSED"], (report.detail, report.log[-2000:])
