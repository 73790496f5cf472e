"""Hooks of the runner in a `conftest.py`: who defines them decides how every test of the folder ends."""

from __future__ import annotations

import ast

from execcritic_scaffold.syntax import Function, dotted, parse


def changed_hooks(old: bytes, new: bytes) -> list[str]:
    """Names of the hooks (`pytest_…`, `hookimpl`) that the new text has and the old one has not, word for word."""
    had = _hooks(old)
    return [name for name, text in _hooks(new).items() if had.get(name) != text]


def _hooks(text: bytes) -> dict[str, str]:
    module = parse(text)
    content = text.decode("utf-8", "replace")
    found: dict[str, str] = {}
    for node in ast.walk(module) if module else ():
        names: list[str] = []
        if isinstance(node, Function):
            called = [dotted(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list]
            implements = any(c.rsplit(".", 1)[-1] == "hookimpl" for c in called)
            names = [node.name] if implements or node.name.startswith("pytest_") else []
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names = [node.id] if node.id.startswith("pytest_") else []
        elif isinstance(node, ast.ImportFrom):
            names = [n for a in node.names if (n := a.asname or a.name).startswith("pytest_")]
        for name in names:
            found[name] = ast.get_source_segment(content, node) or name
    return found
