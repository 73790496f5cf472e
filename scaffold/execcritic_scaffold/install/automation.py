"""What tox and nox install before they run the tests; neither is run, noxfile.py is only read."""

from __future__ import annotations

import ast
import re

from execcritic_scaffold.install.requirements import is_test
from execcritic_scaffold.install.sources import Sources, table

_FACTOR = re.compile(r"^(?!-)[\w.,!{}-]+:\s+\S|^(?!-)[\w.,!{}-]+:$")
_SESSION = re.compile(r"(?:unit[-_]?)?tests?(?:ing)?|pytest|py|(?:unit[-_]?)?tests?[-_]\w+")


def tox(sources: Sources) -> tuple[list[str], list[str], str]:
    """(arguments of pip, extras, the file) of tox's `[testenv]`; lines for some of its environments only, and such
    that hold substitutions, are left out."""
    for file, sections in _tox_files(sources):
        env = sections.get("testenv", {})
        arguments: list[str] = []
        for line in env.get("deps", "").splitlines():
            need = re.sub(r"\{(?:toxinidir|tox_root)\}/?", "./", line.split(" #")[0]).strip()
            if not need or need.startswith("#") or "{" in need or ("://" not in need and _FACTOR.match(need)):
                continue
            option = re.match(r"(-r|-c|--requirement|--constraint)[= ]?\s*(\S+)$", need)
            arguments += [option[1], option[2].removeprefix("./")] if option else [need]
        extras = [e.strip() for line in env.get("extras", "").splitlines() for e in line.split(",") if e.strip()]
        extras = [e for e in extras if re.fullmatch(r"[\w.-]+", e)]
        if arguments or extras:
            return arguments, extras, file
    return [], [], ""


def _tox_files(sources: Sources) -> list[tuple[str, dict[str, dict[str, str]]]]:
    found = [("tox.ini", dict(sources.ini("tox.ini"))), ("setup.cfg", dict(sources.ini("setup.cfg")))]
    legacy = table(sources.toml("pyproject.toml"), "tool", "tox").get("legacy_tox_ini")
    if isinstance(legacy, str):
        inner = Sources({"tox"}, lambda path: legacy.encode())
        found.append(("pyproject.toml", dict(inner.ini("tox"))))
    return [(file, {k: dict(v) for k, v in sections.items()}) for file, sections in found]


def nox(sources: Sources) -> list[str]:
    """The arguments of `session.install(…)` in the sessions of noxfile.py that are for tests, as far as they are
    literals; a call with another argument is passed over."""
    for node in sources.python("noxfile.py").body:
        if not isinstance(node, ast.FunctionDef) or not node.args.args:
            continue
        if not (_SESSION.fullmatch(node.name) or is_test(node.name)) or not any(
            "session" in ast.dump(decorator) for decorator in node.decorator_list
        ):
            continue
        found: list[str] = []
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "install":
                words = [a.value if isinstance(a, ast.Constant) else None for a in call.args]
                if all(isinstance(word, str) for word in words):
                    found += [str(word) for word in words]
        if found:
            return found
    return []
