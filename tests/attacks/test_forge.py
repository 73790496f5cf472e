"""The seven ways in which a source patch got a green run out of plain pytest, in every sandbox."""

from __future__ import annotations

import pytest

from execcritic_scaffold.outcome import Decision

from .arena import RIGHT, WRONG, Files, Layout
from .conftest import MakeArena

PLAIN = Layout()

FORGERIES: dict[str, Files] = {
    "source ends the process on import": {"pkg/__init__.py": "import os\nos._exit(0)\n"},
    "a root conftest.py rewrites outcomes": {
        "conftest.py": "import pytest\n@pytest.hookimpl(hookwrapper=True)\n"
        "def pytest_runtest_makereport(item, call):\n    o = yield\n    r = o.get_result()\n"
        "    r.outcome = 'passed'\n    r.longrepr = None\n"
    },
    "pytest.ini collects only": {"pytest.ini": "[pytest]\naddopts = --collect-only\n"},
    "source returns an always-equal object": {
        "pkg/calc.py": "class E:\n    def __eq__(s, o): return True\n\n\ndef add(a, b):\n    return E()\n"
    },
    "source skips on import": {"pkg/calc.py": "import pytest\npytest.skip('x', allow_module_level=True)\n"},
    "source patches TestReport": {
        "pkg/calc.py": "def add(a, b):\n    import _pytest.runner as r, _pytest.reports as p\n"
        "    p.TestReport.from_item_and_call = classmethod(lambda c, i, k: p.TestReport("
        "i.nodeid, i.location, {}, 'passed', None, k.when))\n    return a - b\n"
    },
    "a root pytest.py shadows the runner": {
        "pytest.py": "import sys\nprint('1 passed in 0.01s'); sys.exit(0)\n"
    },
}  # fmt: skip

SANDBOXES = [
    pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    pytest.param("docker", marks=pytest.mark.docker),
    "local",
]


@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("name", FORGERIES)
def test_forgery(name: str, sandbox: str, make_arena: MakeArena) -> None:
    verdict = make_arena(PLAIN, sandbox).verify({"pkg/other.py": "", **FORGERIES[name]})
    assert verdict.decision in (Decision.FORBIDDEN, Decision.TAMPERED), (verdict.reason, verdict.detail)


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_controls(sandbox: str, make_arena: MakeArena) -> None:
    arena = make_arena(PLAIN, sandbox)
    assert arena.verify({"pkg/calc.py": RIGHT}).decision is Decision.PASS
    assert arena.verify({"pkg/calc.py": WRONG + "# looked at\n"}).decision is Decision.FAIL
