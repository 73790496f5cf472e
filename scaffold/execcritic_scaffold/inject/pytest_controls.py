"""Control tests as items of pytest, of the kind of the tests they stand beside.

They are real test functions, or methods of a real TestCase, in the module of those tests: what reaches pytest's own
items reaches them. They have no fixtures and no marks, so that none of the suite's set-up is theirs.

Runs inside the sandbox, on Pythons from 3.6 and pytests from 4 on; imported by `pytest_report.py`.
"""

import controls
import pytest_items


def make(pytest, beside, name, fails, raises=False):
    """An item beside `beside`. `raises`: a function that fails does so by not raising what it is to raise."""
    module = beside.getparent(pytest.Module)
    if module is not None and not type(module).__module__.startswith("_pytest.doctest"):
        try:
            if pytest_items.is_unittest(beside):
                return _method(module, name, fails)
            return _function(pytest, module, name, fails, raises)
        except Exception:  # a pytest or a plugin that makes such items in some other way
            return _plain(pytest, beside, name, fails)
    return _plain(pytest, beside, name, fails)


def _function(pytest, module, name, fails, raises):
    code = controls.function(name, fails, pytest if raises else None)
    return _bare(_new(pytest.Function, module, name, callobj=code, fixtureinfo=_no_fixtures()))


def _method(module, name, fails):
    from _pytest.unittest import TestCaseFunction, UnitTestCase

    kind = controls.case(name, fails)
    parent = _new(UnitTestCase, module, kind.__name__)
    parent.obj = kind
    return _bare(_new(TestCaseFunction, parent, name, fixtureinfo=_no_fixtures()))


def _new(kind, parent, name, **more):
    if hasattr(kind, "from_parent"):
        return kind.from_parent(parent, name=name, **more)
    return kind(name, parent, **more)


def _no_fixtures():
    from _pytest.fixtures import FuncFixtureInfo

    return FuncFixtureInfo(argnames=(), initialnames=(), names_closure=[], name2fixturedefs={})


def _bare(item):
    """Without the marks of the module: it may be skipped as a whole, or stop after a failure."""
    item.iter_markers_with_node = lambda name=None: iter(())
    item.keywords.parent = None
    return item


def _plain(pytest, beside, name, fails):
    """Beside items that are no Python functions: an item that has what hooks of a suite expect of one."""
    code = controls.function(name, fails)
    near = beside.nodeid.split("::")[0]

    class Item(pytest.Item):
        function = obj = staticmethod(code)
        cls = instance = None
        module = getattr(beside, "module", None)
        originalname = name

        def runtest(self):
            code()

        def reportinfo(self):
            return near, 0, name

    nodeid = "%s::%s" % (near, name)
    if hasattr(Item, "from_parent"):
        item = Item.from_parent(beside.session, name=name, nodeid=nodeid)
    else:
        item = Item(name, beside.session, nodeid=nodeid)
    item.fixturenames = []
    item.funcargs = {}
    return item
