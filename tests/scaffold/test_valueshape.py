"""A failing test that consumes what source returned shows the defect one step late; any other error is the test's own.

Each text is really run: the exception and the frame are those that Python gives.
"""

from __future__ import annotations

import sys
import textwrap
import types

import pytest

from execcritic_scaffold.outcome import Failure, Frame
from execcritic_scaffold.valueshape import consumes_result

SOURCE = """
class Reply:
    items = None
    def get(self):
        return None
def find(name): return None
def table(): return {}
def number(): return 0
def rows(): return 3
def make(): return Reply()
def gen(): return iter(())
"""


def failure_of(text: str) -> tuple[Failure, Frame]:
    """How `test_it` of this text fails, with its own frame."""
    module = types.ModuleType("pkg")
    exec(SOURCE, module.__dict__)
    sys.modules["pkg"] = module
    space: dict[str, object] = {}
    try:
        exec(compile(text, "tests/test_x.py", "exec"), space)
        with pytest.raises(Exception) as caught:
            space["test_it"]()  # type: ignore[operator]
    finally:
        del sys.modules["pkg"]
    tb, above = caught.tb.tb_next, []
    while tb is not None and tb.tb_next is not None and tb.tb_next.tb_frame.f_code.co_filename == "tests/test_x.py":
        above.append(Frame("tests/test_x.py", tb.tb_lineno, tb.tb_frame.f_code.co_name, True))
        tb = tb.tb_next
    assert tb is not None
    place = list(tb.tb_frame.f_code.co_positions())[tb.tb_lasti // 2]
    frame = Frame("tests/test_x.py", tb.tb_lineno, tb.tb_frame.f_code.co_name, True, place[2], place[3])
    frames = (*above, frame)
    mro = tuple(f"{c.__module__}.{c.__qualname__}" for c in caught.type.__mro__)
    return Failure(mro, str(caught.value), frames, ""), frame


def judged(body: str, columns: bool = True) -> bool:
    text = "import pkg\nfrom pkg import find, table, number, rows, make, gen\n\n" + textwrap.dedent(body).strip() + "\n"
    failure, frame = failure_of(text)
    if not columns:
        frame = Frame(frame.path, frame.line, frame.function, True)
    return consumes_result(failure, frame, text.encode(), {"pkg"})


CONSUMES = {
    "attribute of the result": "def test_it():\n    find('x').name",
    "by a name": "def test_it():\n    found = find('x')\n    assert found.name == 'x'",
    "through the package": "def test_it():\n    pkg.find('x').name",
    "key": "def test_it():\n    table()['x']",
    "index of a part": "def test_it():\n    reply = make()\n    reply.items[0]",
    "method of an object": "def test_it():\n    reply = make()\n    reply.get().name",
    "unpacking": "def test_it():\n    a, b = find('x')",
    "iteration": "def test_it():\n    for row in rows():\n        pass",
    "comprehension": "def test_it():\n    [r for r in rows()]",
    "arithmetic": "def test_it():\n    n = number()\n    1 / n",
    "passed on": "def test_it():\n    found = find('x')\n    len(found)",
    "derived twice": "def test_it():\n    found = find('x')\n    other = found\n    other.name",
    "with": "def test_it():\n    with find('x') as f:\n        pass",
    "next": "def test_it():\n    next(gen())",
    "walrus": "def test_it():\n    if (found := find('x')) is None:\n        found.name",
    "in a method": "class T:\n    def run(self):\n        find('x').name\n\ndef test_it():\n    T().run()",
}
OWN = {
    "a name that is not there": "def test_it():\n    fnd('x')",
    "a literal": "def test_it():\n    {}['x']",
    "None of its own": "def test_it():\n    nothing = None\n    nothing.name",
    "its own value after a call": "def test_it():\n    find('x')\n    [][0]",
    "another line": "def test_it():\n    found = find('x')\n    mine = {}\n    mine['x']",
    "an exception of its own": "def test_it():\n    raise ValueError(1)",
    "another kind of error": "def test_it():\n    found = find('x')\n    open('/nonexistent/' + str(found))",
    "what it hands to a helper": "def check(x):\n    x.name\n\ndef test_it():\n    find('x')\n    check(None)",
    "a value bound later": "def test_it():\n    nothing = None\n    nothing.name\n    nothing = find('x')",
}


@pytest.mark.parametrize("name", CONSUMES)
def test_consumes(name: str) -> None:
    assert judged(CONSUMES[name])
    assert judged(CONSUMES[name], columns=False)


@pytest.mark.parametrize("name", OWN)
def test_own_mistake(name: str) -> None:
    assert not judged(OWN[name])


HELPERS = {
    "a helper of the file": "def run(x):\n    return find(x)\n\ndef test_it():\n    run('x').name",
    "an argument of a helper": "def check(x):\n    x.name\n\ndef test_it():\n    check(find('x'))",
    "a value of the file": "FOUND = find('x')\n\ndef test_it():\n    FOUND.name",
}


@pytest.mark.parametrize("name", HELPERS)
def test_consumes_through_the_file(name: str) -> None:
    assert judged(HELPERS[name])


def test_calling_with_wrong_arguments_is_the_tests_own_mistake() -> None:
    assert not judged("def test_it():\n    find()")
    assert not judged("def test_it():\n    find('x', 'y')")


def test_text_that_is_no_python() -> None:
    failure = Failure(("builtins.TypeError",), "", (), "")
    frame = Frame("tests/test_x.py", 1, "test_it", True)
    assert not consumes_result(failure, frame, b"def (", {"pkg"})
    assert not consumes_result(failure, frame, b"x = 1\n", {"pkg"})
    assert not consumes_result(failure, frame, b"\xff\xfe", {"pkg"})
