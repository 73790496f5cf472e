"""What a path of the repository is: a test, something tests use, configuration, a start-up hook, or source (A2).

Classified by the repository's own discovery configuration, from Base, never from what a patch brings.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath


class PathKind(StrEnum):
    TEST = "test"
    """A file the runner collects tests from."""
    SUPPORT = "test support"
    """Data, helpers and fixtures below a test directory."""
    CONFTEST = "conftest"
    CONFIG = "runner or build configuration"
    SHARED_CONFIG = "shared configuration"
    """A file with sections of the runner's and of others (pyproject.toml, setup.cfg, tox.ini)."""
    HOOK = "start-up hook"
    """Code the interpreter runs by itself: .pth, sitecustomize, compiled byte code."""
    VCS = "version control"
    SOURCE = "source"


_CONFIG = frozenset(
    """pytest.toml .pytest.toml pytest.ini .pytest.ini noxfile.py .coveragerc Makefile makefile GNUmakefile
    poetry.lock uv.lock pdm.lock Pipfile.lock package-lock.json yarn.lock pnpm-lock.yaml
    .travis.yml appveyor.yml azure-pipelines.yml .gitlab-ci.yml .pre-commit-config.yaml""".split()
)
_SHARED = frozenset(("pyproject.toml", "setup.cfg", "tox.ini"))
_HOOKS = frozenset(("sitecustomize.py", "usercustomize.py"))
_TEST_DIRECTORIES = frozenset(("tests", "test"))


@dataclass(frozen=True)
class Discovery:
    """How a repository's runner finds tests. `directories` are test directories known from configuration or Base."""

    patterns: tuple[str, ...] = ("test_*.py", "*_test.py")
    directories: frozenset[str] = frozenset()
    only_directories: bool = False
    """True where nothing outside `directories` is a test (Django's `tests/`)."""
    source_directories: frozenset[str] = field(default_factory=frozenset)
    """Directories that look like tests by name and are not (`django/test`)."""
    config_directories: frozenset[str] = frozenset()
    """Where a configuration file would be found by the runner: every directory above a test file ("" is the root)."""

    def kind(self, path: str) -> PathKind:
        """Classify one path. Case matters, as it does to the runner."""
        pure = PurePosixPath(path)
        name = pure.name
        if any(part == ".git" or part.startswith(".git\\") for part in pure.parts) or name == ".gitmodules":
            return PathKind.VCS
        if name in _HOOKS or pure.suffix.lower() in (".pth", ".pyc", ".pyo") or "__pycache__" in pure.parts:
            return PathKind.HOOK
        # Metadata on the import path declares plugins that the runner loads by itself.
        if any(part.endswith((".egg-info", ".dist-info", ".egg-link", ".egg")) for part in pure.parts):
            return PathKind.HOOK
        # A package or a compiled module of that name is imported at start-up just as well.
        if "sitecustomize" in pure.parts[:-1] or "usercustomize" in pure.parts[:-1]:
            return PathKind.HOOK
        if name.split(".")[0] in ("sitecustomize", "usercustomize"):
            return PathKind.HOOK
        if name == "conftest.py" or (name.startswith("conftest.") and pure.suffix in (".so", ".pyd")):
            return PathKind.CONFTEST
        parent = "" if str(pure.parent) == "." else str(pure.parent)
        if not parent or parent in self.config_directories:
            if name in _SHARED:
                return PathKind.SHARED_CONFIG
            if name in _CONFIG:
                return PathKind.CONFIG
        if len(pure.parts) > 1 and pure.parts[0] in (".github", ".circleci", ".gitlab"):
            return PathKind.CONFIG
        inside = self.in_tests(path)
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in self.patterns) and (
            inside or not self.only_directories
        ):
            return PathKind.TEST
        return PathKind.SUPPORT if inside else PathKind.SOURCE

    def in_tests(self, path: str) -> bool:
        """True below a test directory."""
        parents = [str(p) for p in PurePosixPath(path).parents if str(p) != "."]
        if any(p in self.source_directories for p in parents):
            return False
        if any(p in self.directories for p in parents):
            return True
        return not self.only_directories and any(PurePosixPath(p).name in _TEST_DIRECTORIES for p in parents)


def discover(
    paths: Iterable[str], patterns: Iterable[str] = ("test_*.py", "*_test.py"), testpaths: Iterable[str] = ()
) -> Discovery:
    """Discovery for a pytest- or unittest-style repository from the paths of Base and its configuration."""
    patterns = tuple(patterns)
    paths = list(paths)
    known = {p.strip("/").removeprefix("./") for p in testpaths}
    directories = {d for d in known if d not in ("", ".") and not _mostly_source(d, paths, patterns)}
    above: set[str] = set()
    for path in paths:
        pure = PurePosixPath(path)
        if not any(fnmatch.fnmatchcase(pure.name, p) for p in patterns):
            continue
        above.update("" if str(p) == "." else str(p) for p in pure.parents)
        if pure.parent.name == "testing":
            directories.add(str(pure.parent))
    return Discovery(patterns, frozenset(directories), config_directories=frozenset(above))


def _mostly_source(directory: str, paths: Iterable[str], patterns: tuple[str, ...]) -> bool:
    """Whether a folder that `testpaths` names is a package with its tests inside (`testpaths = sklearn`): then only
    what its own test folders hold is tests."""
    modules = [PurePosixPath(p) for p in paths if p.startswith(directory + "/") and p.endswith(".py")]
    if not any(m.name == "__init__.py" for m in modules):
        return False
    tests = sum(
        any(fnmatch.fnmatchcase(m.name, p) for p in patterns) or not _TEST_DIRECTORIES.isdisjoint(m.parent.parts)
        for m in modules
    )
    return tests * 2 < len(modules) and PurePosixPath(directory).name not in _TEST_DIRECTORIES
