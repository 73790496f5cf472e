"""Code under test against the machine: floods, bombs, kills, hangs. Each has its outcome; nothing is left behind."""
# ruff: noqa: E501  (attacks are source texts, and read better unbroken)

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from execcritic_scaffold.errors import PatchError
from execcritic_scaffold.outcome import Decision
from execcritic_scaffold.sandbox.protocol import Limits

from .arena import RIGHT, WRONG, Layout
from .conftest import MakeArena

pytestmark = pytest.mark.bubblewrap

PLAIN = Layout()
EXCEPTION = "class E(Exception):\n{body}\n\n\ndef add(a, b):\n    raise E('x')\n"

SOURCES: dict[str, tuple[str, dict[str, int]]] = {
    "output without end": (
        "import os\nwhile True:\n    os.write(2, b'x' * (1 << 20))\n",
        {"test_seconds": 3},
    ),
    "1 GB in the report": (
        "import os\nfor fd in range(3, 30):\n    try:\n        for i in range(1024):\n"
        "            os.write(fd, b'x' * (1 << 20))\n    except OSError:\n        pass\n",
        {"test_seconds": 5},
    ),
    "a fork bomb": (
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n",
        {"test_seconds": 2, "processes": 40},
    ),
    "all memory": ("x = []\nwhile True:\n    x.append(bytearray(b'1' * (8 << 20)))\n", {"memory_mb": 256}),
    "a full disk": (
        "with open('/tmp/x', 'wb') as f:\n    while True:\n        f.write(b'1' * (1 << 20))\n",
        {"disk_mb": 32},
    ),
    "a full workspace": (
        "with open('big', 'wb') as f:\n    while True:\n        f.write(b'1' * (1 << 20))\n",
        {"disk_mb": 32},
    ),
    "SIGKILL to everything": ("import os\ntry:\n    os.kill(-1, 9)\nexcept OSError:\n    pass\n", {}),
    "SIGKILL to the parent": ("import os\nos.kill(os.getppid(), 9)\n", {"test_seconds": 5}),
    "SIGSTOP to itself": ("import os\nos.kill(os.getpid(), 19)\n", {"test_seconds": 2}),
    "SIGSTOP to the parent": ("import os\nos.kill(os.getppid(), 19)\n", {"test_seconds": 3}),
    "every descriptor closed": ("import os\nos.closerange(0, 100)\n", {}),
    "streams closed": ("import sys\nsys.stdout.close()\nsys.stderr.close()\n", {}),
    "descriptors exchanged": ("import os\nfor fd in range(3, 20):\n    try:\n        os.dup2(2, fd)\n"
                              "    except OSError:\n        pass\n", {}),
    "the reporter's files removed": (
        "import os, shutil\nshutil.rmtree('/opt/execcritic', True)\nshutil.rmtree('/tmp', True)\n", {},
    ),
    "an endless loop": ("while True:\n    pass\n", {"test_seconds": 2}),
    "recursion without a limit": (
        "import sys\nsys.setrecursionlimit(10**9)\n\n\ndef add(a, b):\n    return add(a, b)\n", {"test_seconds": 4},
    ),
    "signals ignored": ("import signal\nfor s in (1, 2, 3, 15):\n    signal.signal(s, signal.SIG_IGN)\n"
                        "while True:\n    pass\n", {"test_seconds": 2}),
    "the clock set": ("import time\ntry:\n    time.clock_settime(time.CLOCK_REALTIME, 1)\nexcept OSError:\n    pass\n", {}),
    "a message of 64 MB": ("def add(a, b):\n    raise ValueError('x' * (64 << 20))\n", {}),
    "a message that hangs": (EXCEPTION.format(body="    def __str__(self):\n        while True:\n            pass"),
                             {"test_seconds": 3}),
    "a message that raises": (EXCEPTION.format(body="    def __str__(self):\n        raise SystemExit(0)\n"
                                                    "    __repr__ = __str__"), {}),
    "a message that is no text": (EXCEPTION.format(body="    def __str__(self):\n        return '\\udcff\\ud800'"), {}),
    "a message that lies about its size": (
        "class S(str):\n    def __len__(self):\n        return 1\n\n    def __getitem__(self, key):\n"
        "        raise SystemExit(0)\n\n\n" + EXCEPTION.format(body="    def __str__(self):\n        return S('x' * 99999)"),
        {},
    ),
    "a class that lies": (EXCEPTION.format(body="    __class__ = SystemExit\n    __mro__ = ()\n    __name__ = 'x'"), {}),
    "a name that raises": (EXCEPTION.format(body="    @property\n    def name(self):\n        raise SystemExit(0)"), {}),
    "an assertion subclass": ("class E(AssertionError):\n    pass\n\n\ndef add(a, b):\n    raise E('passed')\n", {}),
    "values that are not themselves": ("def add(a, b):\n    return float('nan')\n", {}),
    "a representation that raises": ("class N:\n    def __repr__(self):\n        raise SystemExit(0)\n\n\n"
                                     "def add(a, b):\n    return N()\n", {}),
    "1 passed": ("print('1 passed in 0.01s', flush=True)\nopen('/tmp/report.xml', 'w').write('<testsuite tests=\"1\"/>')\n", {}),
}  # fmt: skip


SLOW = ("output without end", "1 GB in the report", "recursion without a limit", "a message that hangs")


UNDER_DOCKER = (
    "a fork bomb",
    "all memory",
    "SIGKILL to everything",
    "SIGKILL to the parent",
    "every descriptor closed",
    "descriptors exchanged",
    "an endless loop",
    "a message that raises",
    "1 passed",
)


def under(engine: str, name: str) -> object:
    return pytest.param(name, engine, marks=pytest.mark.docker if engine == "docker" else (), id=f"{name}-{engine}")


@pytest.mark.parametrize(
    ("name", "engine"),
    [pytest.param(name, "bubblewrap", marks=pytest.mark.slow if name in SLOW else (), id=name) for name in SOURCES]
    + [under("docker", name) for name in UNDER_DOCKER],
)
def test_machine(name: str, engine: str, make_arena: MakeArena) -> None:
    code, limits = SOURCES[name]
    arena = make_arena(PLAIN, engine)
    verdict = arena.verify({"pkg/calc.py": WRONG + code}, **limits)
    assert verdict.decision in (Decision.FAIL, Decision.INCONCLUSIVE, Decision.TAMPERED, Decision.FORBIDDEN)
    assert not orphans(), "processes were left behind"


def test_the_check_after_them_is_unharmed(make_arena: MakeArena) -> None:
    assert make_arena(PLAIN).verify({"pkg/calc.py": RIGHT}).decision is Decision.PASS


def orphans() -> list[str]:
    """Command lines of sandboxed processes of this user that are still alive a moment after a check."""
    for _ in range(20):
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    line = (entry / "cmdline").read_bytes()
                    parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                except (OSError, ValueError):
                    continue
                if b"/opt/execcritic/run_" in line and b"bwrap" not in line and parent == os.getpid():
                    found.append(line.decode(errors="replace"))
        if not found:
            return []
        time.sleep(0.1)
    return found


# -- the clock ----------------------------------------------------------------------------------------------------

STOPPED = Layout(
    test={
        "tests/test_add.py": "import time\n\nfrom pkg.calc import add\n\n\ndef test_add():\n"
        "    time.time = time.monotonic = time.perf_counter = lambda: 1.0\n    assert add(2, 3) == 5\n"
    }
)
CLOCKS: dict[str, str] = {
    "replaced": "import time\ntime.time = time.monotonic = lambda: 1.0\n",
    "faked for children": "import os\nos.environ.update(LD_PRELOAD='libfaketime.so.1', FAKETIME='@2000-01-01')\n",
    "set by a program": "import subprocess\nsubprocess.run(['date', '-s', '2000-01-01'])\n",
}


@pytest.mark.parametrize("how", CLOCKS)
def test_clock(how: str, make_arena: MakeArena) -> None:
    before = time.time()
    verdict = make_arena(PLAIN).verify({"pkg/calc.py": WRONG + CLOCKS[how]})
    assert verdict.decision in (Decision.FAIL, Decision.FORBIDDEN), verdict.detail
    assert time.time() >= before


def test_time_is_the_supervisors(make_arena: MakeArena) -> None:
    """A test that stops every clock of its process is judged like any other, and hangs no longer than any other."""
    arena = make_arena(STOPPED)
    verdict = arena.verify({"pkg/calc.py": RIGHT})
    assert verdict.decision is Decision.PASS and all(float(run["seconds"]) > 0 for run in verdict.runs)
    hanging = arena.verify({"pkg/calc.py": "def add(a, b):\n    while True:\n        pass\n"}, test_seconds=3)
    assert (hanging.decision, hanging.reason) == (Decision.INCONCLUSIVE, "TIMEOUT")


# -- the frozen test, from inside ---------------------------------------------------------------------------------

TOUCH = {
    "opens it for writing": "open('/testbed/tests/test_add.py', 'w').write('def test_add():\\n    pass\\n')\n",
    "replaces it": "import os\nopen('/testbed/x', 'w').write('def test_add():\\n    pass\\n')\n"
    "os.replace('/testbed/x', '/testbed/tests/test_add.py')\n",
    "replaces its folder": "import os\nos.rename('/testbed/tests', '/testbed/gone')\nos.mkdir('/testbed/tests')\n",
    "removes it": "import os\nos.remove('/testbed/tests/test_add.py')\n",
    "changes its mode": "import os\nos.chmod('/testbed/tests/test_add.py', 0)\n",
    "links to it": "import os\nos.link('/testbed/tests/test_add.py', '/testbed/l.py')\n"
    "open('/testbed/l.py', 'w').write('')\n",
    "mounts over it": "import ctypes\nif ctypes.CDLL(None).mount(b'/tmp', b'/testbed/tests', b'', 4096, None):\n"
    "    raise OSError('mount')\n",
    "unmounts it": "import ctypes\nif ctypes.CDLL(None).umount2(b'/testbed/tests/test_add.py', 2):\n"
    "    raise OSError('umount')\n",
    "opens a namespace": "import ctypes\nif ctypes.CDLL(None).unshare(0x10020000):\n    raise OSError('unshare')\n",
}


@pytest.mark.parametrize(
    ("how", "engine"),
    [under("bubblewrap", how) for how in TOUCH]
    + [under("docker", how) for how in ("opens it for writing", "replaces it", "replaces its folder", "removes it")],
)
def test_frozen_file_from_inside(how: str, engine: str, make_arena: MakeArena) -> None:
    """The attempt itself fails: source that swallows nothing cannot be imported."""
    verdict = make_arena(PLAIN, engine).verify({"pkg/calc.py": RIGHT + TOUCH[how]})
    assert verdict.decision in (Decision.FAIL, Decision.FORBIDDEN), verdict.detail


def test_background_process_during_the_second_repeat(make_arena: MakeArena) -> None:
    """A daemon of the first run that repairs the tree cannot reach the second: both runs say the same."""
    code = (
        "import os\nif not os.fork():\n    os.setsid()\n    if not os.fork():\n        import time\n"
        "        for _ in range(200):\n            for p in ('/testbed/pkg/calc.py', '/testbed/tests/test_add.py'):\n"
        "                try:\n                    open(p, 'w').write('def add(a, b):\\n    return a + b\\n')\n"
        "                except OSError:\n                    pass\n            time.sleep(0.05)\n"
        "    os.__dict__['_exit'](0)\nos.wait()\n"
    )
    assert make_arena(PLAIN).verify({"pkg/calc.py": WRONG + code}, repeats=2).decision is not Decision.PASS


# -- what is large, and what is broken already --------------------------------------------------------------------

BROKEN = {
    "tests/test_broken.py": "import nothing_of_that_name\n",
    "tests/test_red.py": "def test_red():\n    assert 0\n",
    "other/test_syntax.py": "def (:\n",
    "other/conftest.py": "raise OSError\n",
}
HALF_BROKEN = Layout(files=BROKEN)
ALL_BROKEN = Layout(files={**BROKEN, "tests/test_old.py": None})


def test_a_suite_that_is_broken_elsewhere(make_arena: MakeArena) -> None:
    arena = make_arena(HALF_BROKEN)
    verdict = arena.verify({"pkg/calc.py": RIGHT}, guard="auto")
    assert verdict.decision is Decision.PASS and verdict.guard.passed == 1, verdict
    assert arena.verify({"pkg/calc.py": WRONG + "x = 1\n"}, guard="auto").decision is Decision.FAIL


def test_a_folder_that_is_broken_is_not_held_against_its_neighbours(make_arena: MakeArena) -> None:
    files = {
        f"sub{n}/{name.rpartition('/')[2]}": text for n in (1, 2) for name, text in BROKEN.items() if "other" in name
    }
    arena = make_arena(Layout(files=files))
    answer = arena.qualify(arena.layout.test, arena.layout.nodes)
    assert answer.status == "QUALIFIED" and "NEIGHBOURS_LEFT_OUT" in {f.code for f in answer.findings}, answer


def test_a_suite_of_which_nothing_passes_says_nothing(make_arena: MakeArena) -> None:
    answer = make_arena(ALL_BROKEN).qualify(ALL_BROKEN.test, ALL_BROKEN.nodes)
    assert answer.status == "INCONCLUSIVE" and answer.code in ("ENVIRONMENT", "RUNNER_USAGE"), answer


@pytest.mark.slow
def test_a_patch_of_50_megabytes(make_arena: MakeArena) -> None:
    arena = make_arena(PLAIN)
    large = b"".join(b"%063d\n" % n for n in range(50 << 14))
    assert arena.verify({"pkg/calc.py": RIGHT, "pkg/table.txt": large}).decision is Decision.PASS
    with pytest.raises(PatchError, match="leave generated files out"):
        arena.verify({"pkg/calc.py": RIGHT, "pkg/table.txt": large + large})


# -- what surrounds a check ---------------------------------------------------------------------------------------


def test_callers_variables_do_not_reach_the_check(make_arena: MakeArena, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {
        "PYTEST_ADDOPTS": "--collect-only",
        "PYTEST_PLUGINS": "pkg.nothing",
        "PYTHONPATH": "/tmp",
        "PYTHONSTARTUP": "/tmp/x.py",
        "PYTHONOPTIMIZE": "2",
        "PYTHONINSPECT": "1",
        "PYTHONPYCACHEPREFIX": "/tmp/p",
        "PYTHONWARNINGS": "error",
        "PYTHONBREAKPOINT": "os._exit",
        "LD_PRELOAD": "/tmp/none.so",
        "AWS_SECRET_ACCESS_KEY": "hidden",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    arena = make_arena(Layout())
    assert arena.verify({"pkg/calc.py": RIGHT}).decision is Decision.PASS
    tell = f"[name for name, value in {variables!r}.items() if os.environ.get(name) == value]"
    told = arena.verify({"pkg/calc.py": f"import os\n\n\ndef add(a, b):\n    raise ValueError({tell})\n"})
    assert "ValueError: []" in told.feedback


REACH = {
    "the network": "import socket\nsocket.create_connection(('198.51.100.1', 80), 2)\n",
    "names": "import socket\nsocket.getaddrinfo('example.org', 80)\n",
    "the engine's socket": "import socket\nsocket.socket(socket.AF_UNIX).connect('/var/run/docker.sock')\n",
    "history": "import os\nos.stat('/testbed/.git')\n",
    "the host's users": "if len(open('/etc/passwd').readlines()) < 3:\n    raise OSError('none')\n",
    "the password file": "open('/etc/shadow').read()\n",
}


@pytest.mark.parametrize(
    ("what", "engine"),
    [under("bubblewrap", what) for what in REACH]
    + [under("docker", what) for what in ("the network", "the engine's socket", "history")],
)
def test_out_of_reach(what: str, engine: str, make_arena: MakeArena) -> None:
    verdict = make_arena(PLAIN, engine).verify({"pkg/calc.py": RIGHT + REACH[what]})
    assert (verdict.decision, verdict.reason) == (Decision.FAIL, "COLLECT_ERROR"), verdict.detail


def test_an_agents_workspace_has_no_history(make_arena: MakeArena) -> None:
    """A later fix lies in packs, reflog and stash of the user's checkout; nothing of it is in a session."""
    arena = make_arena(PLAIN)
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@invalid"]
    (arena.repo / "pkg" / "calc.py").write_text(RIGHT)
    for argv in (["commit", "-qam", "the fix"], ["reset", "-q", "--hard", "HEAD~1"], ["gc", "-q"]):
        subprocess.run([*git, *argv], cwd=arena.repo, check=True, capture_output=True)
    session = arena.site.sandbox.open(arena.site.workspace({}), Limits(seconds=60))
    try:
        done = session.act("find / -name '*.git*' -not -path '/proc/*' 2>/dev/null; ls -A; git log --all", 30)
    finally:
        session.close()
    assert b"the fix" not in done.output and b"/testbed/.git" not in done.output
