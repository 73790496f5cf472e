"""Again, otherwise and alone (B4, B5, B7): a test must be steady and leave everything as it was."""

from __future__ import annotations

import pytest

from execcritic_scaffold.site import Site
from tests.scaffold.harness import Lab, codes
from tests.scaffold.qualified import AGENT, CONTRACT, FILE, GOOD, PKG, ask


@pytest.fixture(scope="module")
def bare(lab: Lab) -> Site:
    """A Base without a test: no control run, so one start tells."""
    return lab.site({"pkg/__init__.py": PKG})


FLAKY = {
    "hash seed": "def test_new():\n    assert add(1, hash('x') % 1000) == 9999\n",
    "time zone": "def test_new():\n    assert add(1, time.timezone) == 3\n",
    "chance": "def test_new():\n    assert add(1, random.random()) == 3\n",
    "order": "SEEN = []\n\ndef test_first():\n    SEEN.append(1)\n\n"
    "def test_new():\n    assert add(1, len(SEEN)) == 9\n",
    "an earlier run": "def test_new():\n    seen = os.path.exists('/tmp/seen')\n    open('/tmp/seen', 'w').close()\n"
    "    assert add(1, seen) == 9\n",
}  # fmt: skip


@pytest.mark.parametrize("name", FLAKY)
def test_flaky(bare: Site, name: str) -> None:
    answer = ask(bare, FLAKY[name], k=3 if name == "an earlier run" else 2)
    assert (answer.status, answer.code) == ("REJECTED", "FLAKY"), answer.detail


def test_steady(bare: Site) -> None:
    """What only the printed order, an address or a temporary path distinguishes is one failure."""
    text = "def test_new(tmp_path):\n    (tmp_path / 'x').touch()\n"
    text += "    assert add(1, 2) == 3, ({'a', 'b', 'c', 'd'}, object(), str(tmp_path))\n"
    answer = ask(bare, text, k=3)
    assert answer.status == "QUALIFIED", answer.detail
    assert [run["run"] for run in answer.evidence] == ["whole files", "alone 1", "alone 2"]


def test_a_companion_that_is_not_steady_is_not_frozen(bare: Site) -> None:
    text = GOOD + "\nSEEN = []\n\ndef test_a():\n    SEEN.append(1)\n\ndef test_b():\n    assert SEEN\n"
    answer = ask(bare, text, k=2)
    assert answer.bundle is not None and answer.bundle.companions == (f"{FILE}::test_a",)
    assert "UNSTABLE_COMPANION" in codes(answer)


def test_side_effects(bare: Site) -> None:
    text = """def test_new():
    open("left.txt", "w").close()
    open(os.path.expanduser("~/left.txt"), "w").close()
    subprocess.Popen(["sleep", "60"], start_new_session=True)
    import socket
    socket.socket().connect_ex(("192.0.2.1", 80))
    assert add(1, 2) == 3
"""
    answer = ask(bare, text, k=2)
    assert answer.status == "QUALIFIED", answer.detail
    assert {"WRITES_FILES", "WRITES_HOME", "LEAVES_PROCESSES", "REACHES_NETWORK"} <= codes(answer)


SOCKETS = """
    import socket
    server = socket.create_server(("localhost", 0))
    socket.create_connection(server.getsockname())
    for family, name in ((socket.AF_UNIX, "\\0abstract"), (socket.AF_UNIX, "/tmp/s")):
        with socket.socket(family) as listening:
            listening.bind(name)
            listening.listen()
            socket.socket(family).connect(name)
"""
OUTSIDE = "    import socket\n    socket.socket().connect_ex(('192.0.2.1', 80))\n"


@pytest.mark.parametrize(
    ("act", "neighbour", "code"),
    [(SOCKETS, "", "QUALIFIED"), (OUTSIDE, "", "REACHES_NETWORK"), (OUTSIDE, OUTSIDE, "QUALIFIED")],
)
def test_sockets(lab: Lab, act: str, neighbour: str, code: str) -> None:
    """Loopback and sockets of the own machine are fine; beyond it, only what the neighbours do as well."""
    site = lab.site({"pkg/__init__.py": PKG, "tests/test_old.py": f"def test_old():\n    pass\n{neighbour}"})
    answer = ask(site, f"def test_new():\n{act}    assert add(1, 2) == 3\n", k=2, **AGENT)
    assert answer.code == code, answer.detail
    if neighbour:
        assert "NETWORK" in codes(answer)


@pytest.mark.parametrize(
    "act",
    [
        "open(pkg.__file__, 'a').write('# changed')",
        "os.remove(pkg.__file__)",
        "os.rename(pkg.__file__, pkg.__file__ + '.old')",
    ],
)
def test_it_changes_the_tree(bare: Site, act: str) -> None:
    answer = ask(bare, f"def test_new():\n    {act}\n    assert add(1, 2) == 3\n", k=2)
    assert (answer.status, answer.code) == ("REJECTED", "MODIFIES_TREE"), answer.detail


def test_caches_do_not_count(bare: Site) -> None:
    text = "def test_new():\n    os.makedirs('__pycache__/x', exist_ok=True)\n    assert add(1, 2) == 3\n"
    answer = ask(bare, text, k=2, author="agent", contract=CONTRACT, issue="add(1, 2) is -1")
    assert answer.status == "QUALIFIED" and not codes(answer) & {"WRITES_FILES", "MODIFIES_TREE"}
