"""Where a repository's importable code lies."""

from __future__ import annotations

import pytest

from execcritic_scaffold.layout import root_modules, source_roots, top_level

PYPROJECT = b"""
[tool.setuptools.packages.find]
where = ["code", "absent"]
"""
POETRY = b"[[tool.poetry.packages]]\ninclude = 'pkg'\nfrom = 'poems'\n"
FLAT = {"pkg/__init__.py": None, "tests/test_a.py": None}


@pytest.mark.parametrize(
    ("files", "roots"),
    [
        (FLAT, (".",)),
        ({"src/pkg/__init__.py": None}, ("src", ".")),
        ({"src/module.py": None}, ("src", ".")),
        ({"src/native/a.c": None, "src/deep/er/x.py": None}, (".",)),
        ({"src/__init__.py": None, "src/pkg/__init__.py": None}, (".",)),
        ({"lib/pkg/__init__.py": None, "python/x.py": None}, ("lib", "python", ".")),
        ({"code/pkg/__init__.py": None, "pyproject.toml": PYPROJECT}, ("code", ".")),
        ({"poems/pkg/__init__.py": None, "pyproject.toml": POETRY}, ("poems", ".")),
        ({"code/a.py": None, "setup.cfg": b"[options]\npackage_dir =\n    = code\n"}, ("code", ".")),
        ({"code/a.py": None, "setup.cfg": b"[options.packages.find]\nwhere = code\n"}, ("code", ".")),
        ({"code/a.py": None, "pyproject.toml": b'[tool.setuptools.package-dir]\n"" = "code"\n'}, ("code", ".")),
        ({"a.py": None, "pyproject.toml": b'[tool.setuptools.package-dir]\n"" = "../code"\n'}, (".",)),
        ({"src/a.py": None, "pyproject.toml": b"[[[", "setup.cfg": b"\xff no section"}, ("src", ".")),
    ],
)
def test_source_roots(files: dict[str, bytes | None], roots: tuple[str, ...]) -> None:
    assert source_roots(files) == roots


@pytest.mark.parametrize(
    "text",
    [
        b"tool = 3\n",
        b"[tool]\nsetuptools = 3\npoetry = 4\n",
        b"[tool.setuptools]\npackages = ['pkg']\n",
        b"[tool.setuptools.packages]\nfind = true\n",
        b"[tool.setuptools.packages.find]\nwhere = 'src'\n",
        b"[tool.poetry]\npackages = 'x'\n",
    ],
)
def test_a_strange_pyproject_says_nothing(text: bytes) -> None:
    assert source_roots(FLAT | {"pyproject.toml": text}) == (".",)


def test_names() -> None:
    paths = [
        "src/pkg/__init__.py", "src/pkg/deep/__init__.py", "src/space/mod.py", "single.py", "docs/__init__.py",
        "tests/__init__.py", "not-a-name/__init__.py", "other/__init__.py",
    ]  # fmt: skip
    assert top_level(dict.fromkeys(paths), ("src", ".")) == {"pkg", "other"}
    assert {"pkg", "space", "single", "other"} <= root_modules(paths, ("src", "."))
