"""A1: what a test patch takes from an existing test: the test itself, or what it asserts."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection

from execcritic_scaffold.assertions import asserting_calls, is_expecting
from execcritic_scaffold.qualification import Refusal
from execcritic_scaffold.syntax import Function, dotted, functions, parse

_LEAVING = ("pytest.skip", "pytest.xfail", "pytest.exit", "pytest.importorskip", "self.skipTest")


def removals(path: str, old: bytes, new: bytes, excused: Collection[tuple[str, ...]]) -> Refusal | None:
    """An existing test that is gone, or no longer asserts what it did, and was not declared superseded (`excused`:
    class and function names). Assertions may be added; those that are there stay, word for word and as reachable.
    """
    before, after = parse(old), parse(new)
    if before is None:
        return None
    if after is None:
        return Refusal("SYNTAX_ERROR", f"{path} is no longer valid Python", "Correct the syntax.")
    now = {(*owner, f.name): f for owner, f in functions(after)}
    for owner, function in functions(before):
        name = (*owner, function.name)
        if not function.name.startswith("test") or name in excused:
            continue
        called = ".".join(name)
        left = now.get(name)
        if left is None:
            advice = "Keep existing tests, or declare the one that encodes the bug superseded."
            return Refusal("TEST_REMOVED", f"{path} no longer has the test {called}", advice)
        advice = "Leave existing assertions as they are and add new ones, or declare the test superseded."
        try:
            lost = _asserted(function) - _asserted(left)
        except RecursionError:
            return Refusal("TEST_WEAKENED", f"{called} in {path} is nested too deep to be read", advice)
        if lost:
            return Refusal("TEST_WEAKENED", f"{called} in {path} no longer asserts what it did", advice)
        if _ways_out(left) - _ways_out(function):
            return Refusal("TEST_WEAKENED", f"{called} in {path} may now end before it asserts", advice)
    return None


def _asserted(function: Function) -> Counter[str]:
    """Every assertion with the blocks it stands in: an assertion that is moved under an `if` is not the same."""
    found: Counter[str] = Counter()
    stack: list[tuple[ast.AST, str]] = [(s, "") for s in function.body]
    while stack:
        node, around = stack.pop()
        if isinstance(node, ast.Assert):
            found[around + ast.dump(node.test)] += 1
        elif isinstance(node, ast.Expr):
            found.update(around + ast.dump(c) for c in asserting_calls(node))
        elif isinstance(node, ast.With | ast.AsyncWith):
            expecting = [ast.dump(i.context_expr) for i in node.items if is_expecting(i)]
            found.update(around + e for e in expecting)
            stack += [(s, "".join([around, *expecting])) for s in node.body]
            continue
        stack += [(child, around + label) for child, label in _blocks(node)]
    return found


def _blocks(node: ast.AST) -> list[tuple[ast.stmt, str]]:
    """The statements inside a compound one, each with what decides whether it runs."""
    if isinstance(node, ast.If | ast.While):
        test = ast.dump(node.test)
        return [(s, f"if {test}:") for s in node.body] + [(s, f"else {test}:") for s in node.orelse]
    if isinstance(node, ast.For | ast.AsyncFor):
        return [(s, "for:") for s in node.body] + [(s, "end:") for s in node.orelse]
    if isinstance(node, ast.Try):
        handlers = [(s, "except:") for h in node.handlers for s in h.body]
        label = "try:" if node.handlers else ""
        return [(s, label) for s in node.body] + handlers + [(s, label) for s in node.orelse + node.finalbody]
    if isinstance(node, ast.Match):
        return [(s, ast.dump(c.pattern)) for c in node.cases for s in c.body]
    if isinstance(node, Function | ast.ClassDef):
        return [(s, f"{node.name}:") for s in node.body]
    return []


def _ways_out(function: Function) -> Counter[str]:
    inner = [n for s in function.body for n in ast.walk(s)]
    return Counter(
        type(n).__name__
        for n in inner
        if isinstance(n, ast.Return | ast.Break | ast.Continue)
        or (isinstance(n, ast.Call) and dotted(n.func) in _LEAVING)
        or (isinstance(n, ast.Raise) and n.exc is not None and "Skip" in dotted(getattr(n.exc, "func", n.exc)))
    )


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
