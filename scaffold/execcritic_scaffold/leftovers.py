"""What running, testing and building leave behind in a tree: never part of Base, never part of a patch.

Only paths that Base does not have are ever asked about; what a repository tracks stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

CACHE_FOLDERS = (
    "__pycache__",
    ".eggs",
    ".hypothesis",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pytest_cache",
    ".ruff_cache",
    ".tox",
    "node_modules",
)
CACHE_FILES = ("*.py[co]", ".coverage", ".coverage.*", ".DS_Store")

_BUILD_FOLDERS = ("*.egg-info", "*.dist-info", ".venv", "htmlcov", "pip-wheel-metadata")
_BUILD_FILES = (
    "*.o",
    "*.orig",
    "*.pyd",
    "*.rej",
    "*.so",
    "*.sw[op]",
    "*~",
    "build.log",
    "config.log",
    "nohup.out",
    "pip-delete-this-directory.txt",
    "pip-log.txt",
)
_BUILD_PATHS = ("build/bdist.*", "build/lib", "build/lib.*", "build/temp.*", "dist/*.tar.gz", "dist/*.whl")
"""Below the root of the tree only: elsewhere `build` and `dist` are ordinary package names."""
_ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta/history")


def is_cache(path: str) -> bool:
    """True for byte code, tool caches and installed packages of other tools."""
    *folders, name = path.split("/")
    return any(folder in CACHE_FOLDERS for folder in folders) or _matches(name, CACHE_FILES)


def is_leftover(path: str) -> bool:
    """True for caches and for what builds, editors and patch tools leave behind."""
    *folders, name = path.split("/")
    return (
        is_cache(path)
        or _matches(name, _BUILD_FILES)
        or any(_matches(folder, _BUILD_FOLDERS) for folder in folders)
        or _matches("/".join(path.split("/")[:2]), _BUILD_PATHS)
    )


def environments(paths: Iterable[str]) -> set[str]:
    """Folders that are virtual or conda environments, by the mark each of them holds; as `folder/` prefixes."""
    return {path.removesuffix(mark) for path in paths for mark in _ENVIRONMENT_MARKS if path.endswith("/" + mark)}


def is_below(path: str, prefixes: Collection[str]) -> bool:
    """True where the path lies in one of these folders, given as `folder/`."""
    return any(path.startswith(prefix) for prefix in prefixes)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
