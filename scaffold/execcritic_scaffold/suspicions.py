"""A5: what a reviewer should look at in a test: where it waits, draws, sniffs, reads instead of running, or mocks."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from execcritic_scaffold import assertions
from execcritic_scaffold.constructs import Located
from execcritic_scaffold.outcome import Finding
from execcritic_scaffold.reading import Reading
from execcritic_scaffold.syntax import Function, dotted

_LONG = 400
_SNIFFS = "looks at where or how it is run"
_READS = "reads source text instead of running it"
_CALLS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("time.sleep", "asyncio.sleep"), ("SLEEPS", "sleeps")),
    **dict.fromkeys(
        """time.time time.localtime time.gmtime datetime.now datetime.datetime.now datetime.utcnow
        datetime.datetime.utcnow date.today datetime.date.today datetime.datetime.today""".split(),
        ("WALL_CLOCK", "reads the clock"),
    ),
    "os.getenv": ("ENVIRONMENT_SNIFFING", _SNIFFS),
}
_NETWORK = ("socket", "requests", "httpx", "urllib3", "http.client", "urllib.request", "ftplib", "smtplib", "aiohttp")
_RANDOM = frozenset(("random", "secrets", "uuid", "numpy.random", "np.random"))
_PATCHING = frozenset(
    """mock.patch patch patch.object mock.patch.object mock.patch.dict monkeypatch.setattr monkeypatch.delattr
    mocker.patch mocker.patch.object mocker.spy unittest.mock.patch unittest.mock.patch.object""".split()
)
_INSPECTED = frozenset(("getsource", "getsourcelines", "getsourcefile", "getfile", "getcomments", "getdoc"))
_CODE = frozenset(("__code__", "co_code", "co_firstlineno", "co_consts", "co_names", "__file__"))
_HARNESS = ("request.session", "request.config.pluginmanager", "request.config.invocation_params", "pytestconfig.args")
_SURROUNDINGS = ("os.environ", "sys.argv", "sys.orig_argv", "sys.modules")


def findings(located: Located, tops: frozenset[str]) -> list[Finding]:
    """Findings for this function; `tops`: the repository's importable names."""
    found: dict[str, Finding] = {}
    function = located.function
    for code, text, line in _seen(located, tops):
        found.setdefault(code, Finding(code, f"{located.node} {text}", located.path, line or function.lineno))
    return list(found.values())


def _seen(located: Located, tops: frozenset[str]) -> Iterator[tuple[str, str, int]]:
    function = located.function
    reading = Reading(located.module or ast.Module([function], []))
    if not assertions.visible(function, located.module):
        yield "NO_VISIBLE_ASSERTION", "shows no assertion of its own", function.lineno
    elif not assertions.of_behaviour(function, located.module):
        yield "PRESENCE_ONLY", "asserts only that something is there", function.lineno
    for node in ast.walk(function):
        line = getattr(node, "lineno", function.lineno)
        if isinstance(node, ast.Call):
            for code, text in _of_call(node, reading, tops):
                yield code, text, line
        elif isinstance(node, ast.Attribute):
            for code, text in _of_attribute(node, reading, tops):
                yield code, text, line
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            if any(_is_network(n) for n in names):
                yield "NETWORK", "imports a network client", line
        elif isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            size = 0 if node is _docstring(function) else len(node.value)
            if size > _LONG:
                yield "LONG_LITERAL", f"pins a literal of {size} characters", line
            if isinstance(node.value, str) and node.value.startswith("PYTEST_"):
                yield "ENVIRONMENT_SNIFFING", _SNIFFS, line


def _of_call(node: ast.Call, reading: Reading, tops: frozenset[str]) -> Iterator[tuple[str, str]]:
    written, origin = dotted(node.func), reading.origin(node.func)
    for name in (written, origin):
        if name in _CALLS:
            yield _CALLS[name]
        if name.rpartition(".")[0] in _RANDOM and not name.endswith((".seed", ".Random", ".default_rng")):
            yield "RANDOMNESS", f"draws random values ({name})"
        if _is_network(name) and name.rsplit(".", 1)[-1][:1].islower():
            yield "NETWORK", f"uses the network ({name})"
        if name in _PATCHING and _is_source(node, reading, tops):
            yield "MOCKS_SOURCE", "replaces part of the code under test"
    if origin.startswith("inspect.") and origin.rsplit(".", 1)[-1] in _INSPECTED:
        yield "READS_SOURCE", _READS
    if written.startswith("inspect.") and written.rsplit(".", 1)[-1] in _INSPECTED:
        yield "READS_SOURCE", _READS
    if written.startswith("subprocess.") and any(_text(a) == "git" for a in ast.walk(node)):
        yield "CALLS_GIT", "calls git"
    if any(_text(a).endswith(".py") for a in node.args) and assertions.last_name(node) in ("open", "Path", "read_text"):
        yield "READS_SOURCE", _READS


def _of_attribute(node: ast.Attribute, reading: Reading, tops: frozenset[str]) -> Iterator[tuple[str, str]]:
    names = (dotted(node), reading.origin(node))
    if any(n in _SURROUNDINGS or n.startswith(_HARNESS) for n in names):
        yield "ENVIRONMENT_SNIFFING", _SNIFFS
    elif node.attr in _CODE and (node.attr != "__file__" or reading.origin(node).split(".")[0] in tops):
        yield "READS_SOURCE", _READS
    elif node.attr.startswith("_") and not node.attr.startswith("__") and names[0].split(".")[0] != "self":
        yield "PRIVATE_NAME", f"uses the private name {node.attr}"


def _is_source(node: ast.Call, reading: Reading, tops: frozenset[str]) -> bool:
    """What is patched is the repository's: named by a string, or given as an object."""
    first = node.args[0] if node.args else None
    if first is None:
        return False
    origin = reading.origin(first) or dotted(first)
    return (_text(first) or origin).split(".")[0] in tops


def _is_network(name: str) -> bool:
    return any(name == n or name.startswith(f"{n}.") for n in _NETWORK)


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _docstring(function: Function) -> ast.expr | None:
    first = function.body[0]
    return first.value if isinstance(first, ast.Expr) else None
