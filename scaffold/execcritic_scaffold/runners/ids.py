"""Node ids as people and data sets write them, matched against what a runner collected."""

from __future__ import annotations

import re
from collections.abc import Iterable

_UNITTEST = re.compile(r"^(?P<name>[^\s(]+) \((?P<owner>[\w.]+)\)$")


def unittest_forms(node: str) -> list[tuple[str, str]]:
    """`name (module.Class)` or `name (module.Class.name)` as (name, owner), both ways where the text does not tell
    which it is (`test_x (tests.test_x)`); empty for another form."""
    found = _UNITTEST.match(node.strip())
    if not found:
        return []
    name, owner = found["name"], found["owner"]
    return [(name, o) for o in dict.fromkeys((owner.removesuffix("." + name), owner))]


def module_files(owner: str) -> list[str]:
    """Files that a dotted owner may lie in: a module's own, then that of a class's module."""
    parts = owner.split(".")
    return ["/".join(parts) + ".py", *(["/".join(parts[:-1]) + ".py"] if len(parts) > 1 else [])]


def dotted_form(node: str) -> str | None:
    """A unittest id of any form as `module.Class.method`; None for a path or free text."""
    for name, owner in unittest_forms(node):
        return f"{owner}.{name}"
    return node if "." in node and not set(node) & set(" /[(") else None


def function_of(node: str) -> tuple[str, ...]:
    """Class and function names of a node id of either form, without its parameters: `("Class", "method")`."""
    bare = node.split("[")[0]
    return tuple(bare.split("::")[1:]) if "::" in bare else tuple(bare.split(".")[-2:])


def only(candidates: Iterable[str]) -> str | None:
    """The single candidate, else None."""
    unique = list(dict.fromkeys(candidates))
    return unique[0] if len(unique) == 1 else None


def match_pytest(node: str, collected: Iterable[str]) -> str | None:
    """The collected pytest id meant by `node`: itself, or the end of it; `name (module.Class)`; an id cut at its first
    blank; a bare function name. None where nothing or more than one thing fits."""
    known = list(collected)
    if node in known:
        return node
    if node.startswith("./") and node[2:] in known:
        return node[2:]
    if forms := unittest_forms(node):
        named = {f"{owner}.{name}" for name, owner in forms} | {owner for _, owner in forms}
        return only(k for k in known if _dotted(k) in named and k.split("::")[-1] == forms[0][0])
    if "::" in node:
        if "[" in node and not node.endswith("]"):
            return only(k for k in known if " " in k and k.split(" ")[0] == node)
        # pytest's own id is relative to its rootdir, which may lie below the repository's root.
        return only(k for k in known if k.endswith("/" + node))
    return only(k for k in known if k.split("::", 1)[-1].split("[")[0].split("::")[-1] == node)


def match_unittest(node: str, collected: Iterable[str]) -> str | None:
    """The collected unittest id (`module.Class.method`) meant by `node`: itself; `name (module.Class)`; a pytest-style
    `path::Class::method`; a bare method name. None where nothing or more than one thing fits."""
    known = list(collected)
    if node in known:
        return node
    if forms := unittest_forms(node):
        wanted = [f"{owner}.{name}" for name, owner in forms]
        return only(k for k in known if any(k == w or k.endswith("." + w) for w in wanted))
    if "::" in node:
        full = _dotted(node)
        return only(k for k in known if k == full or full.endswith("." + k))
    return only(k for k in known if k.endswith("." + node))


def _dotted(node: str) -> str:
    path, _, rest = node.partition("::")
    module = path.removesuffix(".py").replace("/", ".")
    return ".".join([module, *rest.split("::")])
