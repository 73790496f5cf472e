"""Text of strangers made fit for a terminal, in one place for every view.

Models, commands, tests and repositories may write what a terminal obeys (escape sequences, carriage returns), what
reorders or hides text (marks of writing direction, characters without width), and lines without end.
"""

from __future__ import annotations

import re
import unicodedata

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of controls, invisible format characters, surrogates and foreign line ends."""


class _Escapes(dict[int, str]):
    """For `str.translate`: what each character is shown as, found out when it first occurs."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        hidden = unicodedata.category(character) in _HIDDEN and character not in "\t\n"
        self[code] = shown = escape(code) if hidden else character
        return shown


def escape(code: int) -> str:
    """A character as Python would write it in a string: \\x1b, \\u202e, \\U000e0041."""
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_ESCAPES = _Escapes()
_BREAK = re.compile(r"[\t\r\n][\t\r\n ]*")


def printable(text: str) -> str:
    """The text with everything escaped that is not simply visible; tabs and line feeds stay."""
    return text if text.isascii() and text.isprintable() else text.translate(_ESCAPES)


def one_line(text: str, most: int) -> str:
    """The text in one printable line of at most `most` characters, a blank for each line break with the indentation
    after it; that something was cut off is said by an ellipsis.

    The work is bounded by `most`, not by the text.
    """
    head = text[: 4 * most]
    line = printable(_BREAK.sub(" ", head))
    return line if len(line) <= most and len(head) == len(text) else line[: most - 1] + "…"
