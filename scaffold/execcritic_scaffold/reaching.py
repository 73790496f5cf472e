"""Source that reaches into the runner, the interpreter, or modules that are not its own."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from execcritic_scaffold.leaving import imported
from execcritic_scaffold.mark import Mark
from execcritic_scaffold.reading import ANY_MODULE, IMPORTING, MODULES, Reading
from execcritic_scaffold.syntax import Function

_RUNNERS = frozenset(("pytest", "_pytest", "pluggy"))
_INTERNALS = frozenset(("ctypes", "_ctypes", "gc", "marshal"))
_COMPUTED = ("builtins.exec", "builtins.eval", "builtins.compile", "marshal.loads", "types.FunctionType")
_HOOKS = ("sys.meta_path", "sys.path_hooks", "sys.path_importer_cache")
_WRITES = tuple(f".__dict__.{n}" for n in ("update", "setdefault", "pop", "clear", "__setitem__", "__delitem__"))
_HELD = re.compile(r"(?:^|\.)(?:f_globals|f_locals|f_builtins|__globals__)(?!\w)|^gc\.get_(?:objects|refer\w+)\(")
"""The names of other code, and objects found without a name for them."""
_CHANGING = frozenset(
    """update setdefault pop popitem clear append extend insert remove sort reverse add discard __setitem__ __delitem__
    __setattr__ __delattr__""".split()
)
_LOADERS = re.compile(
    r"(?:runpy\.run_|code\.(?:Interactive|compile_)|codeop\.|timeit\.(?:timeit|repeat|Timer)|zipimport\."
    r"|importlib\.util\.(?:spec_from|module_from)|importlib\.machinery\.\w+Loader|site\.add|pickle\.loads?$"
    r"|sys\.path\.(?:insert|append|extend)$|(?:cProfile|profile|pdb)\.run)"
)
# What programs set as a matter of course: worth a look, not forbidden.
_USUAL = (
    *(f"sys.{n}" for n in ("stdout", "stderr", "stdin", "path", "excepthook", "argv", "displayhook")),
    *("os.environ", "warnings.", "logging.", "signal.", "locale.", "ctypes.", "builtins._"),
)


def marks(node: ast.AST, reading: Reading, own: frozenset[str], at_import: bool) -> Iterator[Mark]:
    """Marks of one node. `own`: the repository's importable names."""
    line = getattr(node, "lineno", 0)
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from _of_modules(imported(node), line)
        for alias in node.names:
            yield from _hook(alias.asname or alias.name, line)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield from _hook(node.id, line)
    elif isinstance(node, ast.Call):
        yield from _of_call(node, reading, own)
    elif isinstance(node, Function):
        yield from _of_hook(node, reading)
    elif isinstance(node, ast.Attribute):
        if node.attr == "f_trace" or (node.attr == "__code__" and isinstance(node.ctx, ast.Store)):
            yield Mark("REWRITES_CODE", f"source rewrites running code ({node.attr})", line, True)
        elif reading.origin(node) in _HOOKS:
            yield Mark("IMPORT_HOOK", f"source changes how modules are found ({node.attr})", line, True)
        elif not isinstance(node.ctx, ast.Load) and _HELD.search(reading.origin(node.value)):
            yield _rewrites(line)
        elif not isinstance(node.ctx, ast.Load):
            yield from _set(reading.origin(node.value), node.attr, line, own)
    elif isinstance(node, ast.Subscript):
        base = reading.origin(node.value)
        if not isinstance(node.ctx, ast.Load) and (_HELD.search(base) or base.startswith(ANY_MODULE)):
            yield _rewrites(line)
        elif base == MODULES and not isinstance(node.ctx, ast.Load):
            name = (reading.text(node.slice) or "").split(".")[0]
            if name in sys.stdlib_module_names and name not in own:
                yield Mark("REPLACES_FOREIGN", f"source puts something in the place of {name}", line, True)
        if base == MODULES and not _is_own_name(node.slice):
            yield from _of_modules([reading.text(node.slice) or ""], line)
            yield Mark("READS_MODULES", "source looks a loaded module up", line, False)
        elif base.endswith(".__dict__") and isinstance(node.ctx, ast.Store):
            yield from _set(base.removesuffix(".__dict__"), reading.text(node.slice) or "?", line, own)
    if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension) and reading.origin(node.iter) == MODULES:
        yield Mark("READS_MODULES", "source goes through the loaded modules", node.target.lineno, False)


def _of_modules(names: list[str], line: int) -> Iterator[Mark]:
    for name in dict.fromkeys(n.split(".")[0] for n in names):
        if name in _RUNNERS:
            yield Mark("IMPORTS_RUNNER", f"source imports the test runner ({name})", line, True)
        elif name == "__main__":
            yield Mark("REACHES_MAIN", "source reaches into the program that runs it (__main__)", line, True)
        elif name in _INTERNALS:
            yield Mark("INTERPRETER_INTERNALS", f"source reaches into the interpreter ({name})", line, False)


def _of_call(node: ast.Call, reading: Reading, own: frozenset[str]) -> Iterator[Mark]:
    func, line = reading.origin(node.func), node.lineno
    first = node.args[0] if node.args else None
    if _LOADERS.match(func):
        yield Mark("LOADS_CODE", f"source runs code from elsewhere ({func.rsplit('.', 1)[-1]})", line, False)
    owner, _, method = func.rpartition(".")
    sets = func in ("builtins.setattr", "builtins.delattr", "operator.setitem", "operator.delitem")
    changed = reading.origin(first) if sets and first is not None else owner if method in _CHANGING else ""
    if _HELD.search(changed):
        yield _rewrites(line)
    if func.startswith("ctypes.") and any(_is_address(a, reading) for a in node.args):
        yield Mark("WRITES_MEMORY", "source reaches the memory of an object by its address", line, True)
    if func in IMPORTING and first is not None:
        if (name := reading.text(first)) is not None:
            yield from _of_modules([name], line)
        else:
            yield Mark("COMPUTED_IMPORT", "source imports a module by a computed name", line, False)
    elif func in _COMPUTED:
        yield Mark("COMPUTED_CODE", f"source runs code that it makes ({func.rsplit('.', 1)[-1]})", line, False)
    elif func == "builtins.type" and len(node.args) == 3:
        yield Mark("COMPUTED_CLASS", "source makes a class by a call of type", line, False)
    elif func in ("builtins.setattr", "builtins.object.__setattr__", "builtins.type.__setattr__") and first is not None:
        name = reading.text(node.args[1]) if len(node.args) > 1 else None
        if name in ("__code__", "f_trace"):
            yield Mark("REWRITES_CODE", f"source rewrites running code ({name})", line, True)
        owner = reading.origin(first)
        yield from _set(owner, name or "?", line, own)
        if name is None and not owner and not reading.is_local(first):
            yield Mark("COMPUTED_NAME", "source sets an attribute by a computed name", line, False)
    elif func.endswith(_WRITES):
        yield from _set(func.rsplit(".__dict__.", 1)[0], "?", line, own)
    elif func.removeprefix("unittest.").startswith("mock.patch"):
        yield Mark("PATCHES", "source replaces objects while it runs (mock.patch)", line, False)
    elif func.startswith(f"{MODULES}."):
        if first is not None and (name := reading.text(first)) is not None:
            yield from _of_modules([name], line)
        if first is None or not _is_own_name(first):
            yield Mark("READS_MODULES", "source looks at the loaded modules", line, False)


def _rewrites(line: int) -> Mark:
    return Mark("REWRITES_CALLER", "source changes names or objects of code that is not its own", line, True)


def _is_address(node: ast.expr, reading: Reading) -> bool:
    return any(isinstance(n, ast.expr) and reading.origin(n).startswith("builtins.id(") for n in ast.walk(node))


def _of_hook(node: Function, reading: Reading) -> Iterator[Mark]:
    """Hooks and fixtures that a runner would pick up from a plugin of the repository."""
    yield from _hook(node.name, node.lineno)
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
        if name == "hookimpl":
            yield Mark("RUNNER_HOOK", f"source defines a hook of the runner ({node.name})", node.lineno, True)
        elif name == "fixture" and any(k.arg == "autouse" for k in keywords):
            yield Mark("RUNNER_HOOK", f"source defines a fixture that every test uses ({node.name})", node.lineno, True)


def _hook(name: str, line: int) -> Iterator[Mark]:
    if name.startswith("pytest_"):
        yield Mark("RUNNER_HOOK", f"source defines what the runner looks for in plugins ({name})", line, True)


def _set(owner: str, attribute: str, line: int, own: frozenset[str]) -> Iterator[Mark]:
    """An attribute of what is imported from elsewhere is set."""
    root = owner.split(".")[0]
    if not root or root in own or "()" in owner or ("[]" in owner and not owner.startswith(ANY_MODULE)):
        return
    full = f"{owner}.{attribute}"
    usual = any(full == u or full.startswith(u if u.endswith(".") else f"{u}.") for u in _USUAL)
    last = owner.rsplit(".", 1)[-1]
    certain = root in sys.stdlib_module_names or root in _RUNNERS or "." not in owner or last[:1].isupper()
    yield Mark("REPLACES_FOREIGN", f"source sets {full}, which is not its own", line, certain and not usual)


def _is_own_name(key: ast.expr) -> bool:
    """`sys.modules[__name__]` and `sys.modules[cls.__module__]`: a module looking at itself."""
    return (isinstance(key, ast.Name) and key.id == "__name__") or (
        isinstance(key, ast.Attribute) and key.attr in ("__module__", "__name__", "__package__")
    )
