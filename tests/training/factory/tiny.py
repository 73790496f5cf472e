"""A tiny package with tests, made where a test needs one."""

from __future__ import annotations

from pathlib import Path

SOURCE = '''"""Text helpers."""


def pad(text, width, fill=" "):
    """Pad on the left up to a width."""
    if width < 0:
        raise ValueError("negative width")
    missing = width - len(text)
    if missing > 0:
        text = fill * missing + text
    return text


def squeeze(words, limit=3):
    """Join at most `limit` words that are not empty."""
    kept = [word for word in words if word]
    total = 0
    for word in kept[:limit]:
        total += len(word)
    if total == 0:
        return ""
    return "-".join(kept[:limit])


def unused(a, b):
    return a + b
'''
TEST_PAD = """import pytest

from tinypack.text import pad


class TestPadding:
    # Wide enough.
    @pytest.mark.parametrize("text, expected", [("a", "  a"), ("abc", "abc")])
    def test_width_three(self, text, expected):
        assert pad(text, 3) == expected

    def test_other_fill(self):
        assert pad("7", 3, "0") == "007"


def test_negative_width_is_refused():
    with pytest.raises(ValueError):
        pad("a", -1)


def test_zero_width():
    assert pad("a", 0) == "a"
"""
TEST_SQUEEZE = """from tinypack.text import squeeze


def test_joins_three():
    words = ["a", "", "b", "c", "d"]
    assert squeeze(words) == "a-b-c"


def test_of_nothing():
    assert squeeze([]) == ""
    assert squeeze([""]) == ""


def test_one_word():
    result = squeeze(["one", "two"], 1)
    assert result == "one"


def test_plain_arithmetic():
    assert 1 + 1 == 2
"""
PLAIN = "\n\n".join(f"def test_number_{n}():\n    assert {n} == {n}" for n in range(30)) + "\n"
FILES = {
    "pyproject.toml": '[project]\nname = "tinypack"\nversion = "1"\n',
    "tinypack/__init__.py": "",
    "tinypack/text.py": SOURCE,
    "tests/test_pad.py": TEST_PAD,
    "tests/test_squeeze.py": TEST_SQUEEZE,
    "tests/test_plain.py": PLAIN,
}


def write(folder: Path) -> Path:
    """The package's folder, named so that it can be given to the factory."""
    for path, text in FILES.items():
        target = folder / "tinypack" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return folder / "tinypack"
