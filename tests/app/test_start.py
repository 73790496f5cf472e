"""How the program starts: quickly, and without importing from where it stands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from execcritic import __version__

from .conftest import SCRIPT, Cli, git


def test_version_and_help(cli: Cli) -> None:
    assert cli("--version").out == f"execcritic {__version__}\n"
    shown = cli("--help")
    assert shown.code == 0
    for command in ("resolve", "test", "repair", "qualify", "verify", "demo", "doctor", "clean"):
        assert command in shown.out


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from execcritic.cli import run; run(['verify', '--help']); print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-E", "-P", "-c", code], capture_output=True, text=True, check=True)
    modules = set(done.stdout.splitlines()[-1].split())
    assert not modules & {"openai", "docker", "git", "httpx", "jinja2", "unidiff", "yaml", "pytest", "execcritic.job"}
    assert not modules & {"rich.live", "execcritic.live", "readline"}


def test_the_parts_below_the_command_line_do_not_import_it() -> None:
    parts = "execcritic.demo, execcritic.view, execcritic.perform, execcritic.cleaning"
    code = f"import sys; import {parts}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-E", "-P", "-c", code], capture_output=True, text=True, check=True)
    assert not [name for name in done.stdout.split() if name.startswith(("execcritic.cli", "typer"))]


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A repository whose modules have the names of what we import, and tell when they are."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    alarm = f"import sys, pathlib; pathlib.Path({str(tmp_path / 'alarm')!r}).open('a').write(__name__ + '\\n')\n"
    for name in ("openai", "httpx", "typer", "yaml", "unidiff", "docker", "json", "execcritic_scaffold"):
        (folder / f"{name}.py").write_text(alarm)
    for name in ("training", "pytest", "execcritic", "execcritic_roles", "pydantic"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(alarm)
    (folder / "execcritic" / "__main__.py").write_text(alarm)
    (folder / "code.py").write_text("x = 1\n")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=start")
    return folder


def test_a_hostile_repository_is_neither_shadow_nor_executed(
    cli: Cli, hostile: Path, issue: Path, tmp_path: Path
) -> None:
    issue.rename(hostile / "issue.md")
    (tmp_path / "test.diff").write_text("not a patch\n")
    for env in ({}, {"PYTHONPATH": str(hostile)}, {"PYTHONPATH": ":"}, {"PYTHONPATH": "."}):
        assert cli("--version", cwd=hostile, env=env).code == 0
        cli("doctor", "--json", cwd=hostile, env=env).json  # noqa: B018 - must be JSON
        ran = cli(
            *("resolve", "--repo", ".", "--issue", "issue.md", "--model", "openai:m"),
            *("--base-url", "http://127.0.0.1:9/v1", "--set", "model.connect_seconds=0", "--json"),
            cwd=hostile,
            env=env,
        )
        assert ran.json
    assert not (tmp_path / "alarm").exists(), (tmp_path / "alarm").read_text()


def test_sitecustomize_of_the_caller_is_not_part_of_the_program(cli: Cli, tmp_path: Path) -> None:
    """The interpreter that the shell starts reads PYTHONPATH before anything of ours runs; ours no longer does."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, pathlib\n"
        f"pathlib.Path({str(tmp_path / 'alarm')!r}).open('a').write(f'{{sys.flags.ignore_environment}}\\n')\n"
    )
    assert cli("--version", env={"PYTHONPATH": str(tmp_path)}).code == 0
    assert set((tmp_path / "alarm").read_text().split()) == {"0"}


def test_python_dash_m_works_too(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "execcritic", "--version"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, f"execcritic {__version__}\n")
    assert SCRIPT.exists()


def test_a_signal_that_arrives_in_a_destructor_is_not_lost() -> None:
    """Python drops what a signal handler raises there."""
    code = """
import os, signal, sys, time
from execcritic.cli.boundary import guarded

class Trap:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0)

def command():
    trap = Trap()
    del trap
    time.sleep(60)

sys.exit(guarded([], command))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr


def test_a_signal_while_text_is_evaluated_is_an_exit_code_too(tmp_path: Path) -> None:
    """As when a dataclass is made; the interpreter remembers it and would die of the signal (seen in CI)."""
    (tmp_path / "program.py").write_text("""
import sys
from execcritic.cli.boundary import guarded

def command():
    exec("import os, signal, time\\nos.kill(os.getpid(), signal.SIGINT)\\ntime.sleep(60)")

sys.exit(guarded([], command))
""")
    done = subprocess.run([sys.executable, "-m", "program"], capture_output=True, text=True, timeout=50, cwd=tmp_path)
    assert done.returncode == 130, done.stderr
