"""New modules that would be imported in place of others (HARNESS 3.1).

A name counts as shadowing where a new file or folder becomes importable right below a folder of the import path and
somebody else has that name already: the standard library, an installed distribution, another root of the repository,
or the frozen test itself. A root `pytest.py` shadows, `flask/json/` does not.
"""

from __future__ import annotations

from collections.abc import Iterable

from execcritic_scaffold.layout import IMPORTABLE
from execcritic_scaffold.site import Site

_ALWAYS = frozenset(("pytest", "_pytest", "unittest", "conftest", "sitecustomize", "usercustomize"))


def shadows(site: Site, changed: Iterable[str], test_files: Iterable[str]) -> list[str]:
    """Paths among `changed` that make such a name importable where Base does not have it."""
    tests = list(test_files)
    known = set(site.description["standard"]) | set(site.description["installed"]) | _ALWAYS
    known |= {t.rsplit("/", 1)[-1].removesuffix(".py") for t in tests}
    roots = _roots(site, tests)
    here = {root: site.importable.get(root, set()) for root in roots}
    found = []
    for path in changed:
        for root in roots:
            if not path.startswith(root):
                continue
            head, _, rest = path[len(root) :].partition("/")
            name = head.split(".")[0]
            importable = head.endswith(IMPORTABLE) if not rest else rest.endswith(IMPORTABLE)
            elsewhere = any(name in names for other, names in here.items() if other != root)
            if importable and (name in known or elsewhere) and name not in here[root] and path not in tests:
                found.append(path)
                break
    return found


def _roots(site: Site, tests: Iterable[str]) -> set[str]:
    """Every folder on the import path as a prefix: source roots, what the runner adds, and for each test file its
    folder or, where that is a package, the first folder above that is none."""
    roots = {_prefix(r) for r in (*site.source_roots, *site.runner.import_roots, ".")}
    for test in tests:
        folder = test.rpartition("/")[0]
        roots.add(_prefix(folder))
        while folder and f"{folder}/__init__.py" in site.entries:
            folder = folder.rpartition("/")[0]
        roots.add(_prefix(folder))
    return roots


def _prefix(folder: str) -> str:
    folder = folder.strip("/")
    return "" if folder in ("", ".") else folder + "/"
