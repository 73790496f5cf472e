"""The mutation operators by name. A name is a *family*: training and test never share one (see `split.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from execcritic_training.factory.operators import calls, conditions, rewrites, statements, values
from execcritic_training.factory.operators.text import Operator

FAMILIES: Mapping[str, Operator] = {
    "arithmetic": conditions.arithmetic,
    "augmented": conditions.augmented,
    "boundary": conditions.boundary,
    "comparison": conditions.comparison,
    "connective": conditions.connective,
    "default": values.default,
    "direction": conditions.direction,
    "dropped-argument": calls.dropped_argument,
    "dropped-call": calls.dropped_call,
    "dropped-filter": calls.dropped_filter,
    "dropped-statement": statements.dropped_statement,
    "exception": statements.exception,
    "flag": values.flag,
    "loop-exit": statements.loop_exit,
    "missing-branch": statements.missing_branch,
    "negation": conditions.negation,
    "off-by-one": values.off_by_one,
    "operand": conditions.operand,
    "opposite-call": calls.opposite_call,
    "returned": statements.returned,
    "slice-bound": values.slice_bound,
    "swapped-arguments": calls.swapped_arguments,
    "ternary": conditions.ternary,
    "text": values.text,
    "variable": values.variable,
}
COMMON = frozenset(
    """arithmetic comparison default dropped-argument dropped-call dropped-statement missing-branch negation off-by-one
    returned swapped-arguments text variable""".split()
)
"""Those that most functions have a place for."""
REWRITES: Mapping[str, Operator] = {
    "doubly-negated": rewrites.doubly_negated,
    "mirrored": rewrites.mirrored,
    "named-result": rewrites.named_result,
    "unfolded": rewrites.unfolded,
}
