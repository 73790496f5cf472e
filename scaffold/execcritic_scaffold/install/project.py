"""The project itself: whether it is installed, what it needs to run, its extras and groups of dependencies.

From pyproject.toml (PEP 621, PEP 735, poetry, pdm, hatch), setup.cfg, and the literals of setup.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from execcritic_scaffold.install.sources import Sources, table, texts

_GROUPS = 200
"""Groups followed from one; real ones include a handful."""


@dataclass(frozen=True)
class Project:
    """`name` None: nothing to install. Extras are installed with the project, groups beside it; both by name, with
    requirements as written. `poetry`: its groups are poetry's, which only poetry installs."""

    name: str | None
    file: str
    dependencies: tuple[str, ...]
    extras: Mapping[str, tuple[str, ...]]
    groups: Mapping[str, tuple[str, ...]]
    python: tuple[str, str] | None
    """What the project says of Python versions, and the file that says it."""
    poetry: bool = False


def read(sources: Sources) -> Project:
    """What the files say; where several say something, pyproject.toml before setup.cfg before setup.py."""
    toml = sources.toml("pyproject.toml")
    if table(toml, "tool", "poetry") and not table(toml, "project").get("dependencies"):
        return _poetry(toml)
    project = table(toml, "project")
    cfg = sources.ini("setup.cfg")
    options, setup = cfg.get("options", {}), _setup_py(sources)
    extras = {str(k): tuple(texts(v)) for k, v in table(project, "optional-dependencies").items()}
    extras |= {k: _lines(v) for k, v in cfg.get("options.extras_require", {}).items() if k not in extras}
    extras |= {k: v for k, v in setup.extras.items() if k not in extras}
    needs = tuple(texts(project.get("dependencies"))) or _lines(options.get("install_requires", "")) or setup.needs
    said = [
        (project.get("requires-python"), "pyproject.toml"),
        (options.get("python_requires"), "setup.cfg"),
        (setup.python, "setup.py"),
    ]
    python = next(((str(text), file) for text, file in said if text), None)
    # Without a build system, [project] describes an application: pip would guess one, and fail over two folders.
    built = "build-system" in toml or "setup.py" in sources.paths or "metadata" in cfg or "options" in cfg
    name = str(project.get("name") or cfg.get("metadata", {}).get("name") or setup.name or "project")
    file = "pyproject.toml" if project or "build-system" in toml else "setup.cfg" if options else "setup.py"
    return Project(name if built else None, file, needs, extras, _groups(toml), python)


def _poetry(toml: Mapping[str, Any]) -> Project:
    poetry = table(toml, "tool", "poetry")
    needs = table(poetry, "dependencies")
    groups = {name: _names(table(group, "dependencies")) for name, group in table(poetry, "group").items()}
    if old := table(poetry, "dev-dependencies"):
        groups.setdefault("dev", _names(old))
    extras = {str(k): tuple(texts(v)) for k, v in table(poetry, "extras").items()}
    wanted = needs.get("python") or table(toml, "project").get("requires-python")
    python = (caret(wanted), "pyproject.toml") if isinstance(wanted, str) else None
    packaged = poetry.get("package-mode", True) is not False
    name = str(poetry.get("name") or table(toml, "project").get("name") or "project") if packaged else None
    return Project(name, "pyproject.toml", _names(needs), extras, groups, python, poetry=True)


def _names(needs: Mapping[str, Any]) -> tuple[str, ...]:
    """poetry's constraints are its own: only the names are told, of those that are always installed."""
    return tuple(
        name
        for name, value in needs.items()
        if name != "python" and not (isinstance(value, Mapping) and (value.get("optional") or "markers" in value))
    )


def caret(text: str) -> str:
    """poetry's `^3.8` as `>=3.8,<4`; what else poetry writes is left as it is."""
    return re.sub(r"\^\s*(\d+)((?:\.\d+)*)", lambda m: f">={m[1]}{m[2]},<{int(m[1]) + 1}", text)


def _groups(toml: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    declared = table(toml, "dependency-groups")
    groups = {str(name): tuple(_group(declared, str(name))) for name in declared}
    for name, needs in table(toml, "tool", "pdm", "dev-dependencies").items():
        # An entry `-e file:///…` is the project's own folder or another's: neither is a requirement.
        groups.setdefault(str(name), tuple(need for need in texts(needs) if not need.startswith("-")))
    for name, env in table(toml, "tool", "hatch", "envs").items():
        known = {"hatch-test": "test"}.get(str(name), str(name))
        needs = [*texts(table(env).get("dependencies")), *texts(table(env).get("extra-dependencies"))]
        groups.setdefault("dev" if known == "default" else known, tuple(needs))
    return {name: needs for name, needs in groups.items() if needs}


def _group(declared: Mapping[str, Any], name: str, seen: set[str] | None = None) -> list[str]:
    """The requirements of a group and of those it includes, each group once."""
    seen = set() if seen is None else seen
    found: list[str] = []
    items = declared.get(name)
    if name in seen or len(seen) == _GROUPS or not isinstance(items, list):
        return found
    seen.add(name)
    for item in items:
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, Mapping) and isinstance(other := item.get("include-group"), str):
            found += _group(declared, other, seen)
    return list(dict.fromkeys(found))


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#"))


@dataclass(frozen=True)
class _Setup:
    name: str | None = None
    needs: tuple[str, ...] = ()
    extras: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    python: str | None = None


def _setup_py(sources: Sources) -> _Setup:
    """The literal arguments of `setup(…)`, given there or through names that are assigned once on the top level."""
    tree = sources.python("setup.py")
    names = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }

    def value(node: ast.expr | None) -> Any:
        node = names.get(node.id, node) if isinstance(node, ast.Name) else node
        if isinstance(node, ast.Dict):
            keys = [k.value if isinstance(k, ast.Constant) else None for k in node.keys]
            return {k: value(v) for k, v in zip(keys, node.values, strict=True) if isinstance(k, str)}
        try:
            return ast.literal_eval(node) if node is not None else None
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None

    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        if (getattr(called, "id", None) or getattr(called, "attr", None)) == "setup":
            assert isinstance(node, ast.Call)
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            extras = {k: tuple(texts(v)) for k, v in table(value(given.get("extras_require"))).items()}
            name, python = value(given.get("name")), value(given.get("python_requires"))
            return _Setup(
                name if isinstance(name, str) else None,
                tuple(texts(value(given.get("install_requires")))),
                extras,
                python if isinstance(python, str) else None,
            )
    return _Setup()
