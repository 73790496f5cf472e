"""Which functions of the repository each test runs: a pytest plugin that writes them to a file.

By `sys.settrace` with a function that is told of calls only (it gives none back for the lines): coverage.py's contexts
are told of every line, and `sys.setprofile` of every call into C and of every return as well.

Runs inside the sandbox, on Pythons from 3.6 on.
"""

import json
import os
import sys
import threading


class Covering(object):
    """`functions` are [path, first line]; `tests` maps a node id to indices of those it ran, set-up included."""

    def __init__(self, root, record, name):
        self.root, self.record, self.name = root + os.sep, record, name
        self.seen, self.places = {}, {}
        self.functions, self.index, self.tests = [], {}, {}

    def __call__(self, frame, event, arg):
        code = frame.f_code
        self.seen[id(code)] = code  # held, so that no other gets its id

    def start(self):
        self.seen = {}
        threading.settrace(self)
        sys.settrace(self)

    def stop(self, item):
        sys.settrace(None)
        threading.settrace(None)
        found = set()
        for key, code in self.seen.items():
            known = self.places.get(key)
            if known is None or known[0] is not code:
                known = self.places[key] = code, self.place(code)
            if known[1] is not None:
                found.add(known[1])
        self.tests[self.name(item)] = sorted(found)

    def place(self, code):
        path = os.path.abspath(code.co_filename)
        if code.co_filename.startswith("<") or not path.startswith(self.root) or code.co_name == "<module>":
            return None
        key = path[len(self.root) :], code.co_firstlineno
        if key not in self.index:
            self.index[key] = len(self.functions)
            self.functions.append(list(key))
        return self.index[key]

    def write(self):
        with open(self.record, "w") as out:
            json.dump({"functions": self.functions, "tests": self.tests}, out)


def plugin(record):
    """What `run_pytest.start` takes: makes the plugin from pytest, the workspace and the naming of items."""

    def make(pytest, root, name):
        covering = Covering(root, record, name)

        class Plugin(object):
            @pytest.hookimpl(hookwrapper=True, tryfirst=True)
            def pytest_runtest_protocol(self, item):
                covering.start()
                yield
                covering.stop(item)

            @pytest.hookimpl(trylast=True)
            def pytest_sessionfinish(self):
                covering.write()

        return Plugin()

    return make
