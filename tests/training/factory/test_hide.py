"""Hidden tests: gone from the text without a trace, and the rest as it was."""

from __future__ import annotations

import ast

from execcritic_training.factory.hide import hidden
from tests.training.factory.tiny import TEST_PAD

PAD = TEST_PAD.encode()


def test_a_method_goes_with_its_decorators_and_the_comment_above() -> None:
    left = hidden(PAD, ["t.py::TestPadding::test_width_three[a-  a]"])
    assert left is not None
    ast.parse(left)
    assert b"test_width_three" not in left
    assert b"Wide enough" not in left
    assert b"parametrize" not in left
    assert b"class TestPadding:\n\n    def test_other_fill(self):" in left


def test_a_class_of_which_nothing_is_left_goes_too() -> None:
    left = hidden(PAD, ["t.py::TestPadding::test_width_three[x]", "t.py::TestPadding::test_other_fill"])
    assert left == (
        b"import pytest\n\nfrom tinypack.text import pad\n\n\ndef test_negative_width_is_refused():\n"
        b'    with pytest.raises(ValueError):\n        pad("a", -1)\n\n\ndef test_zero_width():\n'
        b'    assert pad("a", 0) == "a"\n'
    )


def test_a_class_that_is_named_elsewhere_stays() -> None:
    method = b"    def test_%b(self):\n        pass\n"
    data = b"class TestA:\n" + method % b"a" + b"\nclass TestB(TestA):\n" + method % b"b"
    left = hidden(data, ["t.py::TestA::test_a"])
    assert left is not None
    assert left.startswith(b"class TestA:\n    pass\n")
    ast.parse(left)


def test_a_file_without_tests_is_empty() -> None:
    nodes = ["TestPadding::test_width_three[1]", "TestPadding::test_other_fill", "test_zero_width"]
    nodes += ["test_negative_width_is_refused"]
    assert hidden(PAD, [f"t.py::{node}" for node in nodes]) == b""


def test_what_is_not_in_the_file_cannot_be_hidden() -> None:
    assert hidden(PAD, ["t.py::TestPadding::test_inherited"]) is None
    assert hidden(PAD, ["t.py"]) is None
    assert hidden(b"def test_a(:", ["t.py::test_a"]) is None
    assert hidden("# -*- coding: latin-1 -*-\ndef test_a(): 'é'\n".encode("latin-1"), ["t.py::test_a"]) is None


def test_a_text_that_looks_like_a_comment_stays() -> None:
    data = b'X = """\n# not a comment"""\ndef test_a():\n    pass\n\ndef test_b():\n    pass\n'
    assert hidden(data, ["t.py::test_a"]) == b'X = """\n# not a comment"""\n\ndef test_b():\n    pass\n'


def test_tests_inside_a_condition() -> None:
    data = b"import sys\nif sys.path:\n    def test_a():\n        pass\n\ndef test_b():\n    pass\n"
    assert hidden(data, ["t.py::test_a"]) == b"import sys\nif sys.path:\n    pass\n\ndef test_b():\n    pass\n"
