"""Mutants: what is taken back, what is turned, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from execcritic_scaffold.files import File
from execcritic_scaffold.selection import mutants
from execcritic_scaffold.store import EMPTY_TREE, Store

OLD = b"def f(a, b):\n    return a - b\n\n\ndef g(x):\n    return x\n"


def test_each_hunk_is_taken_back_but_not_the_only_one() -> None:
    both = OLD.replace(b"a - b", b"a + b").replace(b"return x", b"return -x")
    assert mutants.reverted(OLD, both, 9) == [OLD.replace(b"return x", b"return -x"), OLD.replace(b"a - b", b"a + b")]
    assert mutants.reverted(OLD, OLD.replace(b"a - b", b"a + b"), 9) == []


def test_a_hunk_that_is_only_a_comment_is_no_mutant() -> None:
    new = OLD.replace(b"a - b", b"a + b").replace(b"    return x", b"    # why\n    return x")
    assert mutants.reverted(OLD, new, 9) == []


@pytest.mark.parametrize(
    ("line", "turned"),
    [
        (b"return a < b", [b"return None", b"return (a >= b)"]),
        (b"return a is not b", [b"return None", b"return (a is b)"]),
        (b"return a and b", [b"return None", b"return (a or b)"]),
        (b"return not a", [b"return None", b"return (a)"]),
        (b"return 3", [b"return 4"]),
        (b"return True", [b"return False"]),
        (b"return max(a, b)", [b"return None", b"return (min(a, b))"]),
        (b"return a.startswith(b)", [b"return None", b"return (a.endswith(b))"]),
        (b"x = '\xc3\xbc'; a = b * 2", [b"x = '\xc3\xbc'; a = (b + 2)", b"x = '\xc3\xbc'; a = b * 3"]),
        (b"pass", []),
    ],
)
def test_expressions_of_changed_lines(line: bytes, turned: list[bytes]) -> None:
    new = OLD.replace(b"return a - b", line)
    assert mutants.mutated(OLD, new, 99) == [OLD.replace(b"return a - b", text) for text in turned]


def test_lines_that_did_not_change_are_left_alone_and_the_old_code_is_no_mutant() -> None:
    assert all(b"return x" in m for m in mutants.mutated(OLD, OLD.replace(b"a - b", b"a + b"), 99))
    assert OLD not in mutants.mutated(OLD, OLD.replace(b"a - b", b"a + b"), 99)


@pytest.mark.parametrize("new", [b"def f(:\n", b"\xff\xfe\x00", b"", b"x = " + b"(" * 3000 + b"1" + b")" * 3000])
def test_what_is_no_python_has_none(new: bytes) -> None:
    assert mutants.mutated(OLD, new, 9) == []


def test_an_expression_over_several_lines_and_one_in_an_f_string() -> None:
    new = OLD.replace(b"a - b", b"(a +\n            b) if f'{a + 1}' else 0")
    for mutant in mutants.mutated(OLD, new, 99):
        compile(mutant, "mutant", "exec")


def test_patches_against_base(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    base = store.edit(EMPTY_TREE, {"m.py": File(OLD), "doc.txt": File(b"a\n")})
    new = store.edit(base, {"m.py": File(OLD.replace(b"a - b", b"a + b + 1")), "doc.txt": File(b"b\n")})
    patch = store.diff(base, new)
    made = mutants.of_patch(store, base, patch, 2)
    assert len(made) == 2
    for mutant in made:
        changes = store.changes(base, store.apply(base, mutant))
        assert changes["doc.txt"] == File(b"b\n")
        assert changes["m.py"] not in (File(OLD), File(OLD.replace(b"a - b", b"a + b + 1")))
    assert mutants.of_patch(store, base, b"no patch\n", 2) == []
    assert mutants.of_patch(store, base, patch, 0) == []
