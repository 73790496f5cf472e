"""Where a repository's importable code lies, read from Base: import roots and top-level names."""

from __future__ import annotations

import configparser
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

_USUAL = ("src", "lib", "python")
_NOT_CODE = frozenset(
    """tests test testing docs doc examples example benchmarks benchmark scripts tools setup conftest build dist
    site venv env utils ci requirements noxfile tasks""".split()
)


def source_roots(files: Mapping[str, bytes | None]) -> tuple[str, ...]:
    """Directories that go to the front of the import path, most specific first; the root itself is always last.

    Declared ones (setuptools `where` and `package-dir`, poetry `from`, pytest `pythonpath` is pytest's own affair)
    come before the usual names, which count when a package or module lies right below and they are no package.
    """
    found = [r for r in _declared(files) if any(p.startswith(r + "/") for p in files)]
    for name in _USUAL:
        if name in found or f"{name}/__init__.py" in files:
            continue
        below = [p.split("/") for p in files if p.startswith(f"{name}/") and p.endswith(".py")]
        if any(len(p) == 3 and p[2] == "__init__.py" for p in below) or any(len(p) == 2 for p in below):
            found.append(name)
    return (*dict.fromkeys(found), ".")


def _declared(files: Mapping[str, bytes | None]) -> list[str]:
    roots: list[str] = []
    data = files.get("pyproject.toml")
    if data is not None:
        try:
            roots += _from_pyproject(tomllib.loads(data.decode("utf-8", "replace")))
        except tomllib.TOMLDecodeError:
            pass  # a broken file says nothing; the usual names still count
    data = files.get("setup.cfg")
    if data is not None:
        parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
        try:
            parser.read_string(data.decode("utf-8", "replace"))
        except configparser.Error:
            return roots
        where = parser.get("options.packages.find", "where", fallback=None)
        roots += (where or "").split()
        for line in (parser.get("options", "package_dir", fallback=None) or "").splitlines():
            name, _, directory = line.partition("=")
            if not name.strip() and directory.strip():
                roots.append(directory.strip())
    return [r.strip("/").removeprefix("./") for r in roots if r.strip("/.") and not r.startswith(("/", ".."))]


def _from_pyproject(table: Mapping[str, Any]) -> list[str]:
    tool = table.get("tool", {})
    roots: list[str] = []
    setuptools = tool.get("setuptools", {}) if isinstance(tool, dict) else {}
    packages = setuptools.get("packages", {}) if isinstance(setuptools, dict) else {}
    if isinstance(packages, dict):
        roots += [str(w) for w in packages.get("find", {}).get("where", [])]
    package_dir = setuptools.get("package-dir", {}) if isinstance(setuptools, dict) else {}
    if isinstance(package_dir, dict) and "" in package_dir:
        roots.append(str(package_dir[""]))
    for entry in tool.get("poetry", {}).get("packages", []) if isinstance(tool, dict) else []:
        if isinstance(entry, dict) and "from" in entry:
            roots.append(str(entry["from"]))
    return roots


def top_level(paths: Iterable[str], roots: Iterable[str]) -> frozenset[str]:
    """Names of the packages (with `__init__.py`) right below the roots: what must be imported from the checkout."""
    every = list(paths)
    names: set[str] = set()
    for root in roots:
        prefix = "" if root == "." else root + "/"
        for path in every:
            if not path.startswith(prefix) or not path.endswith("/__init__.py"):
                continue
            parts = path[len(prefix) :].split("/")
            if len(parts) == 2:
                names.add(parts[0])
    return frozenset(n for n in names if n.isidentifier() and n not in _NOT_CODE)


def root_modules(paths: Iterable[str], roots: Iterable[str]) -> frozenset[str]:
    """Every name importable right below the roots: packages, namespace packages and modules."""
    names: set[str] = set()
    every = list(paths)
    for root in roots:
        prefix = "" if root == "." else root + "/"
        for path in every:
            if path.startswith(prefix):
                head = path[len(prefix) :].split("/")[0]
                names.add(head.split(".")[0])
    return frozenset(names)
