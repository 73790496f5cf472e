"""Source that ends, forks or signals the process of the tests, or writes to descriptors that are not its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from execcritic_scaffold.mark import Mark
from execcritic_scaffold.reading import Reading

_EXITS = ("sys.exit", "builtins.exit", "builtins.quit", "os.abort")
_KILLS = ("os.kill", "os.killpg", "os.abort", "signal.raise_signal", "signal.pthread_kill")
_FORKS = ("os.fork", "os.forkpty", "os.posix_spawn", "os.posix_spawnp")
_RAW = frozenset(
    f"os.{n}" for n in ("write", "writev", "pwrite", "pwritev", "dup", "dup2", "fdopen", "sendfile", "set_blocking")
)
_THREADS = ("threading.Thread", "threading.Timer", "threading.start_new_thread", "multiprocessing.Process")


def marks(node: ast.AST, reading: Reading, at_import: bool) -> Iterator[Mark]:
    """Marks of one node. `at_import`: it runs while the module is imported."""
    line = getattr(node, "lineno", 0)
    if _is_exit(node, reading):
        when = " while it is imported" if at_import else ""
        yield Mark("EXITS_PROCESS", f"source ends the process without clean-up (os._exit){when}", line, True)
    if at_import and _leaves(node, reading):
        yield Mark("EXITS_AT_IMPORT", "source leaves the process while it is imported", line, True)
    if isinstance(node, ast.Import | ast.ImportFrom) and any(n.split(".")[0] == "atexit" for n in imported(node)):
        yield Mark("EXIT_HANDLER", "source registers exit handlers", line, False)
    if isinstance(node, ast.ImportFrom):
        names = [f"os.{a.name}" for a in node.names] if node.module in ("os", "posix") and not node.level else []
    else:
        names = [reading.origin(node)] if isinstance(node, ast.Attribute) else []
    for name in names:
        if name in _KILLS:
            yield Mark("KILLS_PROCESS", f"source ends processes ({name})", line, False)
        elif name in _FORKS or name.startswith("os.exec"):
            yield Mark("REPLACES_PROCESS", f"source copies or replaces the process ({name})", line, False)
        elif name in _RAW:
            yield Mark("RAW_DESCRIPTOR", f"source writes to raw descriptors ({name})", line, False)
    if isinstance(node, ast.Call):
        if reading.origin(node.func) in ("builtins.open", "io.open", "io.FileIO") and _is_number(node.args[:1]):
            yield Mark("RAW_DESCRIPTOR", "source opens a descriptor by its number", line, False)
        if at_import and reading.origin(node.func) in _THREADS:
            yield Mark("THREAD_AT_IMPORT", "source starts a thread or a process while it is imported", line, False)


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The modules an import statement names; none for a relative one."""
    if isinstance(node, ast.Import):
        return [a.name for a in node.names]
    return [] if node.level else [node.module or "", *(f"{node.module}.{a.name}" for a in node.names)]


def _is_exit(node: ast.AST, reading: Reading) -> bool:
    """`_exit` by whatever way it is reached; a method of that name on an own object is none."""
    if isinstance(node, ast.Attribute):
        return node.attr == "_exit" and reading.origin(node).split(".")[0] in ("os", "sys")
    if isinstance(node, ast.ImportFrom):
        return not node.level and any(a.name == "_exit" for a in node.names)
    return isinstance(node, ast.Constant | ast.BinOp) and reading.text(node) == "_exit"


def _leaves(node: ast.AST, reading: Reading) -> bool:
    if isinstance(node, ast.Call):
        return reading.origin(node.func) in _EXITS
    if isinstance(node, ast.Raise) and node.exc is not None:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return reading.origin(raised) in ("builtins.SystemExit", "builtins.KeyboardInterrupt", "builtins.GeneratorExit")
    return False


def _is_number(arguments: list[ast.expr]) -> bool:
    return bool(arguments) and isinstance(arguments[0], ast.Constant) and type(arguments[0].value) is int
