"""The programs that run inside sandboxes are plain standard-library Python from 3.6 on."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import execcritic_scaffold.inject

PROGRAMS = sorted(Path(execcritic_scaffold.inject.__file__).parent.glob("*.py"))
OWN = {path.stem for path in PROGRAMS}
RUNNERS = {"pytest", "_pytest", "sympy", "django"}
"""What a reporter imports because the tests themselves run under it."""
LATER = {
    "removeprefix", "removesuffix", "fromisoformat", "capture_output", "add_note", "is_relative_to", "force_terminal",
    "asynccontextmanager", "nullcontext", "time_ns", "get_running_loop", "create_task", "reconfigure", "unlink_missing",
    "pidfd_open", "waitstatus_to_exitcode", "missing_ok", "dirs_exist_ok", "process_group",
}  # fmt: skip
"""Attributes and keywords of the standard library that Python 3.6 does not have."""
LATER_MODULES = {"dataclasses", "contextvars", "importlib.resources", "importlib.metadata", "tomllib", "zoneinfo",
                 "graphlib"}  # fmt: skip


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program_is_python_3_6(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 6))
    for node in ast.walk(tree):
        where = f"{path.name}:{getattr(node, 'lineno', '?')}"
        assert not isinstance(node, ast.NamedExpr | ast.Match | ast.TryStar), where
        if isinstance(node, ast.arguments):
            assert not node.posonlyargs, where
        elif isinstance(node, ast.Attribute):
            assert node.attr not in LATER, f"{where}: {node.attr}"
        elif isinstance(node, ast.keyword):
            assert node.arg not in LATER, f"{where}: {node.arg}"
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            for name in names:
                assert name not in LATER_MODULES | {"__future__"}, f"{where}: {name}"
                known = sys.stdlib_module_names | OWN | RUNNERS
                assert name.split(".")[0] in known, f"{where}: {name} is not in the standard library"


def test_the_pytest_reporter_imports_nothing_that_pytest_does_not() -> None:
    """Tests can tell: pytest's own suite starts inner sessions, which share what was imported before them."""
    say = "import sys; print(*sys.modules)"
    plain = "import pytest"
    ours = f"import sys; sys.path.insert(0, {str(PROGRAMS[0].parent)!r}); import pytest_hooks, pytest_report, sockets"
    argv = [sys.executable, "-I", "-c"]
    loaded = [
        set(subprocess.run([*argv, f"{code}; {say}"], check=True, capture_output=True, text=True).stdout.split())
        for code in (ours, plain)
    ]
    assert loaded[0] - loaded[1] <= OWN
