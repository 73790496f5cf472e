"""What the pytest reporter has to know of items: coroutines nobody ran, interruptions, failures of pytest's own making.

Runs inside the sandbox, on Pythons from 3.6 and pytests from 4 on; imported by `pytest_report.py`.
"""

import inspect
import os
import sys

_RUNNER = os.path.join("_pytest", "runner.py")

_UNAWAITED = ("async_fail", "async_warn_and_skip", "async_warn")


def is_unittest(item):
    return type(item).__name__ == "TestCaseFunction"


def ends_session(kind):
    """True for what pytest lets through to end its session: in a test, it is how this one test ended."""
    names = [cls.__module__ + "." + cls.__name__ for cls in kind.__mro__]
    return "builtins.KeyboardInterrupt" in names or "_pytest.outcomes.Exit" in names


def usual(config, items, names, request):
    """What a plain run of the suite has of these items, by its own -m, -k and --deselect; and what is named."""
    leave_out = request.get("leave_out", {})
    kept = [item for item in items if not names[item].startswith(tuple(leave_out.get("deselect", ())) or ("\0",))]
    before = {name: getattr(config.option, name, "") for name in ("markexpr", "keyword")}
    try:
        from _pytest.mark import deselect_by_keyword, deselect_by_mark

        config.option.markexpr, config.option.keyword = leave_out.get("m", ""), leave_out.get("k", "")
        deselect_by_keyword(kept, config)
        deselect_by_mark(kept, config)
    except Exception:  # an expression that this pytest cannot read: then everything runs
        kept = list(items)
    finally:
        config.option.__dict__.update(before)
    named = {_function(node) for node in request.get("named", ())}
    chosen = set(kept)
    return [item for item in items if item in chosen or _function(names[item]) in named]


def _function(node):
    """The name of a node's function, whatever the form of the id."""
    return node.split("[")[0].split(" ")[0].replace("::", ".").split(".")[-1]


def force(outcome, error):
    """Let a hook wrapper's result be this exception, whatever pluggy's version."""
    if hasattr(outcome, "force_exception"):
        outcome.force_exception(error)
    else:
        outcome._excinfo = (type(error), error, error.__traceback__)


def failed_collection(collector, excinfo):
    from _pytest.reports import CollectReport

    text = "%s while it was collected" % excinfo[0].__name__
    rep = CollectReport(collector.nodeid, "failed", text, [])
    rep.call = None
    return rep


def unexpected_success(excinfo):
    """pytest raises this itself for a test that is expected to fail and does not (of unittest's kind, or strictly)."""
    return _raised_in(excinfo, ("addUnexpectedSuccess", "check_strict_xfail"))


def _raised_in(excinfo, functions):
    """True when one of these functions of pytest's own is on the traceback."""
    tb = excinfo[2] if excinfo is not None else None
    while tb is not None:
        code = tb.tb_frame.f_code
        if code.co_name in functions and "_pytest" in code.co_filename.split(os.sep):
            return True
        tb = tb.tb_next
    return False


def never_awaited(item, excinfo):
    """True for a coroutine test that nothing ran: pytest refused it, or unittest only called it."""
    if is_unittest(item):
        # The instance's own attribute: Django and others replace it with a function that runs the coroutine.
        instance = getattr(item, "_testcase", None) or getattr(item, "instance", None)
        method = getattr(instance, item.name, None)
        if instance is None or not inspect.iscoroutinefunction(method):
            return False
        unittest = sys.modules["unittest"]
        kept = unittest.TestCase
        return type(instance).run is kept.run and (
            getattr(type(instance), "_callTestMethod", None) is getattr(kept, "_callTestMethod", None)
        )
    function = getattr(item, "obj", None)
    if not (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
        return False
    python = sys.modules["_pytest.python"]
    if not any(hasattr(python, name) for name in _UNAWAITED[:2]):  # pytest before 5.4 passes or skips it
        names = {name for name, _ in item.config.pluginmanager.list_name_plugin()}
        return not names & {"asyncio", "pytest_asyncio", "anyio", "trio", "tornasync", "twisted", "aiohttp"}
    return _raised_in(excinfo, _UNAWAITED)


def goes_on(phase):
    """Whether pytest's own hook of a phase ("setup", "call", "teardown") is still at work."""
    frame = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name == "pytest_runtest_" + phase and code.co_filename.endswith(_RUNNER):
            return True
        frame = frame.f_back
    return False
