"""The inverted twin fails where the test passes, and passes where something makes everything pass."""

from __future__ import annotations

import unittest
from typing import Any

import pytest

from execcritic_scaffold import twin
from execcritic_scaffold.files import File

PATH = "tests/test_it.py"
HONEST = {
    "equality": "def test(f):\n    assert f(2) == 4\n",
    "equality, turned": "def test(f):\n    assert 4 == f(2)\n",
    "inequality": "def test(f):\n    assert f(2) != 5\n",
    "membership": "def test(f):\n    assert f(2) in [4]\n",
    "membership of two": "def test(f):\n    assert (f(2) == 4) in (False, True)\n",
    "membership among close ones": "def test(f):\n    assert f('a') in ('a', 'aa', 'aa~')\n",
    "truth": "def test(f):\n    assert f(2)\n",
    "no truth": "def test(f):\n    assert not f(0)\n",
    "identity": "def test(f):\n    assert f(None) is None\n",
    "chain": "def test(f):\n    assert 3 < f(2) < 5\n",
    "message": "def test(f):\n    assert f(2) == 4, 'no'\n",
    "loop": "def test(f):\n    for n in (1, 2):\n        assert f(n) == 2 * n\n",
    "helper": "def check(a):\n    assert a == 4\n\n\ndef test(f):\n    check(f(2))\n",
    "future": '"""Doc."""\nfrom __future__ import annotations\n\n\ndef test(f):\n    assert f(2) == 4\n',
    "raises": "import pytest\n\n\ndef test(f):\n    with pytest.raises(TypeError):\n        f({})\n",
    "raises, matched": (
        "import pytest\n\n\ndef test(f):\n    with pytest.raises(TypeError, match='dict'):\n        f({})\n"
    ),
    "assertEqual": "def test(f):\n    case.assertEqual(f(2), 4)\n",
    "assertEqual, turned": "def test(f):\n    case.assertEqual(4, f(2))\n",
    "assertTrue": "def test(f):\n    case.assertTrue(f(2))\n",
    "assertIn": "def test(f):\n    case.assertIn(f(2), [4])\n",
    "assertIsNone": "def test(f):\n    case.assertIsNone(f(None))\n",
    "assertRaises": "def test(f):\n    with case.assertRaises(TypeError):\n        f({})\n",
    "assertRaises, called": "def test(f):\n    case.assertRaises(TypeError, f, {})\n",
    "conjunction": "def test(f):\n    assert f(2) == 4 and not f(0) and f(1) in (2,)\n",
    "disjunction": "def test(f):\n    assert f(2) == 5 or not f(0)\n",
    "nothing": "def test(f):\n    assert f(None) == None\n",
    "infinite": "def test(f):\n    assert f(float('inf')) == float('inf')\n",
    "many": "def test(f):\n    assert f([1]) == [1, 1]\n    assert f('a') == 'aa'\n    assert f(2) in {4: 4}\n",
    "called once": "def test(f):\n    numbers = iter([1, 2])\n    assert f(next(numbers)) == 2\n",
    "unknown helper": "def test(f):\n    case.assertGreater(f(2), 3)\n",
}


def double(value: Any) -> Any:
    if isinstance(value, dict):
        raise TypeError("a dict cannot be doubled")
    return None if value is None else 2 * value


class Anything(int):
    """Equal to everything, on both sides."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


class Loose(unittest.TestCase):
    """Assertion methods that somebody has switched off."""

    def assertEqual(self, first: Any, second: Any, msg: Any = None) -> None:
        pass


def turned(text: str) -> str:
    changes = twin.falsified({PATH: File(text.encode())}, [PATH])
    assert changes is not None
    file = changes[PATH]
    assert file is not None
    return file.data.decode()


def passes(text: str, function: Any, case: unittest.TestCase | None = None) -> bool:
    space: dict[str, Any] = {"case": case or unittest.TestCase()}
    exec(compile(text, PATH, "exec"), space)
    try:
        space["test"](function)
    except BaseException:
        return False
    return True


@pytest.mark.parametrize("text", HONEST.values(), ids=HONEST)
def test_it_fails_where_the_test_honestly_passes(text: str) -> None:
    assert passes(text, double)
    assert not passes(turned(text), double)


@pytest.mark.parametrize("name", ["equality", "equality, turned", "assertEqual", "assertEqual, turned", "helper"])
def test_what_is_equal_to_everything_makes_it_pass(name: str) -> None:
    assert passes(HONEST[name], lambda _: Anything(1))
    assert passes(turned(HONEST[name]), lambda _: Anything(1))


class Lying(int):
    """Equal to every number, and to nothing else."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int)

    __hash__ = int.__hash__


class Choosy(int):
    """Equal to the first number it meets; others are an error."""

    first: int | None = None

    def __eq__(self, other: Any) -> bool:
        assert other >= 0
        self.first = other if self.first is None else self.first
        return bool(self.first == other)

    __hash__ = int.__hash__


@pytest.mark.parametrize("kind", [Lying, Choosy])
@pytest.mark.parametrize("name", ["equality", "equality, turned", "assertEqual", "helper", "membership"])
def test_what_is_equal_to_everything_of_a_type_makes_it_pass(name: str, kind: Any) -> None:
    assert passes(HONEST[name], lambda _: kind(1))
    assert passes(turned(HONEST[name]), lambda _: kind(1))


def test_a_conjunction_of_lies_makes_it_pass() -> None:
    text = "def test(f):\n    assert f(1) == 1 and f(2) == 2\n"
    assert passes(text, lambda _: Lying(7)) and passes(turned(text), lambda _: Lying(7))


def test_an_assertion_method_that_is_switched_off_makes_it_pass() -> None:
    assert passes(HONEST["assertEqual"], lambda _: 7, Loose())
    assert passes(turned(HONEST["assertEqual"]), lambda _: 7, Loose())


def test_what_is_no_python_has_no_twin() -> None:
    assert twin.falsified({PATH: File(b"def test(:\n")}, [PATH]) is None
    assert twin.falsified({PATH: None}, [PATH]) is None
    deep = "x = " + "+".join(["v"] * 5000)
    assert twin.falsified({PATH: File(deep.encode())}, [PATH]) is None


CERTAIN = {
    "plain": ("def test(f):\n    assert f(2) == 4\n", True),
    "after other statements": ("def test(f):\n    x = f(2)\n    assert x == 4\n", True),
    "in a harmless context": ("def test(f):\n    with open('x') as g:\n        assert f(2) == 4\n", True),
    "raises": ("def test(f):\n    with pytest.raises(ValueError):\n        f(2)\n", True),
    "in a loop": ("def test(f):\n    for n in f(0):\n        assert n\n", False),
    "behind a condition": ("def test(f):\n    if f(0):\n        assert f(2)\n", False),
    "after a return": ("def test(f):\n    if f(0):\n        return\n    assert f(2)\n", False),
    "in a context that swallows": ("def test(f):\n    with suppress(Exception):\n        assert f(2)\n", False),
    "equal to many things": ("def test(f):\n    assert f(2) == mock.ANY\n", False),
    "none": ("def test(f):\n    f(2)\n", False),
}


@pytest.mark.parametrize(("text", "expected"), CERTAIN.values(), ids=CERTAIN)
def test_whether_an_assertion_runs_for_sure(text: str, expected: bool) -> None:
    found = twin.certain({PATH: File(text.encode())}, {"node": (PATH, ("test",))})
    assert found == (frozenset(("node",)) if expected else frozenset())
