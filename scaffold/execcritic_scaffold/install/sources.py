"""The files that say how a repository is installed, read from Base as data. They are a stranger's: huge, broken and
nested ones say nothing, with a note that says so."""

from __future__ import annotations

import ast
import configparser
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_BYTES = 1 << 20
"""Larger files are passed over; real ones have a few kilobytes."""


@dataclass
class Sources:
    """`paths` are Base's, `read` gives a regular file's bytes (None: there is none). `notes` collects what could not
    be read, in sentences."""

    paths: Collection[str]
    read: Callable[[str], bytes | None]
    notes: list[str] = field(default_factory=list)
    _known: dict[str, Any] = field(default_factory=dict)

    def text(self, path: str) -> str:
        """The file's text, bytes that are not UTF-8 replaced; empty where there is none or it is too large."""
        if path not in self._known:
            data = self.read(path) if path in self.paths else None
            if data is not None and len(data) > MAX_BYTES:
                self.notes.append(f"{path} is larger than {MAX_BYTES >> 20} MB and was passed over.")
                data = None
            self._known[path] = (data or b"").decode("utf-8-sig", "replace")
        return str(self._known[path])

    def toml(self, path: str) -> Mapping[str, Any]:
        """The file's tables; empty where it is not TOML."""
        broken = (tomllib.TOMLDecodeError, RecursionError)
        found: Mapping[str, Any] = self._parsed(path, "TOML", tomllib.loads, broken, {})
        return found

    def ini(self, path: str) -> Mapping[str, Mapping[str, str]]:
        """The file's sections; empty where it is no INI file."""

        def parse(text: str) -> dict[str, dict[str, str]]:
            parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
            parser.read_string(text)
            return {name: {key: value or "" for key, value in parser.items(name)} for name in parser.sections()}

        broken = (configparser.Error, AttributeError)
        found: Mapping[str, Mapping[str, str]] = self._parsed(path, "an INI file", parse, broken, {})
        return found

    def python(self, path: str) -> ast.Module:
        """The file's syntax tree; an empty one where it is not Python."""
        broken = (SyntaxError, ValueError, RecursionError, MemoryError)
        found: ast.Module = self._parsed(path, "Python", ast.parse, broken, ast.Module([], []))
        return found

    def _parsed(
        self,
        path: str,
        kind: str,
        parse: Callable[[str], Any],
        errors: tuple[type[Exception], ...],
        empty: Any,
    ) -> Any:
        key = f"{path}:{kind}"
        if key not in self._known:
            try:
                self._known[key] = parse(self.text(path))
            except errors as error:
                why = " ".join(str(error).split())[:120] or type(error).__name__
                self.notes.append(f"{path} is not {kind} ({why}) and was passed over.")
                self._known[key] = empty
        return self._known[key]


def table(value: Any, *keys: str) -> Mapping[str, Any]:
    """The table below some keys; an empty one where something else, or nothing, stands there."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def texts(value: Any) -> list[str]:
    """The texts of a list; what is none is left out."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list | tuple) else []
