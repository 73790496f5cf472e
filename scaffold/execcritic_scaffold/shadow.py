"""New modules that would be imported in place of others (HARNESS 3.1).

A name counts as shadowing where a new file or folder becomes importable right below an import root (each source root,
the root of the repository, and the test folders the runner puts on the path) and the standard library or an
installed distribution has that name: a root `pytest.py` shadows, `flask/json/` does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from execcritic_scaffold.files import Entry
from execcritic_scaffold.site import Site

_IMPORTABLE = (".py", ".pyc", ".so", ".pyd", ".zip", ".egg")


def shadows(site: Site, changed: Iterable[str], before: Mapping[str, Entry], test_files: Iterable[str]) -> list[str]:
    """Paths among `changed` that make such a name importable where Base does not have it."""
    known = set(site.description["standard"]) | set(site.description["installed"]) | {"pytest", "_pytest", "unittest"}
    roots = {"" if r == "." else r + "/" for r in site.source_roots} | {""}
    roots |= {f.rsplit("/", 1)[0] + "/" for f in test_files if "/" in f}
    found = []
    for path in changed:
        for root in roots:
            if not path.startswith(root):
                continue
            head, _, rest = path[len(root) :].partition("/")
            name = head.split(".")[0]
            importable = head.endswith(_IMPORTABLE) if not rest else rest.endswith(_IMPORTABLE)
            if importable and name in known and not _had(before, root, name):
                found.append(path)
                break
    return found


def _had(before: Mapping[str, Entry], root: str, name: str) -> bool:
    """Whether Base already has a package or module of that name below the root."""
    package = f"{root}{name}/"
    return f"{root}{name}.py" in before or any(p.startswith(package) and p.endswith(".py") for p in before)
