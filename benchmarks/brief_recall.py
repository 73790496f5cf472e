"""Does the repository brief name the right files? Every real bug of ../shared/realset: its issue against its Base.

For each instance the brief is written as `resolve` writes it, from Base in a git store, without a model. Counted is how
often the source files of the reference patch are among the first 1, 3, 5 and 10 that it lists, and the test files of
the official test patch among the existing tests it names (those patches that only add new test files are left out).
The seconds are for the whole brief: reading Base, ranking, writing. They are of processor time, git's included, so that
company on the machine counts for little; the work is done in one thread. Wall time is in the --json file.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
import time
from typing import Any

from _realset import Instance, Unavailable, checkout, instances
from _report import Target, arguments, finish, table

from execcritic import places
from execcritic.config import load
from execcritic_roles import brief
from execcritic_scaffold import layout
from execcritic_scaffold.base import snapshot
from execcritic_scaffold.runners import registry
from execcritic_scaffold.site import configuration

QUICK = ("psf__requests-6028", "pallets__flask-5063", "pytest-dev__pytest-10081", "django__django-14915")
FIRST = (1, 3, 5, 10)
SECONDS = 2.0
"""Limit for Django's tree."""
FOUND = 0.8
"""A file of the reference patch among all that are listed: below what is measured, so that a fault shows."""


def measure(instance: Instance, tokens: int) -> dict[str, Any]:
    """Places (from 1, None: not named) of the files of both patches in the brief, and what the brief took."""
    base = snapshot(checkout(instance).repo, places.store())
    roots = (instance["python_path"],)
    begun, spent = time.monotonic(), processor()
    files = configuration(base, base.store.read_tree(base.tree))
    runner = registry.choose(files, instance["runner"])
    tops = layout.top_level(files, roots)
    tree = brief.read_base(base.store, base.tree, runner.discovery, roots, tops)
    written = brief.write(tree, instance["problem_statement"], tokens)
    seconds, wall = processor() - spent, time.monotonic() - begun
    return {
        "repository": instance["repo"],
        "files": len(tree.sources) + len(tree.tests),
        "sources": [place(written.sources, path) for path in touched(instance["gold_patch"])],
        "tests": [place(written.tests, p) for p in touched(instance["test_patch"]) if p in tree.tests],
        "bytes": len(written.text.encode()),
        "seconds": round(seconds, 3),
        "wall": round(wall, 3),
    }


def processor() -> float:
    """Seconds of processor time so far, of this process and of children that have ended."""
    return sum(os.times()[:4])


def touched(patch: str) -> list[str]:
    """The files a patch changes."""
    return re.findall(r"^diff --git a/(\S+)", patch, re.MULTILINE)


def place(listed: tuple[str, ...], path: str) -> int | None:
    return listed.index(path) + 1 if path in listed else None


def shares(found: list[list[int | None]], every: bool) -> dict[str, float]:
    """Share of the instances of which one of the files (or every one) is among the first so many."""
    ask = all if every else any
    count = {n: sum(ask(p is not None and p <= n for p in places) for places in found) for n in FIRST}
    return {str(n): count[n] / len(found) if found else 0.0 for n in FIRST}


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("ids", nargs="*", metavar="ID", help="instances (default: all)")
    options = parser.parse_args()
    tokens = load().brief.tokens
    results: dict[str, dict[str, Any]] = {}
    for name in options.ids or (QUICK if options.quick else instances()):
        try:
            results[name] = measure(instances()[name], tokens)
        except Unavailable as reason:
            print(f"{name} is left out: {reason}", file=sys.stderr)
            continue
        print(name, results[name], file=sys.stderr, flush=True)
    sources = [result["sources"] for result in results.values()]
    tests = [result["tests"] for result in results.values() if result["tests"]]
    rows = {
        "a source file of the reference patch": (len(sources), shares(sources, every=False)),
        "all its source files": (len(sources), shares(sources, every=True)),
        "a file of the official test patch": (len(tests), shares(tests, every=False)),
    }
    table(
        ("among the first", "bugs", *map(str, FIRST)),
        ((what, of, *(f"{share[str(n)]:.0%}" for n in FIRST)) for what, (of, share) in rows.items()),
    )
    by_repository: dict[str, list[dict[str, Any]]] = {}
    for result in results.values():
        by_repository.setdefault(result["repository"], []).append(result)
    table(
        ("repository", "bugs", "Python files", "seconds, median", "seconds, most"),
        (
            (name, len(some), max(r["files"] for r in some), *_seconds(some)) for name, some in by_repository.items()
        ),
    )  # fmt: skip
    django = by_repository.get("django/django", [])
    targets = [
        Target("brief for Django, seconds, median", _seconds(django)[0], SECONDS),
        Target("a source file of the reference patch is listed", rows["a source file of the reference patch"][1]["10"],
               FOUND, at_least=True),
    ]  # fmt: skip
    return finish(options.json, {"results": results, "shares": {k: v[1] for k, v in rows.items()}}, targets)


def _seconds(results: list[dict[str, Any]]) -> tuple[float | None, float | None]:
    seconds = [result["seconds"] for result in results]
    return (statistics.median(seconds), max(seconds)) if seconds else (None, None)


if __name__ == "__main__":
    sys.exit(main())
