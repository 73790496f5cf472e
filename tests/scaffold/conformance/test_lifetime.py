"""Nothing outlives its process; the suite again as another user; sandboxes by name."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pytest

from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.inject import reaper
from execcritic_scaffold.sandbox.registry import best, get
from tests.scaffold.conformance.boxes import (
    Box,
    appeared,
    gone,
    marker,
)

LIVES = """
import os, sys
from pathlib import Path
from execcritic_scaffold.sandbox.protocol import *
from execcritic_scaffold.sandbox.registry import get
name, directory, tree, key, python, digest, binds, mark = sys.argv[1:]
mark = mark[1:]  # or this process would be found by it too
made = Interpreter(python, digest, binds=tuple(filter(None, binds.split(":"))))
sandbox, workspace = get(name), Workspace(Prepared(tree, key, made, Path(directory)))
session = sandbox.open(workspace, Limits(seconds=60))
session.act("mkdir -p a/b; chmod 000 a; (setsid sleep %s &)" % mark, 5)
print("open", flush=True)
if sys.stdin.read(1):
    session.close()
else:
    sandbox.run(workspace, Command(["sleep", mark]), Limits(seconds=60))
"""


def traces(pid: int) -> list[Path]:
    """What a process of ours with this id keeps outside its sandboxes: directories and control groups."""
    groups = [Path(d) for d, _, _ in os.walk("/sys/fs/cgroup") if f"-{pid}-" in d]
    return groups + [p for d in {tempfile.gettempdir(), "/tmp"} for p in Path(d).glob(f"execcritic-*-{pid}-*")]


@pytest.mark.parametrize("end", ["close", "kill"])
def test_nothing_outlives_the_process(box: Box, end: str) -> None:
    """Neither a clean end nor SIGKILL leaves a process; what SIGKILL leaves on disk goes with the next start."""
    if box.prepared.image:
        pytest.skip("the tests of docker and remote cover what they leave behind")
    mark, made = marker(), box.prepared.interpreter
    facts = [str(box.prepared.directory), box.prepared.tree, box.prepared.key, made.python, made.digest]
    argv = [sys.executable, "-c", LIVES, box.sandbox.name, *facts, ":".join(made.binds), f"m{mark}"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdin and process.stdout
        try:
            assert process.stdout.readline() == b"open\n"
            assert appeared(mark, 1) and traces(process.pid)
            if end == "close":
                process.communicate(b"x", timeout=20)
            else:
                process.stdin.close()
                assert appeared(mark, 2)
        finally:
            process.kill()
    assert gone(mark)
    deadline = time.monotonic() + 15
    while get(box.sandbox.name) and traces(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)  # tests beside this one sweep too, and whoever comes second finds the folder half gone
    assert traces(process.pid) == []
    assert "execcritic" not in Path("/proc/self/mounts").read_text()


@pytest.mark.bubblewrap
def test_as_an_ordinary_user(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    uid, root = 61234, Path(__file__).parents[3]
    home = Path("/tmp", f"execcritic-user-{uuid.uuid4().hex[:8]}")
    packages = next(p for p in map(Path, sys.path) if (p / "pytest" / "__init__.py").exists())
    drop = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "env", "-i"]
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    path = [str(packages), *(str(root / part) for part in ("scaffold", "."))]
    env = [f"HOME={home}", f"TMPDIR={home}/tmp", f"EXECCRITIC_CACHE={home}/cache", f"PYTHONPATH={':'.join(path)}",
           "PATH=/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1"]  # fmt: skip
    test = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        "bubblewrap and not test_environments",
        "--rootdir",
        str(root),
    ]
    ask = "import pytest; from execcritic_scaffold.sandbox.registry import get; print(get('bubblewrap').probe())"
    try:
        (home / "tmp").mkdir(parents=True)
        for directory in (home, home / "tmp"):
            os.chown(directory, uid, uid)
        for python in (sys.executable, f"/usr/local/bin/{version}", f"/usr/bin/{version}"):
            trial = subprocess.run([*drop, *env, python, "-c", ask], capture_output=True, text=True)
            if trial.returncode == 0:
                break
        else:
            pytest.skip(f"user {uid} can run no {version} that sees the checkout and pytest")
        if trial.stdout != "None\n":
            pytest.skip(trial.stdout)
        suite = [*drop, *env, python, *test, str(Path(__file__).parent)]
        done = subprocess.run(suite, cwd=home, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
        passed = re.search(r"(\d+) passed", done.stdout)
        assert passed and int(passed[1]) > 60, done.stdout
    finally:
        subprocess.run(["rm", "-rf", str(home)], check=True)


def test_unknown_names() -> None:
    for name in ("nosuch", "no.such.module:Thing", "execcritic_scaffold.sandbox.local:Nothing"):
        with pytest.raises(UsageError, match="bubblewrap"):
            get(name)


def test_dotted_path() -> None:
    assert get("execcritic_scaffold.sandbox.local:Local").name == "local"


@pytest.mark.bubblewrap
def test_best() -> None:
    sandbox, problems = best()
    assert sandbox is not None and sandbox.isolates, problems


@pytest.mark.bubblewrap
def test_switched_off_user_namespaces_are_named() -> None:
    """A real machine state, made inside a user namespace of its own."""
    ask = "from execcritic_scaffold.sandbox.registry import get; print(get('bubblewrap').probe())"
    script = f'echo 0 >/proc/sys/user/max_user_namespaces && exec "{sys.executable}" -c "{ask}"'
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(["unshare", "--user", "--map-root-user", "bash", "-c", script], env=env, capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"no user namespace can be made here: {done.stderr.decode()}")
    assert b"user namespaces are switched off here" in done.stdout
    assert b"No space left on device" in done.stdout and b"sysctl user.max_user_namespaces" in done.stdout


def test_programs_inside_sandboxes_are_python_3_6() -> None:
    """Images carry old Pythons."""
    for path in (Path(reaper.__file__).parent).glob("*.py"):
        ast.parse(path.read_text(), str(path), feature_version=(3, 6))
