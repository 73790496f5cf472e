"""B9: past its failing assertions a test with a sound set-up runs to its end, and one without does not."""

from __future__ import annotations

import unittest
import warnings
from typing import Any

import pytest

from execcritic_scaffold import soundness
from execcritic_scaffold.files import File

PATH = "tests/test_it.py"
FAILING = {
    "assert": "def test(f):\n    assert f(1) == 3\n    seen.append(1)\n",
    "two of them": "def test(f):\n    assert f(1) == 3\n    assert f(2) == 5\n    seen.append(1)\n",
    "unittest's": "def test(f):\n    case.assertEqual(f(1), 3)\n    seen.append(1)\n",
    "raises": (
        "import pytest\n\n\ndef test(f):\n    with pytest.raises(ValueError):\n        f(1)\n    seen.append(1)\n"
    ),
    "warns": (
        "import pytest\n\n\ndef test(f):\n    with pytest.warns(UserWarning):\n        f(1)\n    seen.append(1)\n"
    ),
    "assertRaises": "def test(f):\n    with case.assertRaises(ValueError):\n        f(1)\n    seen.append(1)\n",
    "in a loop over cases": "def test(f):\n    for n in (1, 2):\n        assert f(n) == 0, n\n    seen.append(1)\n",
}


def run(text: str) -> tuple[bool, list[int]]:
    """Whether the lenient text runs to its end, and what it reached."""
    changes = soundness.lenient({PATH: File(text.encode())}, [PATH])
    assert changes is not None
    file = changes[PATH]
    assert file is not None
    space: dict[str, Any] = {"case": unittest.TestCase(), "seen": []}
    exec(compile(file.data, PATH, "exec"), space)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            space["test"](lambda n: 2 * n)
        except BaseException:
            return False, space["seen"]
    return True, space["seen"]


@pytest.mark.parametrize("text", FAILING.values(), ids=FAILING)
def test_a_failing_assertion_goes_on(text: str) -> None:
    assert run(text) == (True, [1])


@pytest.mark.parametrize("text", FAILING.values(), ids=FAILING)
def test_any_other_failure_shows(text: str) -> None:
    assert run(text.replace("seen.append(1)", "undefined_name")) == (False, [])


def test_what_is_no_python_is_unknown() -> None:
    assert soundness.lenient({PATH: File(b"def test(:\n")}, [PATH]) is None
