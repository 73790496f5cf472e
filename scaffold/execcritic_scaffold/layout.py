"""Where a repository's importable code lies, read from Base: import roots and top-level names."""

from __future__ import annotations

import configparser
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

IMPORTABLE = (".py", ".pyc", ".so", ".pyd", ".zip", ".egg")
_USUAL = ("src", "lib", "python")
_NOT_CODE = frozenset(
    """tests test testing docs doc examples example benchmarks benchmark scripts tools setup conftest build dist
    site venv env utils ci requirements noxfile tasks""".split()
)


def source_roots(files: Mapping[str, bytes | None]) -> tuple[str, ...]:
    """Directories that go to the front of the import path, most specific first; the root itself is always last.

    Declared ones (setuptools `where` and `package-dir`, poetry `from`, pytest `pythonpath` is pytest's own affair)
    come first, then where the package of the project's own name lies, then the usual names, which count when a package
    or module lies right below and they are no package.
    """
    found = [r for r in _declared(files) if any(p.startswith(r + "/") for p in files)]
    found += _home_of(project(files), files)
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
        except (tomllib.TOMLDecodeError, RecursionError):
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


def project(files: Mapping[str, bytes | None]) -> str | None:
    """The project's name as an import name, from pyproject.toml or setup.cfg; None where neither says."""
    name: object = None
    if (data := files.get("pyproject.toml")) is not None:
        try:
            table = tomllib.loads(data.decode("utf-8", "replace"))
        except (tomllib.TOMLDecodeError, RecursionError):
            table = {}
        poetry = _table(_table(table, "tool"), "poetry")
        name = _table(table, "project").get("name") or poetry.get("name")
    if name is None and (data := files.get("setup.cfg")) is not None:
        parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
        try:
            parser.read_string(data.decode("utf-8", "replace"))
        except configparser.Error:
            return None
        name = parser.get("metadata", "name", fallback=None)
    return name.replace("-", "_").lower() if isinstance(name, str) else None


def _home_of(name: str | None, files: Mapping[str, bytes | None]) -> list[str]:
    """The one directory that holds the package of this name and is no package itself."""
    if name is None or f"{name}/__init__.py" in files or f"{name}.py" in files:
        return []
    homes = {p.removesuffix(f"/{name}/__init__.py") for p in files if p.lower().endswith(f"/{name}/__init__.py")}
    homes = {h for h in homes if f"{h}/__init__.py" not in files and not _NOT_CODE & set(h.split("/"))}
    return list(homes) if len(homes) == 1 else []


def _from_pyproject(table: Mapping[str, Any]) -> list[str]:
    tool = _table(table, "tool")
    setuptools = _table(tool, "setuptools")
    where = _table(_table(setuptools, "packages"), "find").get("where")
    roots = [str(w) for w in where] if isinstance(where, list) else []
    if "" in (package_dir := _table(setuptools, "package-dir")):
        roots.append(str(package_dir[""]))
    packages = _table(tool, "poetry").get("packages")
    for entry in packages if isinstance(packages, list) else []:
        if isinstance(entry, dict) and "from" in entry:
            roots.append(str(entry["from"]))
    return roots


def _table(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The table below a key; an empty one where there is none, or where something else stands there."""
    found = table.get(key)
    return found if isinstance(found, dict) else {}


def top_level(files: Mapping[str, bytes | None], roots: Iterable[str]) -> frozenset[str]:
    """What must be imported from the checkout: the packages (with `__init__.py`) right below the roots, and the
    project's own module where it is a single file."""
    every = list(files)
    roots = list(roots)
    name = project(files)
    names: set[str] = set()
    for root in roots:
        prefix = "" if root == "." else root + "/"
        for path in every:
            if not path.startswith(prefix) or not path.endswith("/__init__.py"):
                continue
            parts = path[len(prefix) :].split("/")
            if len(parts) == 2:
                names.add(parts[0])
        if name is not None and f"{prefix}{name}.py" in files:
            names.add(name)
    return frozenset(n for n in names if n.isidentifier() and n not in _NOT_CODE)


def installed_too(files: Iterable[str], roots: Iterable[str], installed: Iterable[str]) -> frozenset[str]:
    """Single modules right below the roots that the environment has a copy of: they too must come from the checkout."""
    found: set[str] = set()
    for root in roots:
        prefix = "" if root == "." else root + "/"
        found |= {p[len(prefix) : -len(".py")] for p in files if p.startswith(prefix) and p.endswith(".py")}
    return frozenset(found & set(installed) - _NOT_CODE)


def root_modules(paths: Iterable[str], roots: Iterable[str]) -> frozenset[str]:
    """Every name importable right below the roots: packages, namespace packages and modules."""
    names: set[str] = set()
    every = list(paths)
    for root in roots:
        prefix = "" if root == "." else root + "/"
        names |= {p[len(prefix) :].split("/")[0].split(".")[0] for p in every if p.startswith(prefix)}
    return frozenset(names)


def importable(paths: Iterable[str]) -> dict[str, set[str]]:
    """For every folder, as a prefix ("" or "a/b/"), the names that are importable right below it."""
    below: dict[str, set[str]] = {}
    for path in paths:
        if path.endswith(IMPORTABLE):
            parts = path.split("/")
            for depth, part in enumerate(parts):
                below.setdefault("".join(f"{above}/" for above in parts[:depth]), set()).add(part.split(".")[0])
    return below
