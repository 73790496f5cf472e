"""Source screening (HARNESS 3.5): what a fix has no reason to bring into source under test.

No scheme inside the tests' own process is absolute, so the kinds of patch that could fool it are looked for in the
patch itself. Read with `ast`, compared with Base: only what a patch adds counts. Hard kinds are FORBIDDEN, soft ones
are findings. Where the repository is the runner, everything is a finding.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.files import Changes
from execcritic_scaffold.outcome import Finding
from execcritic_scaffold.site import Site
from execcritic_scaffold.syntax import dotted, parse

_RUNNERS = frozenset(("pytest", "_pytest", "pluggy"))
_RUNNER_NAMES = frozenset(("pytest", "_pytest", "py.test", "unittest", "nose"))
_FRAMES = frozenset(
    ("_getframe", "_current_frames", "currentframe", "stack", "getouterframes", "settrace", "setprofile")
)
_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__")


@dataclass(frozen=True)
class Screened:
    """What was found, hard and soft."""

    hard: tuple[Finding, ...]
    soft: tuple[Finding, ...]


@dataclass(frozen=True)
class _Mark:
    code: str
    text: str
    line: int
    hard: bool


def screen(site: Site, bundle: FrozenBundle, changes: Changes) -> Screened:
    """Findings for every changed Python file of source."""
    literals = _test_literals(bundle)
    hard: list[Finding] = []
    soft: list[Finding] = []
    for path, file in sorted(changes.items()):
        if file is None or not path.endswith(".py"):
            continue
        old = site.read(path) or b""
        for mark in _added(old, file.data):
            target = hard if mark.hard and not site.runner_in_tree else soft
            target.append(Finding(mark.code, mark.text, path, mark.line))
        for line, literal in _special_cases(old, file.data, literals):
            text = f"source compares with {literal!r}, a value of the frozen test"
            soft.append(Finding("REPEATS_TEST_INPUT", text, path, line))
    return Screened(tuple(hard), tuple(soft))


def _added(old: bytes, new: bytes) -> Iterator[_Mark]:
    """Marks the new text has more often than the old one."""
    had = Counter((m.code, m.text) for m in _marks(old))
    for mark in _marks(new):
        if had[mark.code, mark.text] > 0:
            had[mark.code, mark.text] -= 1
        else:
            yield mark


def _marks(text: bytes) -> list[_Mark]:
    module = parse(text)
    if module is None:
        return []
    marks = [m for node in ast.walk(module) for m in _of_node(node)]
    marks += [
        _Mark("EXITS_AT_IMPORT", "source leaves the process while it is imported", n.lineno, True)
        for n in _import_time(module)
        if isinstance(n, ast.Call) and dotted(n.func) in ("sys.exit", "exit", "quit")
    ]
    return marks


def _of_node(node: ast.AST) -> Iterator[_Mark]:
    line = getattr(node, "lineno", 0)
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        level = node.level if isinstance(node, ast.ImportFrom) else 0
        for name in names:
            if not level and name.split(".")[0] in _RUNNERS:
                yield _Mark("IMPORTS_RUNNER", f"source imports the test runner ({name})", line, True)
            elif name == "atexit":
                yield _Mark("EXIT_HANDLER", "source registers exit handlers", line, False)
            elif name in ("ctypes", "gc"):
                yield _Mark("INTERPRETER_INTERNALS", f"source reaches into the interpreter ({name})", line, False)
    elif isinstance(node, ast.Attribute):
        name = dotted(node)
        if node.attr == "_exit" and name.startswith("os."):
            yield _Mark("EXITS_PROCESS", "source ends the process without clean-up (os._exit)", line, True)
        elif name in ("os.kill", "os.killpg", "os.abort"):
            yield _Mark("KILLS_PROCESS", f"source ends processes ({name})", line, False)
        elif node.attr in _FRAMES and name.split(".")[0] in ("sys", "inspect", "threading"):
            yield _Mark("INSPECTS_STACK", f"source looks at who calls it ({name})", line, False)
        elif name in ("os.dup2", "os.write", "os.fdopen"):
            yield _Mark("RAW_DESCRIPTOR", f"source writes to raw descriptors ({name})", line, False)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        if node.value == "PYTEST_CURRENT_TEST":
            yield _Mark("DETECTS_TESTS", "source asks whether a test is running (PYTEST_CURRENT_TEST)", line, True)
    elif isinstance(node, ast.Compare) and _asks_for_runner(node):
        yield _Mark("DETECTS_TESTS", "source asks whether a test runner is loaded", line, True)
    elif isinstance(node, ast.FunctionDef) and node.name in _COMPARISONS and _always_true(node):
        yield _Mark("ALWAYS_EQUAL", f"{node.name} answers True whatever it is compared with", node.lineno, True)


def _asks_for_runner(node: ast.Compare) -> bool:
    """`"pytest" in sys.modules`, `"pytest" in sys.argv[0]`, `sys.modules.get(…)` compared with something."""
    parts = [node.left, *node.comparators]
    named = any(
        isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value in _RUNNER_NAMES
        for part in parts
        for n in ast.walk(part)
    )
    where = {dotted(n) for part in parts for n in ast.walk(part) if isinstance(n, ast.Attribute)}
    return named and bool(where & {"sys.modules", "sys.argv", "sys.orig_argv", "os.environ"})


def _always_true(node: ast.FunctionDef) -> bool:
    body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return (
        len(body) == 1
        and isinstance(body[0], ast.Return)
        and isinstance(body[0].value, ast.Constant)
        and body[0].value.value is True
    )


def _import_time(module: ast.Module) -> Iterator[ast.AST]:
    """Nodes that run while the module is imported: everything but function bodies and the `__main__` block."""
    stack: list[ast.AST] = list(module.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "__main__" in ast.dump(node.test):
            continue
        yield node
        stack += list(ast.iter_child_nodes(node))


def _special_cases(old: bytes, new: bytes, literals: set[str]) -> Iterator[tuple[int, object]]:
    """Comparisons in the new text, not in the old one, with a distinctive literal of the frozen test."""
    had = {repr(v) for _, v in _compared(old)}
    for line, value in _compared(new):
        if repr(value) in literals and repr(value) not in had:
            yield line, value


def _compared(text: bytes) -> Iterator[tuple[int, object]]:
    """Distinctive literals that code branches on: compared, matched, or looked up as keys; with their lines."""
    module = parse(text)
    for node in ast.walk(module) if module else ():
        parts: list[ast.expr | None] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        elif isinstance(node, ast.Dict):
            parts = list(node.keys)
        for inner in (n for part in parts if part is not None for n in ast.walk(part)):
            if isinstance(inner, ast.Constant) and _distinctive(inner.value):
                yield inner.lineno, inner.value


def _distinctive(value: object) -> bool:
    """Worth noticing when it turns up twice: not 0, 1, True, a one-letter string."""
    if isinstance(value, str | bytes):
        return len(value) >= 3
    return isinstance(value, int | float | complex) and not isinstance(value, bool) and abs(value) > 2


def _test_literals(bundle: FrozenBundle) -> set[str]:
    found: set[str] = set()
    for path, file in bundle.changes.items():
        module = parse(file.data) if file is not None and path.endswith(".py") else None
        for node in ast.walk(module) if module else ():
            if isinstance(node, ast.Constant) and _distinctive(node.value):
                found.add(repr(node.value))
    return found
