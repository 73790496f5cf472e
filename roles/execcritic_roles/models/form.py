"""The arguments of a tool asked of a person field by field, from the tool's schema."""

from __future__ import annotations

from typing import Any

from execcritic_roles.terminal import Terminal

_SAME_AS = {"test_nodes": "nodes"}
"""Fields that say what another one said, as a rule."""


class Form:
    """Remembers what was given: an empty answer keeps it, so that a rejected test need not be typed again."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._given: dict[str, Any] = {}

    def fill(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The required fields of an object. Raises EOFError at the end of the input."""
        return {name: self._field(name, schema["properties"][name]) for name in schema.get("required", ())}

    def _field(self, name: str, schema: dict[str, Any]) -> Any:
        if "properties" in schema:
            if schema.get("description"):
                self._terminal.show(f"{name}: {schema['description']}")
            return self.fill(schema)
        before = self._given.get(name, self._given.get(_SAME_AS.get(name, "")))
        many = schema.get("type") == "array"
        hint = "one a line, an empty line ends" if many else "one line"
        about = f" - {schema['description']}" if schema.get("description") else ""
        self._terminal.show(f"{name} ({hint}){about}")
        if before:
            self._terminal.show(f"  an empty line keeps: {'; '.join(before) if many else before}")
        optional = many and not schema.get("minItems")
        while True:
            typed = self._many() if many else self._terminal.line("  ").strip()
            value = typed or before or ([] if optional else None)
            if value is not None:
                self._given[name] = value
                return value
            self._terminal.show("  Something has to be said here.")

    def _many(self) -> list[str]:
        found = []
        while line := self._terminal.line("  ").strip():
            found.append(line)
        return found
