"""What the unittest reporters have to know of tests: those nobody ran, interruptions, and the control tests.

Runs inside the sandbox, on Pythons from 3.6 on; imported by `unittest_report.py`.
"""

import inspect
import sys
import unittest

import controls


def flatten(suite):
    """The tests of a suite, in order."""
    for test in suite:
        if isinstance(test, unittest.BaseTestSuite):
            for inner in flatten(test):
                yield inner
        else:
            yield test


def is_failed_import(test):
    return type(test).__name__ in ("_FailedTest", "ModuleImportFailure", "LoadTestsFailure", "ModuleSkipped")


def let_nothing_through(test):
    """unittest lets a KeyboardInterrupt end the whole run; in a test, it is how this one test ended."""
    run = test.run

    def guarded(result=None):
        try:
            return run(result)
        except KeyboardInterrupt:
            result.addError(test, sys.exc_info())
            return result

    test.run = guarded


def never_awaited(test):
    """True for a coroutine test that unittest only calls. Django and others replace the method by one that runs it."""
    method = getattr(test, getattr(test, "_testMethodName", ""), None)
    if not inspect.iscoroutinefunction(method):
        return False
    kept = unittest.TestCase
    return type(test).run is kept.run and (
        getattr(type(test), "_callTestMethod", None) is getattr(kept, "_callTestMethod", None)
    )


def control(near, name, fails):
    """A control test beside the tests whose ids begin with `near`."""
    test = controls.case(name, fails)(name)
    test.id = lambda: "%s.%s" % (near, name)
    return test
