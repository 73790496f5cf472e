"""A Base with a wrong `add`, the test that was frozen on it, and patches against it: what is verified here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from execcritic_scaffold.sandbox.protocol import Command, Completed, Limits, Sandbox, Workspace
from tests.scaffold.harness import Files

PKG = "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n"
OLD = """from pkg import add, mul

READY = []


def test_zero():
    assert add(1, 0) == 1


def test_mul():
    assert mul(2, 3) == 6


def test_prepares():
    READY.append(1)


def test_needs_the_one_before():
    assert READY and mul(4, 5) == 20
"""
TEST = '''"""A secret docstring."""
from pkg import add


def test_add():
    left, right = 1000, 2345  # a secret comment
    assert add(left, right) == 3345


def test_zero():
    assert add(7, 0) == 7
'''
PYPROJECT = "[project]\nname = 'pkg'\n\n[tool.pytest.ini_options]\nxfail_strict = true\n"
BASE: Files = {"pkg/__init__.py": PKG, "tests/test_old.py": OLD, "pyproject.toml": PYPROJECT}
FROZEN = "tests/new/test_add.py"
ADD = f"{FROZEN}::test_add"
RIGHT = {"pkg/__init__.py": PKG.replace("a - b", "a + b")}
QUICK: Mapping[str, Any] = {"repeats": 1, "guard": "off"}


def source(text: str) -> Files:
    """The package with another `add`."""
    return {"pkg/__init__.py": PKG.replace("    return a - b", "    " + text.replace("\n", "\n    "))}


class Counted:
    """A sandbox that counts its runs."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.runs = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    def run(self, workspace: Workspace, command: Command, limits: Limits, **more: bool) -> Completed:
        self.runs += 1
        return self._sandbox.run(workspace, command, limits, **more)
