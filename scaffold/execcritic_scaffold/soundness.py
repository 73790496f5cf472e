"""B9: is the set-up of a failing test sound, so far as that can be seen before a fix exists?

A test that fails on Base at its first assertion has never run what comes after. So its text is rewritten: a failing
assertion (plain, unittest's, `pytest.raises`, `pytest.warns`) no longer ends the test. Sound: nothing else fails then.
The result is evidence for a reviewer, never a reason to reject: what follows may depend on what failed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from enum import StrEnum

from execcritic_scaffold import syntax
from execcritic_scaffold.files import Changes
from execcritic_scaffold.outcome import Outcome, RunReport
from execcritic_scaffold.rewriting import rewritten

_CONTEXTS = (
    "raises",
    "warns",
    "deprecated_call",
    "assertRaises",
    "assertRaisesRegex",
    "assertWarns",
    "assertWarnsRegex",
)


class Soundness(StrEnum):
    """SOUND: past the failing assertions nothing fails. UNSOUND: something does. UNKNOWN: cannot be told."""

    SOUND = "sound"
    UNSOUND = "unsound"
    UNKNOWN = "unknown"


def lenient(changes: Changes, paths: Iterable[str]) -> Changes | None:
    """The same changes with failing assertions of these test files going on; None where a file cannot be rewritten."""
    return rewritten(changes, paths, _Lenient().visit)


def judge(report: RunReport, nodes: Iterable[str]) -> Mapping[str, Soundness]:
    """Each node's soundness from a run of the lenient text. A node that needs its source's lines is UNKNOWN."""
    found: dict[str, Soundness] = {}
    for node in nodes:
        outcome = report.outcome(node) if report.valid else Outcome.NOT_COLLECTED
        if outcome is Outcome.PASSED:
            found[node] = Soundness.SOUND
        elif outcome in (Outcome.FAILED_EXCEPTION, Outcome.ERROR_TEARDOWN):
            found[node] = Soundness.UNSOUND
        else:
            found[node] = Soundness.UNKNOWN
    return found


class _Lenient(ast.NodeTransformer):
    """Puts every asserting statement of test functions into a `try` that swallows assertion failures only."""

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        return _guarded(node)

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        if isinstance(node.value, ast.Call):
            name = syntax.dotted(node.value.func).rsplit(".", 1)[-1]
            if name.startswith(("assert", "fail")) or name in _CONTEXTS:
                return _guarded(node)
        return node

    def visit_With(self, node: ast.With) -> ast.stmt:
        self.generic_visit(node)
        calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
        if any(syntax.dotted(c.func).rsplit(".", 1)[-1] in _CONTEXTS for c in calls):
            return _guarded(node)
        return node


_TEMPLATE = """
try:
    pass
except BaseException as _assertion:
    if not isinstance(_assertion, AssertionError) and type(_assertion).__name__ != "Failed":
        raise
"""


def _guarded(statement: ast.stmt) -> ast.stmt:
    attempt = ast.parse(_TEMPLATE).body[0]
    assert isinstance(attempt, ast.Try)
    attempt.body = [statement]
    return ast.copy_location(attempt, statement)
