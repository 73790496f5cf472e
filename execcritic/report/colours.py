"""Syntax colours of short pieces of code, line by line, with marks laid over them."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

Line = list[tuple[str, str]]
"""A line as (class, text)."""

_LEXERS = {
    ".py": "python",
    ".pyi": "python",
    ".pyx": "cython",
    ".c": "c",
    ".h": "c",
    ".json": "json",
    ".toml": "toml",
    ".cfg": "ini",
    ".ini": "ini",
    ".yml": "yaml",
    ".yaml": "yaml",
}
MOST = 20_000
"""Characters of one piece that is coloured: the expressions that find the tokens are not linear for all input."""


def lines(path: str, texts: Sequence[str]) -> list[Line]:
    """The lines of a piece of a file; without colours where the kind of file is not known, or it is long."""
    from pygments.lexers import get_lexer_by_name
    from pygments.token import STANDARD_TYPES, Token

    plain: list[Line] = [[("", text)] for text in texts]
    name = _LEXERS.get(f".{path.rpartition('.')[2].lower()}") if "." in path else None
    whole = "\n".join(texts)
    if name is None or len(whole) > MOST:
        return plain
    lexer = get_lexer_by_name(name, stripnl=False, ensurenl=False)
    found: list[Line] = [[]]
    for kind, value in lexer.get_tokens(whole):
        while kind not in STANDARD_TYPES:
            kind = kind.parent or Token
        for number, part in enumerate(value.split("\n")):
            if number:
                found.append([])
            if part:
                found[-1].append((STANDARD_TYPES[kind], part))
    same = len(found) == len(texts) and all(
        "".join(part for _, part in line) == text for line, text in zip(found, texts, strict=True)
    )
    return found if same else plain


def markup(line: Line, changed: Sequence[tuple[int, int]] = ()) -> Markup:
    """A line as HTML, its `changed` ranges of characters marked."""
    edges = sorted({edge for pair in changed for edge in pair})
    out, at = [], 0
    for kind, text in line:
        stops = [edge - at for edge in edges if at < edge < at + len(text)]
        for start, end in zip([0, *stops], [*stops, len(text)], strict=True):
            part: Markup | str = escape(text[start:end])
            if kind:
                part = Markup('<span class="k-{}">{}</span>').format(kind, part)
            if any(a <= at + start < b for a, b in changed):
                part = Markup("<b>{}</b>").format(part)
            out.append(part)
        at += len(text)
    return Markup("").join(out)
