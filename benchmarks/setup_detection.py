"""Which set-up is found for real source distributions, and whether their tests are collected afterwards.

Each distribution is fetched unpacked, made a checkout, opened as `execcritic test --setup auto` would, without a model.
`--quick` takes two that differ in how they are installed; names given on the command line are taken instead.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _realset import commit
from _report import Target, arguments, finish, table

from execcritic import config, environments, places
from execcritic_scaffold import base as bases
from execcritic_scaffold.collecting import collect
from execcritic_scaffold.errors import ExecCriticError

QUICK = ("requests", "itsdangerous")
ALL = (*QUICK, "attrs", "flask", "click", "rich", "httpx", "poetry-core", "packaging", "marshmallow")


def fetch(name: str, folder: Path) -> Path:
    """The checkout of a distribution's newest source archive."""
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "-d", folder, name]
    subprocess.run(argv, check=True, capture_output=True, timeout=300)
    (archive,) = (path for path in folder.iterdir() if path.is_file())
    shutil.unpack_archive(archive, folder / "tree", filter="data")
    (top,) = (folder / "tree").iterdir()
    commit(top)
    return top


def measure(name: str) -> dict[str, Any]:
    """What was found for one distribution, and what came of it."""
    settings = config.load(environ={})
    started = time.monotonic()
    found: dict[str, Any] = {"name": name, "plan": "-", "tests": None, "broken": None, "failure": ""}

    def tell(kind: str, data: Mapping[str, Any]) -> None:
        if kind == "setup.found":
            found["plan"] = "; ".join(step["reason"] for step in data["steps"])
            found["commands"] = [step["command"] for step in data["steps"]]

    with tempfile.TemporaryDirectory(prefix="setup-") as scratch:
        try:
            base = bases.snapshot(fetch(name, Path(scratch).resolve()), places.store())
            where = places.Place("bubblewrap", setup=places.AUTO)
            with places.sandbox(where) as engine:
                site, _ = environments.opened(base, engine, where, settings, cache=places.cache(), tell=tell)
                seen = collect(site, settings.qualify, settings.environment.check_seconds)
            if seen is not None:
                found |= {"tests": seen.tests, "broken": len(seen.broken), "failure": seen.problem or ""}
        except (ExecCriticError, subprocess.SubprocessError) as error:
            found["failure"] = " ".join(str(error).split())[:300]
    return {**found, "seconds": round(time.monotonic() - started, 1)}


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="distributions; a fixed list if there are none")
    options = parser.parse_args()
    rows = [measure(name) for name in options.names or (QUICK if options.quick else ALL)]
    columns = ("name", "plan", "tests", "broken", "failure")
    table(columns, ([row[column] for column in columns] for row in rows))
    good = sum(bool(row["tests"]) and not row["broken"] for row in rows)
    target = Target("share whose whole suite is collected", good / len(rows), 0.8, at_least=True)
    return finish(options.json, {"distributions": rows}, [target])


if __name__ == "__main__":
    sys.exit(main())
