"""What the names in a Python text stand for: imports, aliases of imports, and the strings they are looked up by.

`import os as o; leave = o._exit` makes `leave` stand for `os._exit`. Read with `ast`, never executed. An origin is a
dotted name; "()" in it stands for the result of a call, "[]" for an item; "" is whatever the text itself makes.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field

MODULES = "sys.modules"
ANY_MODULE = "sys.modules[]"
"""Some loaded module, by a name that cannot be read off the text."""
_SAME = {"posix": "os", "nt": "os", "_posixsubprocess": "subprocess", "_thread": "threading"}
IMPORTING = ("importlib.import_module", "importlib.__import__", "builtins.__import__")
_COPIES = ("builtins.list", "builtins.tuple", "builtins.set", "builtins.sorted", "builtins.dict", "builtins.iter")
_VIEWS = frozenset(("values", "items", "keys", "copy"))
NAMESPACES = frozenset(("f_globals", "f_locals", "f_builtins", "__globals__"))
"""Attributes that are the names of code running elsewhere, whatever they are taken from."""
_DEEPEST = 60
_BUILTIN = frozenset(dir(builtins))

_Owner = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass
class Scope:
    """One module, class or function: what its names stand for."""

    parent: Scope | None
    owner: _Owner
    origins: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def find(self, name: str) -> Scope | None:
        """The scope that binds the name; None where none of this text does."""
        scope: Scope | None = self
        while scope is not None:
            visible = scope is self or not isinstance(scope.owner, ast.ClassDef)
            if visible and name in scope.origins:
                return scope
            scope = scope.parent
        return None


class Reading:
    """A module with every node's scope."""

    def __init__(self, module: ast.Module) -> None:
        self.nodes: list[ast.AST] = []
        self._scopes: dict[int, Scope] = {}
        self._module = Scope(None, module)
        pending = [self._module]
        while pending:
            scope = pending.pop()
            owner = scope.owner
            mine, inner = _own_nodes(owner)
            for node in mine:
                self._scopes[id(node)] = scope
            self.nodes += mine
            for _ in range(2):  # twice, so that an alias of an alias is seen whatever their order
                for node in mine:
                    self._bind(node, scope)
            pending += [Scope(scope, other) for other in inner]

    def scope(self, node: ast.AST) -> Scope:
        """The scope a node is evaluated in; the module's for one that is no expression of its own."""
        return self._scopes.get(id(node), self._module)

    def origin(self, node: ast.expr) -> str:
        """What the expression stands for."""
        return self._origin(node, self.scope(node), 0)

    def text(self, node: ast.expr) -> str | None:
        """The string an expression of literals (and names bound to them) gives; None for any other."""
        return self._text(node, self.scope(node), 0)

    def is_local(self, node: ast.expr) -> bool:
        """Whether the expression's root name belongs to a function: an argument, a variable."""
        while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
            node = node.func if isinstance(node, ast.Call) else node.value
        scope = self.scope(node).find(node.id) if isinstance(node, ast.Name) else None
        return scope is not None and not isinstance(scope.owner, ast.Module | ast.ClassDef)

    def _origin(self, node: ast.expr, scope: Scope, depth: int) -> str:
        if depth > _DEEPEST:
            return ""
        if isinstance(node, ast.Name):
            where = scope.find(node.id)
            if where is None and node.id == "__builtins__":
                return "builtins"
            if where is None:
                return f"builtins.{node.id}" if node.id in _BUILTIN else ""
            return where.origins[node.id]
        if isinstance(node, ast.Attribute):
            base = self._origin(node.value, scope, depth + 1)
            if node.attr in NAMESPACES:
                base = base or "()"
            return f"{base}.{node.attr}" if base else ""
        if isinstance(node, ast.Subscript):
            return self._item(self._origin(node.value, scope, depth + 1), node.slice, scope, depth)
        if isinstance(node, ast.Call):
            return self._result(node, scope, depth)
        if isinstance(node, ast.NamedExpr):
            return self._origin(node.value, scope, depth + 1)
        if isinstance(node, ast.BoolOp | ast.IfExp):
            parts = node.values if isinstance(node, ast.BoolOp) else [node.body, node.orelse]
            return next((o for p in parts if (o := self._origin(p, scope, depth + 1))), "")
        return ""

    def _item(self, base: str, key: ast.expr, scope: Scope, depth: int) -> str:
        name = self._text(key, scope, depth + 1)
        if base == MODULES:
            return name or ANY_MODULE
        if base == "builtins.globals()" and name == "__builtins__":
            return "builtins"
        if base == "builtins" and name:
            return f"builtins.{name}"
        if base.endswith(".__dict__"):
            return f"{base.removesuffix('.__dict__')}.{name or '?'}"
        return f"{base}[]" if base else ""

    def _result(self, node: ast.Call, scope: Scope, depth: int) -> str:
        func = self._origin(node.func, scope, depth + 1)
        first = node.args[0] if node.args else None
        if func in IMPORTING and first is not None:
            return self._text(first, scope, depth + 1) or ANY_MODULE
        if func == "builtins.getattr" and first is not None and len(node.args) > 1:
            base = self._origin(first, scope, depth + 1)
            return f"{base}.{self._text(node.args[1], scope, depth + 1) or '?'}" if base else ""
        if func == "builtins.vars" and first is not None:
            base = self._origin(first, scope, depth + 1)
            return f"{base}.__dict__" if base else ""
        if func in (f"{MODULES}.get", f"{MODULES}.pop", f"{MODULES}.setdefault", f"{MODULES}.__getitem__") and first:
            return self._item(MODULES, first, scope, depth)
        if func.startswith(f"{MODULES}.") and func.rsplit(".", 1)[-1] in _VIEWS:
            return MODULES
        if func in _COPIES and first is not None:
            return self._origin(first, scope, depth + 1)
        return f"{func}()" if func else ""

    def _text(self, node: ast.expr, scope: Scope, depth: int) -> str | None:
        if depth > _DEEPEST:
            return None
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.Name):
            where = scope.find(node.id)
            return where.texts.get(node.id) if where else None
        parts: list[ast.expr]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            parts = [node.left, node.right]
        elif isinstance(node, ast.JoinedStr):
            parts = [p.value if isinstance(p, ast.FormattedValue) else p for p in node.values]
        else:
            return None
        texts = [self._text(p, scope, depth + 1) for p in parts]
        return None if None in texts else "".join(t for t in texts if t is not None)

    def _bind(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                head = alias.name.split(".")[0]
                _bound(scope, alias.asname or head, _known(alias.name if alias.asname else head))
        elif isinstance(node, ast.ImportFrom):
            home = "." * node.level + _known(node.module or "")
            for alias in node.names:
                origin = home + alias.name if home.endswith(".") else f"{home}.{alias.name}"
                _bound(scope, alias.asname or alias.name, origin)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            text = self._text(node.value, scope, 0)
            for target in targets:
                self._target(target, self._origin(node.value, scope, 0), scope)
                if isinstance(target, ast.Name) and text is not None:
                    scope.texts[target.id] = text
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            source = self._origin(node.iter, scope, 0)
            self._target(node.target, f"{source}[]" if source else "", scope)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            _bound(scope, node.id, "")
        elif isinstance(node, ast.arg):
            _bound(scope, node.arg, "")
        elif isinstance(node, ast.ExceptHandler | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name:
            _bound(scope, node.name, "")

    def _target(self, target: ast.expr, origin: str, scope: Scope) -> None:
        names = [target] if isinstance(target, ast.Name) else []
        if isinstance(target, ast.Tuple | ast.List):
            names = [t for t in target.elts if isinstance(t, ast.Name)]
        for name in names:
            _bound(scope, name.id, origin)


def _bound(scope: Scope, name: str, origin: str) -> None:
    """A name that is imported in one branch and made in another stands for what is imported."""
    scope.origins[name] = origin or scope.origins.get(name, "")


def _known(module: str) -> str:
    """The public name of a module that has two."""
    head, dot, rest = module.partition(".")
    return _SAME.get(head, head) + dot + rest


def _own_nodes(owner: _Owner) -> tuple[list[ast.AST], list[_Owner]]:
    """The nodes of a scope in the order of the text, and the owners of the scopes inside it."""
    start: list[ast.AST] = list(owner.body) if not isinstance(owner, ast.Lambda) else [owner.body]
    if isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        spec = owner.args
        named = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg]
        start = [*(a for a in named if a is not None), *start]
    stack = start[::-1]
    mine: list[ast.AST] = []
    inner: list[_Owner] = []
    while stack:
        node = stack.pop()
        mine.append(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            inner.append(node)
        stack += list(_outside(node))[::-1]
    return mine, inner


def _outside(node: ast.AST) -> Iterator[ast.AST]:
    """Children that are evaluated where the node stands, not inside it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        yield from (d for d in [*node.args.defaults, *node.args.kw_defaults] if d is not None)
        if not isinstance(node, ast.Lambda):
            yield from node.decorator_list
            if node.returns is not None:
                yield node.returns
    elif isinstance(node, ast.ClassDef):
        yield from [*node.decorator_list, *node.bases, *node.keywords]
    else:
        yield from ast.iter_child_nodes(node)
