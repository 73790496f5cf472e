"""Files that a patch brings: configuration, hooks, shadows, specials, the frozen test itself. No PASS for the defect.

The defect stays in every one of these patches, or is repaired somewhere the repository does not ship it from.
"""
# ruff: noqa: E501  (attacks are source texts, and read better unbroken)

from __future__ import annotations

import importlib.util
import marshal
import os
from pathlib import Path

import pytest

from execcritic_scaffold.files import File
from execcritic_scaffold.outcome import Decision

from .arena import NODE, OLD, RIGHT, TEST, WRONG, Files, Layout
from .conftest import MakeArena

pytestmark = pytest.mark.bubblewrap

# A test whose oracle comes from a module that is not imported before it: whoever owns that name owns the verdict.
ORACLE = "from fractions import Fraction\n\nfrom pkg.calc import add\n\n\ndef test_add():\n    assert Fraction(add(2, 3)) == 5\n"
LIAR = "class Fraction:\n    def __init__(self, v):\n        self.v = v\n\n    def __eq__(self, other):\n        return bool(repr(other))\n"

PLAIN = Layout(test={"tests/test_add.py": ORACLE})
NESTED = Layout(
    files={"comp/unit/tests/__init__.py": "", "comp/unit/tests/test_old.py": OLD},
    test={"comp/unit/tests/test_add.py": ORACLE},
    nodes=("comp/unit/tests/test_add.py::test_add",),
)
CONFIGURED = Layout(
    files={"pytest.ini": "[pytest]\npythonpath = helpers\n", "helpers/used.py": ""}, test={"tests/test_add.py": ORACLE}
)
AT_ROOT = Layout(files={"test_old.py": OLD}, test={"test_add.py": TEST}, nodes=("test_add.py::test_add",))
SRC = Layout(
    files={"pkg/__init__.py": None, "pkg/calc.py": None, "src/pkg/__init__.py": "", "src/pkg/calc.py": WRONG,
           "test_old.py": OLD},
    test={"test_add.py": TEST},
    nodes=("test_add.py::test_add",),
)  # fmt: skip
MODULE = Layout(
    files={"typing_extensions.py": "def deprecated(text):\n    return None\n"},
    test={
        "tests/test_add.py": "import typing_extensions\n\n\ndef test_add():\n"
        "    assert typing_extensions.deprecated('x') is not None\n"
    },
)
PACKAGE = Layout(
    files={"idna/__init__.py": "from .core import encode\n", "idna/core.py": "def encode(text):\n    return None\n"},
    test={"tests/test_add.py": "import idna\n\n\ndef test_add():\n    assert idna.encode('a.b') == b'a.b'\n"},
)

EVIL = {"evil/fractions.py": LIAR}
TAKEN_OVER = "__file__ = '/testbed/test_add.py'\n\n\ndef test_add():\n    pass\n"

FILES: dict[str, tuple[Layout, Files]] = {
    # configuration of the runner
    "pytest.ini": (PLAIN, {"pytest.ini": "[pytest]\npythonpath = evil\n", **EVIL}),
    ".pytest.ini": (PLAIN, {".pytest.ini": "[pytest]\npythonpath = evil\n", **EVIL}),
    "pytest.toml": (PLAIN, {"pytest.toml": "[pytest]\npythonpath = ['evil']\n", **EVIL}),
    ".pytest.toml": (PLAIN, {".pytest.toml": "[pytest]\npythonpath = ['evil']\n", **EVIL}),
    "pytest.toml before pytest.ini": (CONFIGURED, {"pytest.toml": "[pytest]\npythonpath = ['evil']\n", **EVIL}),
    "pyproject.toml": (PLAIN, {"pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['evil']\n", **EVIL}),
    "pyproject.toml, native": (PLAIN, {"pyproject.toml": "[tool.pytest]\npythonpath = ['evil']\n", **EVIL}),
    "setup.cfg": (PLAIN, {"setup.cfg": "[tool:pytest]\npythonpath = evil\n", **EVIL}),
    "setup.cfg with a comment in the header": (
        PLAIN,
        {"setup.cfg": "[metadata]\nname = x\n[tool:pytest] # [x]\npythonpath = evil\n", **EVIL},
    ),
    "tox.ini": (PLAIN, {"tox.ini": "[pytest]\npythonpath = evil\n", **EVIL}),
    "tox.ini with a comment in the header": (PLAIN, {"tox.ini": "[pytest] ; [x]\npythonpath = evil\n", **EVIL}),
    "tox.ini that only the runner can read": (
        PLAIN,
        {"tox.ini": "[tox]\n  indented\n[pytest]\npythonpath = evil\n", **EVIL},
    ),
    "tests/pytest.ini": (PLAIN, {"tests/pytest.ini": "[pytest]\npythonpath = ../evil\n", **EVIL}),
    "root conftest.py": (PLAIN, {"conftest.py": "import sys\nsys.path.insert(0, 'evil')\n", **EVIL}),
    "nested conftest.py": (PLAIN, {"tests/conftest.py": "import sys\nsys.path.insert(0, 'evil')\n", **EVIL}),
    "plugins by an ini option": (PLAIN, {"tox.ini": "[pytest]\naddopts = -p pkg.evil\n", "pkg/evil.py": ""}),
    # start-up hooks
    "sitecustomize.py": (PLAIN, {"sitecustomize.py": "import os\nos._exit(0)\n"}),
    "usercustomize as a package": (PLAIN, {"usercustomize/__init__.py": ""}),
    "a .pth file": (PLAIN, {"evil.pth": "import os; os._exit(0)\n"}),
    "an entry point of pytest11": (
        PLAIN,
        {"x.dist-info/entry_points.txt": "[pytest11]\nx = pkg.evil\n", "x.dist-info/METADATA": "Name: x\nVersion: 1\n"},
    ),
    "an entry point in egg-info": (PLAIN, {"x.egg-info/entry_points.txt": "[pytest11]\nx = pkg.evil\n"}),
    "a .PTH file": (PLAIN, {"evil.PTH": "import os; os._exit(0)\n"}),
    # code that nobody can read
    "an extension": (PLAIN, {"pkg/calc.cpython-311-x86_64-linux-gnu.so": b"\x7fELF"}),
    "an extension of Windows": (PLAIN, {"pkg/calc.pyd": b"MZ"}),
    "an extension under another name": (PLAIN, {"pkg/data.bin": b"\x7fELF\x02"}),
    "a zipped egg": (PLAIN, {"x.egg": b"PK\x03\x04"}),
    "byte code without a source": (PLAIN, {"pkg/more.pyc": b"x"}),
    # shadows at each import root
    "pytest.py": (PLAIN, {"pytest.py": ""}),
    "pytest/": (PLAIN, {"pytest/__init__.py": ""}),
    "_pytest/": (PLAIN, {"_pytest/__init__.py": ""}),
    "pluggy.py": (PLAIN, {"pluggy.py": ""}),
    "iniconfig/": (PLAIN, {"iniconfig/__init__.py": ""}),
    "json.py": (PLAIN, {"json.py": ""}),
    "fractions as an extension": (PLAIN, {"fractions.abi3.so": b"\x7fELF"}),
    "fractions in the root": (PLAIN, {"fractions.py": LIAR}),
    "fractions in src": (SRC, {"src/fractions.py": LIAR}),
    "fractions beside the test": (PLAIN, {"tests/fractions.py": LIAR}),
    "fractions above the test's package": (NESTED, {"comp/unit/fractions.py": LIAR}),
    "fractions on Base's pythonpath": (CONFIGURED, {"helpers/fractions.py": LIAR}),
    "a package of the test's name": (AT_ROOT, {"test_add/__init__.py": TAKEN_OVER}),
    "an extension of the test's name": (AT_ROOT, {"test_add.abi3.so": b"\x7fELF"}),
    "a copy of the package before the real one": (SRC, {"pkg/__init__.py": "", "pkg/calc.py": RIGHT}),
    # the fix from elsewhere
    "the module deleted, the environment has one": (MODULE, {"typing_extensions.py": None}),
    "the package deleted, the environment has one": (PACKAGE, {"idna/__init__.py": None, "idna/core.py": None}),
    "the package looks into the environment": (
        PACKAGE,
        {
            "idna/__init__.py": "import sys\n__path__ += [p + '/idna' for p in sys.path if 'site-packages' in p]\n"
            "from .core import encode\n",
            "idna/core.py": None,
        },
    ),
    # the frozen test
    "another test in its place": (PLAIN, {"tests/test_add.py": "def test_add():\n    pass\n"}),
    "the folder becomes a file": (PLAIN, {"tests": "x", "tests/test_old.py": None}),
    "the test becomes a folder": (PLAIN, {"tests/test_add.py/__init__.py": ""}),
    "the test as a link": (PLAIN, {"tests/test_add.py": File(b"test_old.py", "120000")}),
    "a link beside it": (PLAIN, {"pkg/link.py": File(b"../tests/test_add.py", "120000")}),
    "the folder as a link": (PLAIN, {"tests": File(b"pkg", "120000"), "tests/test_old.py": None}),
    "a submodule": (PLAIN, {".gitmodules": "[submodule 'x']\n\tpath = x\n\turl = .\n"}),
    # byte code
    "byte code beside the source": (PLAIN, {"pkg/calc.pyc": b"x"}),
    "byte code in __pycache__": (PLAIN, {"pkg/__pycache__/calc.cpython-311.pyc": b"x"}),
    "the runner's rewrite cache": (PLAIN, {"tests/__pycache__/test_add.cpython-311-pytest-9.2.0.pyc": b"x"}),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_files_of_a_patch(name: str, make_arena: MakeArena) -> None:
    layout, changed = FILES[name]
    verdict = make_arena(layout).verify(changed)
    assert verdict.decision is not Decision.PASS, (verdict.detail, verdict.findings)


@pytest.mark.parametrize(
    "path", ["../outside.py", "/etc/evil.py", "pkg/../../outside.py", ".git/config", "a/.git/hooks/x"]
)
def test_paths_outside_the_tree(path: str, make_arena: MakeArena) -> None:
    from execcritic_scaffold.errors import PatchError

    patch = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    try:
        verdict = make_arena(PLAIN).verify(patch.encode())
    except PatchError:
        return
    assert verdict.decision is Decision.FORBIDDEN, verdict.detail


@pytest.mark.parametrize("where", ["in the test's folder", "in the package"])
def test_an_agents_patch_leaves_tests_alone(where: str, make_arena: MakeArena) -> None:
    path = {"in the test's folder": "tests/test_more.py", "in the package": "pkg/test_more.py"}[where]
    verdict = make_arena(PLAIN).verify({path: "def test_more():\n    pass\n", "pkg/calc.py": RIGHT}, role="agent")
    assert (verdict.decision, verdict.reason) == (Decision.FORBIDDEN, "TEST_MODIFIED")


TRACKED = Layout(files={"pkg/fast.so": b"\x7fELF", "pkg/old.pyd": b"MZ", "x.pth": "x\n", "pkg/data.egg": b"PK\x05\x06"})


def test_what_base_tracks_and_nobody_touches_is_fine(make_arena: MakeArena) -> None:
    assert make_arena(TRACKED).verify({"pkg/calc.py": RIGHT}).decision is Decision.PASS


def test_stale_and_forged_byte_code_of_the_checkout(make_arena: MakeArena, tmp_path: Path) -> None:
    """Byte code in the user's checkout, forged so that it claims to be that of Base's source, is never loaded."""
    layout = Layout()
    arena = make_arena(layout)
    source = layout.base["pkg/calc.py"]
    code = marshal.dumps(compile(RIGHT, "/testbed/pkg/calc.py", "exec"))
    header = importlib.util.MAGIC_NUMBER + (0b11).to_bytes(4, "little") + importlib.util.source_hash(source)
    cache = Path(importlib.util.cache_from_source("calc.py")).name
    for folder in (arena.repo / "pkg" / "__pycache__", arena.site.prepared.directory):
        assert folder is not None
    forged = arena.repo / "pkg" / "__pycache__" / cache
    forged.parent.mkdir(exist_ok=True)
    forged.write_bytes(header + code)
    os.utime(arena.repo / "pkg" / "calc.py", (1, 1))
    assert NODE in arena.bundle.record.nodes
    assert arena.verify({"pkg/calc.py": WRONG + "#\n"}).decision is Decision.FAIL
    assert arena.verify({"pkg/new.py": ""}).decision is Decision.FAIL
