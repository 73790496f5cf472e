"""What two versions have in common is left out of both, and nothing else is."""

from __future__ import annotations

import ast

from hypothesis import given
from hypothesis import strategies as st

from execcritic_scaffold.trim import common_out

BLOCKS = st.lists(
    st.sampled_from(
        [
            "import os\n",
            "X = 1\n",
            "def a():\n    return 1\n",
            "def b(x):\n    # a comment\n    return x\n",
            "@decorated\ndef c():\n    pass\n",
            "class D:\n    y = 2\n\n    def m(self):\n        return self.y\n",
            "async def e():\n    await f()\n",
        ]
    ),
    max_size=8,
)


@given(BLOCKS, BLOCKS)
def test_what_is_left_says_the_same_of_the_difference(old: list[str], new: list[str]) -> None:
    """Trimming takes the same blocks out of both sides, so what remains differs exactly as the wholes do."""
    before, after = "\n".join(old).encode(), "\n".join(new).encode()
    left, right = common_out(before, after)
    assert left.count(b"\n") == before.count(b"\n")  # line numbers stay
    assert right.count(b"\n") == after.count(b"\n")
    gone = sorted(_dumps(before)), sorted(_dumps(left)), sorted(_dumps(after)), sorted(_dumps(right))
    removed_left = _minus(gone[0], gone[1])
    removed_right = _minus(gone[2], gone[3])
    assert removed_left == removed_right
    assert not (_blocks(left) & _blocks(right))


def test_what_does_not_parse_stays() -> None:
    assert common_out(b"def a(:\n", b"def a():\n    pass\n") == (b"def a(:\n", b"def a():\n    pass\n")


def _dumps(text: bytes) -> list[str]:
    return [ast.dump(node) for node in ast.parse(text).body]


def _blocks(text: bytes) -> set[str]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return {ast.dump(node) for node in ast.parse(text).body if isinstance(node, kinds)}


def _minus(whole: list[str], part: list[str]) -> list[str]:
    left = list(whole)
    for one in part:
        left.remove(one)
    return sorted(left)
