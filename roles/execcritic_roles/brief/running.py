"""How one test is run by hand with each of our runners, and how its id is written: what an agent types."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

_COMMANDS = {
    "pytest": "{python} -m pytest -q NODE",
    "unittest": "{python} -m unittest NODE",
    "django": "{python} tests/runtests.py --settings=test_sqlite --parallel=1 NODE",
    "sympy": "{python} -c \"import sympy; sympy.test('FILE', kw='FUNCTION')\"",
}


def command(runner: str, python: str, roots: Iterable[str]) -> str:
    """The command line, from the top of the checkout, with the import roots that it needs; "" for a runner that is
    none of ours. `roots` are relative to the checkout, "." for its top."""
    if runner not in _COMMANDS:
        return ""
    needed = [root for root in roots if root != "."]
    if runner == "django":  # runtests.py puts its own folder on the path, not the one above
        needed.append(".")
    prefix = f"PYTHONPATH={shlex.quote(':'.join(needed))} " if needed else ""
    return prefix + _COMMANDS[runner].format(python=shlex.quote(python))


def node_id(runner: str, path: str, names: Sequence[str]) -> str:
    """The id of a test in the runner's form: `names` are its classes and function."""
    if runner not in ("django", "unittest"):
        return "::".join([path, *names])
    module = path.removeprefix("tests/") if runner == "django" else path
    return ".".join([module.removesuffix(".py").replace("/", "."), *names])
