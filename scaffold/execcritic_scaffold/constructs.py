"""A5: what a test is made of, read with `ast` and never executed. Also A1's "no undeclared deletion".

Hard constructs decide the outcome without the behaviour under test: constant assertions, an unconditional failure or
skip, a failure that is swallowed. The rest are findings for a reviewer.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from execcritic_scaffold.outcome import Finding
from execcritic_scaffold.qualification import Refusal
from execcritic_scaffold.syntax import Function, constant, dotted, functions, parse

_ENDINGS = (
    "pytest.fail",
    "pytest.skip",
    "pytest.xfail",
    "pytest.exit",
    "self.fail",
    "self.skipTest",
    "sys.exit",
    "exit",
)
_ASSERTING = ("raises", "warns", "deprecated_call", "fail")
_CATCH_ALL = ("AssertionError", "Exception", "BaseException")
_LONG = 400

_CALLS: dict[str, tuple[str, str]] = {
    "time.sleep": ("SLEEPS", "sleeps"),
    "asyncio.sleep": ("SLEEPS", "sleeps"),
    "time.time": ("WALL_CLOCK", "reads the clock"),
    "datetime.now": ("WALL_CLOCK", "reads the clock"),
    "datetime.datetime.now": ("WALL_CLOCK", "reads the clock"),
    "datetime.utcnow": ("WALL_CLOCK", "reads the clock"),
    "datetime.datetime.utcnow": ("WALL_CLOCK", "reads the clock"),
    "date.today": ("WALL_CLOCK", "reads the clock"),
    "datetime.date.today": ("WALL_CLOCK", "reads the clock"),
    "os.getenv": ("ENVIRONMENT_SNIFFING", "reads environment variables"),
    "inspect.getsource": ("READS_SOURCE", "reads source text instead of running it"),
    "inspect.getsourcelines": ("READS_SOURCE", "reads source text instead of running it"),
}
_NETWORK = frozenset(("socket", "requests", "httpx", "urllib3", "http.client", "urllib.request", "ftplib", "smtplib"))
_RANDOM = frozenset(("random", "secrets", "uuid", "numpy.random", "np.random"))
_PATCHING = ("mock.patch", "patch", "patch.object", "mock.patch.object", "monkeypatch.setattr", "mocker.patch")


@dataclass(frozen=True)
class Located:
    """A declared node's function in its file."""

    node: str
    path: str
    function: Function


def hard(located: Located) -> Refusal | None:
    """Why this function can fail, pass or be skipped without the behaviour under test; None where it cannot."""
    where = f"{located.path}:{{line}}"
    for statement in located.function.body:
        if isinstance(statement, ast.Raise):
            what = "raises unconditionally"
        elif isinstance(statement, ast.Assert) and (value := constant(statement.test)) is not None and not value:
            what = "asserts a constant that is false"
        elif (call := _call(statement)) and dotted(call.func) in _ENDINGS:
            what = f"calls {dotted(call.func)} unconditionally"
        else:
            continue
        line = where.format(line=statement.lineno)
        return Refusal(
            "CONSTANT_OUTCOME", f"{line}: the test {what}", "Assert on what the code under test returns or raises."
        )
    asserts = [n for n in ast.walk(located.function) if isinstance(n, ast.Assert)]
    if asserts and all(constant(a.test) is not None for a in asserts) and not _other_assertions(located.function):
        line = where.format(line=asserts[0].lineno)
        return Refusal(
            "CONSTANT_OUTCOME",
            f"{line}: the test asserts only constants",
            "Assert on what the code under test returns.",
        )
    for node in ast.walk(located.function):
        if isinstance(node, ast.Try) and _swallows(node):
            line = where.format(line=node.lineno)
            return Refusal(
                "SWALLOWED_FAILURE",
                f"{line}: a failing assertion would be caught and forgotten",
                "Let the assertion fail; use pytest.raises for an expected exception.",
            )
    return None


def findings(located: Located, tops: frozenset[str]) -> list[Finding]:
    """What a reviewer should look at in this function."""
    found: dict[str, Finding] = {}

    def note(code: str, text: str, line: int) -> None:
        found.setdefault(code, Finding(code, f"{located.node} {text}", located.path, line))

    function = located.function
    if not any(isinstance(n, ast.Assert) for n in ast.walk(function)) and not _other_assertions(function):
        note("NO_VISIBLE_ASSERTION", "shows no assertion of its own", function.lineno)
    for node in ast.walk(function):
        line = getattr(node, "lineno", function.lineno)
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            if name in _CALLS:
                note(_CALLS[name][0], _CALLS[name][1], line)
            if name.rpartition(".")[0] in _RANDOM and not name.endswith((".seed", ".Random", ".default_rng")):
                note("RANDOMNESS", f"draws random values ({name})", line)
            if name in _PATCHING and any(t in ast.dump(node) for t in (f"'{top}" for top in tops)):
                note("MOCKS_SOURCE", "replaces part of the code under test", line)
            if name.startswith("subprocess.") and "'git'" in ast.dump(node):
                note("CALLS_GIT", "calls git", line)
            if name == "open" and node.args and ".py'" in ast.dump(node.args[0]):
                note("READS_SOURCE", "reads source text instead of running it", line)
        elif isinstance(node, ast.Attribute):
            if dotted(node) == "os.environ":
                note("ENVIRONMENT_SNIFFING", "reads environment variables", line)
            elif node.attr.startswith("_") and not node.attr.startswith("__") and dotted(node).split(".")[0] != "self":
                note("PRIVATE_NAME", f"uses the private name {node.attr}", line)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            if any(n in _NETWORK or n.split(".")[0] in _NETWORK for n in names):
                note("NETWORK", "imports a network client", line)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            size = 0 if node is _docstring(function) else len(node.value)
            if size > _LONG:
                note("LONG_LITERAL", f"pins a literal of {size} characters", line)
    return list(found.values())


def removals(path: str, old: bytes, new: bytes, excused: frozenset[str]) -> Refusal | None:
    """A1: an existing test that is gone, or has fewer assertions, and was not declared superseded (`excused` names)."""
    before, after = parse(old), parse(new)
    if before is None:
        return None
    if after is None:
        return Refusal("SYNTAX_ERROR", f"{path} is no longer valid Python", "Correct the syntax.")
    now = {(*owner, f.name): f for owner, f in functions(after)}
    for owner, function in functions(before):
        name = (*owner, function.name)
        if not function.name.startswith("test") or name[-1] in excused:
            continue
        left = now.get(name)
        if left is None:
            what = f"{path} no longer has the test {'.'.join(name)}"
        elif _assertions(left) < _assertions(function):
            what = f"{'.'.join(name)} in {path} has fewer assertions than before"
        else:
            continue
        return Refusal("TEST_REMOVED", what, "Keep existing tests, or declare the one that encodes the bug superseded.")
    return None


def is_unittest(text: bytes) -> bool | None:
    """True where tests are methods of TestCase classes, False where they are plain functions or classes, None where
    there are none or both."""
    module = parse(text)
    found: set[bool] = set()
    for node in module.body if module else ():
        if isinstance(node, Function) and node.name.startswith("test"):
            found.add(False)
        elif isinstance(node, ast.ClassDef) and any(
            isinstance(f, Function) and f.name.startswith("test") for f in node.body
        ):
            found.add(any(dotted(base).rsplit(".", 1)[-1].endswith("TestCase") for base in node.bases))
    return found.pop() if len(found) == 1 else None


def _call(statement: ast.stmt) -> ast.Call | None:
    return statement.value if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) else None


def _assertions(function: Function) -> int:
    return sum(isinstance(n, ast.Assert) for n in ast.walk(function)) + _other_assertions(function)


def _other_assertions(function: Function) -> int:
    """Calls that assert: `self.assertX`, `assert_x`, `pytest.raises` and the like."""
    count = 0
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            name = dotted(node.func).rsplit(".", 1)[-1]
            count += name.lower().startswith("assert") or name in _ASSERTING
    return count


def _swallows(node: ast.Try) -> bool:
    asserts = [n for statement in node.body for n in ast.walk(statement) if isinstance(n, ast.Assert)]
    if not asserts:
        return False
    for handler in node.handlers:
        kinds = [handler.type] if not isinstance(handler.type, ast.Tuple) else handler.type.elts
        catches = handler.type is None or any(k is not None and dotted(k) in _CATCH_ALL for k in kinds)
        acts = any(
            isinstance(n, ast.Raise | ast.Assert) or (isinstance(n, ast.Call) and dotted(n.func) in _ENDINGS)
            for statement in handler.body
            for n in ast.walk(statement)
        )
        if catches and not acts:
            return True
    return False


def _docstring(function: Function) -> ast.expr | None:
    first = function.body[0]
    return first.value if isinstance(first, ast.Expr) else None
