"""Source that asks whether it is being tested: the runner, its variables, the caller, the tests' files, the date."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from execcritic_scaffold.mark import Mark
from execcritic_scaffold.reading import Reading

_RUNNER = re.compile(r"(?<![\w])_?py\.?test(?![\w-])|(?<!\w)(?:unittest|nose2?)(?!\w)|PYTEST_")
_VARIABLES = re.compile(r"PYTEST_(CURRENT_TEST|VERSION)")
_PLACES = re.compile(r"(?:^|/)(?:tests?/|conftest\.py)|(?<!\w)test_[\w*]*\.py|_test\.py|^/testbed")
_SOURCES = ("sys.modules", "sys.argv", "sys.orig_argv", "os.environ", "os.getenv")
_FRAMES = frozenset(("f_back", "tb_frame", "_getframe", "_getframemodulename", "_current_frames"))
_STACKS = frozenset(
    """inspect.stack inspect.currentframe inspect.getouterframes inspect.trace traceback.format_stack
    traceback.extract_stack traceback.print_stack traceback.walk_stack""".split()
)
_TRACES = frozenset(
    """sys.settrace sys.setprofile threading.settrace threading.setprofile threading.settrace_all_threads
    threading.setprofile_all_threads sys.monitoring""".split()
)
_CLOCK = frozenset(
    """time.time() time.time_ns() time.localtime() time.gmtime() datetime.datetime.now() datetime.datetime.utcnow()
    datetime.datetime.today() datetime.date.today()""".split()
)


def marks(node: ast.AST, reading: Reading) -> Iterator[Mark]:
    """Marks of one node."""
    line = getattr(node, "lineno", 0)
    if isinstance(node, ast.Constant | ast.BinOp | ast.JoinedStr):
        text = reading.text(node) or ""
        if _VARIABLES.search(text) and len(text) < 40:
            yield Mark("DETECTS_TESTS", f"source asks whether a test is running ({text})", line, True)
        if len(text) < 200 and _PLACES.search(text) and not text.count("\n"):
            yield Mark("NAMES_TESTS", f"source names where tests lie ({text[:60]})", line, False)
    if isinstance(node, ast.Attribute) and (node.attr in _FRAMES or reading.origin(node) in _STACKS):
        yield Mark("INSPECTS_STACK", f"source looks at who calls it ({node.attr})", line, False)
    if isinstance(node, ast.Attribute) and reading.origin(node) in _TRACES:
        yield Mark("TRACES", f"source follows other code as it runs ({node.attr})", line, True)
    if isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if f"{node.module}.{alias.name}" in _TRACES:
                yield Mark("TRACES", f"source follows other code as it runs ({alias.name})", line, True)
            if alias.name in _FRAMES or f"{node.module}.{alias.name}" in _STACKS:
                yield Mark("INSPECTS_STACK", f"source looks at who calls it ({alias.name})", line, False)
    if isinstance(node, ast.Compare):
        origins = [reading.origin(n) for n in ast.walk(node) if isinstance(n, ast.expr)]
        texts = [reading.text(n) or "" for n in ast.walk(node) if isinstance(n, ast.expr)]
        yield from _asked(origins, texts, line)
        if any(o in _CLOCK for o in origins):
            yield Mark("ASKS_THE_DATE", "source compares with the clock", line, False)
    elif isinstance(node, ast.Call):
        yield from _asked([reading.origin(node.func)], [reading.text(a) or "" for a in node.args], line)
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield from _asked([reading.origin(node.value)], [reading.text(node.slice) or ""], line)


def _asked(origins: list[str], texts: list[str], line: int) -> Iterator[Mark]:
    """`"pytest" in sys.modules`, `sys.modules.get("pytest")`, `sys.argv[0].endswith("pytest")` and the like."""
    sources = [s for s in _SOURCES for o in origins if o == s or o.startswith((f"{s}.", f"{s}[", f"{s}("))]
    if not sources:
        return
    if any(_RUNNER.search(t) for t in texts):
        yield Mark("DETECTS_TESTS", f"source asks for a test runner ({sources[0]})", line, True)
    elif sources[0] in ("os.environ", "os.getenv"):
        yield Mark("READS_ENVIRONMENT", "source asks for an environment variable", line, False)
    elif sources[0] in ("sys.argv", "sys.orig_argv") and len(origins) + len(texts) > 2:
        yield Mark("READS_ARGUMENTS", "source asks how the process was started", line, False)
