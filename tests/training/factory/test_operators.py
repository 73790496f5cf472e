"""Mutants: what every operator makes is code, and other code."""

from __future__ import annotations

import ast
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from execcritic_scaffold import syntax
from execcritic_training.factory.mutate import mutants, rewrites, together
from execcritic_training.factory.operators import FAMILIES
from execcritic_training.factory.operators.text import Source, applied
from execcritic_training.factory.suite import Target, first_line

EXAMPLES = {
    "arithmetic": ("return a + b", "return a - b"),
    "augmented": ("a += b", "a -= b"),
    "boundary": ("return a < b", "return a <= b"),
    "comparison": ("return a not  in b", "return a in b"),
    "connective": ("return a and b", "return a or b"),
    "direction": ("return a >= b", "return a <= b"),
    "dropped-argument": ("f(a, key=b)", "f(a)"),
    "dropped-call": ("return list(a)", "return (a)"),
    "dropped-filter": ("return [c for c in a if b]", "return [c for c in a if True]"),
    "dropped-statement": ("a.x = b\n    return a", "return a"),
    "exception": ("raise ValueError(a)", "raise TypeError(a)"),
    "flag": ("return f(a, True)", "return f(a, False)"),
    "loop-exit": ("for c in a:\n        break", "for c in a:\n        continue"),
    "missing-branch": ("if a:\n        b = 1\n    return b", "return b"),
    "negation": ("if not a:\n        return b", "if a:\n        return b"),
    "off-by-one": ("return a[1]", "return a[2]"),
    "operand": ("return a or b", "return a"),
    "opposite-call": ("return min(a, b)", "return max(a, b)"),
    "returned": ("return f(a)", "return None"),
    "slice-bound": ("return a[1:]", "return a[:]"),
    "swapped-arguments": ("return f(a,  b)", "return f(b,  a)"),
    "ternary": ("return a if c else b", "return (b) if (c) else (a)"),
    "text": ("return a.join('xy')", "return a.join('x')"),
    "variable": ("return a", "return b"),
}


def target_of(data: bytes) -> Target:
    module = syntax.parse(data)
    assert module is not None
    _, function = next(iter(syntax.functions(module)))
    return Target("m.py", function.name, first_line(function), ())


@pytest.mark.parametrize("family", EXAMPLES)
def test_each_family_makes_its_own_change(family: str) -> None:
    before, after = EXAMPLES[family]
    head = "def g(a, b=1):\n    "
    data = f"{head}{before}\n".encode()
    made = [mutant.data.decode() for mutant in mutants(data, target_of(data), [family], 9, 0)]
    assert f"{head}{after}\n" in made


def test_a_default_of_a_parameter() -> None:
    data = b"def g(a, b=1):\n    return a\n"
    assert [m.data for m in mutants(data, target_of(data), ["default"], 9, 0)] == [b"def g(a, b=2):\n    return a\n"]


def test_every_family_has_an_example() -> None:
    assert EXAMPLES.keys() | {"default"} == FAMILIES.keys()


names = st.sampled_from(["a", "b", "c"])
expressions = st.recursive(
    names | st.integers(0, 9).map(str) | st.sampled_from(["'é x'", "True", "None", "f'{a}x'"]),
    lambda inner: st.one_of(
        st.builds("{} {} {}".format, inner, st.sampled_from("+ - * // % == < <= in and or is".split()), inner),
        st.builds("({}\n  , {})".format, inner, inner),
        st.builds("f({}, k={})".format, inner, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("a[{}:{}]".format, inner, inner),
        st.builds("[c for c in {} if {}]".format, inner, inner),
        st.builds("not {}".format, names),
    ),
    max_leaves=8,
)
statements = st.one_of(
    st.builds("    return ({})".format, expressions),
    st.builds("    b += ({})".format, expressions),
    st.builds("    if ({}):\n        a.x = ({})".format, expressions, expressions),
    st.builds("    if ({}):\n        f(a)\n    else:\n        raise ValueError(b)".format, expressions),
    st.builds("    for c in ({}):\n        a.append(c)\n        break".format, expressions),
)
functions = st.lists(statements, min_size=1, max_size=4).map(
    lambda body: "# ä\nclass K:\n @property\n def g(self, a, b=0):\n" + "\n".join(body) + "\nz = 1\n"
)


@settings(max_examples=60, deadline=None)
@given(functions, st.integers(0, 5))
def test_every_mutant_is_other_code_and_the_same_for_the_same_seed(text: str, seed: int) -> None:
    data = text.encode()
    module = syntax.parse(data)
    if module is None:
        return
    target = target_of(data)
    made = mutants(data, target, FAMILIES, 30, seed)
    assert made == mutants(data, target, FAMILIES, 30, seed)
    changed = [*made, *rewrites(data, target, 5, seed)]
    dumps = [ast.dump(ast.parse(mutant.data)) for mutant in changed]
    assert ast.dump(module) not in dumps
    assert len(set(dumps[: len(made)])) == len(made)
    for mutant in changed:
        assert mutant.data == applied(data, mutant.edits)
        assert mutant.data.endswith(b"z = 1\n")
        assert mutant.data.startswith(b"# \xc3\xa4\nclass K:\n")
    for one, other in pairwise(made):
        both = None if one.overlaps(other) else together(data, one, other)
        assert both is None or ast.dump(ast.parse(both.data)) != ast.dump(module)


def test_what_cannot_be_placed_has_no_mutants() -> None:
    target = Target("m.py", "g", 1, ())
    for data in (b"def g(:", b"# -*- coding: latin-1 -*-\n'\xe9'\ndef g(a):\n    return a + 1\n", b"", b"\xff\xfe"):
        assert mutants(data, target, FAMILIES, 5, 0) == []


def test_nothing_inside_an_f_string_is_touched() -> None:
    data = b"def g(a, b):\n    return f'{a + b} {a == 1}'\n"
    function = syntax.parse(data).body[0]  # type: ignore[union-attr]
    assert isinstance(function, ast.FunctionDef)
    source = Source(data, function)
    assert not [e for n in source.nodes() for f in ("arithmetic", "comparison") for e in FAMILIES[f](n, source)]
