"""What the unittest and Django reporters share: a result class that tells the supervisor, and the choice of tests."""

import os
import re
import sys
import time
import unittest

import report
import sockets
import unittest_items

_HOLDER = re.compile(r"^(setUpClass|setUpModule|tearDownClass|tearDownModule) \((?P<owner>.+)\)$")


class Session(object):
    """One run: which tests were found and chosen, and the channel to the supervisor."""

    def __init__(self, channel, request, root):
        self.channel = channel
        self.request = request
        self.root = root
        self.index = {}
        self.tests = []
        self.broken = False
        self.tracer = report.Tracer(root) if request["trace"] else None
        self.sockets = sockets.Sockets(request)

    def choose(self, suite):
        """The suite to run: the wanted tests of `suite`, in order, between the harness's control tests."""
        found = [t for t in unittest_items.flatten(suite) if not unittest_items.is_failed_import(t)]
        self.channel.emit_many("collected", "nodes", [t.id() for t in found])
        wanted = self.request["nodes"]
        if wanted is not None:
            rank = {node: number for number, node in enumerate(wanted)}
            found = sorted((t for t in found if t.id() in rank), key=lambda t: rank[t.id()])
        if self.request["order"] == "reversed":
            found.reverse()
        canaries = self.request["canaries"]
        if canaries and found:
            near = found[-1].id().rsplit(".", 1)[0]
            early = [(canaries["early"], True), (canaries["pass"], False)]
            found[0:0] = [unittest_items.control(near, name, fails) for name, fails in early]
            found.append(unittest_items.control(near, canaries["fail"], True))
        self.tests = found
        self.index = {id(t): number for number, t in enumerate(found)}
        self.channel.emit_many("selected", "nodes", [t.id() for t in found])
        for test in found:
            unittest_items.let_nothing_through(test)
        return unittest.TestSuite(found)

    def tell(self, test, phase, outcome, err=None, xfail=False, seconds=0.0):
        fields = {
            "item": self.index.get(id(test), -1),
            "node": test.id(),
            "phase": phase,
            "outcome": outcome,
            "raw_failed": outcome == "failed",
            "xfail": xfail,
            "seconds": round(seconds, 6),
        }
        if err is not None:
            fields["failure"] = report.describe(err[0], err[1], err[2], self.root)
        if unittest_items.never_awaited(test):
            fields["not_awaited"] = True
        self.channel.emit("phase", **fields)

    def result_class(self):
        """A TextTestResult that reports to this session."""
        session = self

        class Result(unittest.TextTestResult):
            def startTest(self, test):
                super(Result, self).startTest(test)
                self.ec_started = time.time()
                self.ec_told = False
                self.ec_subtest = None
                self.ec_skipped_part = False
                session.channel.emit("begin", node=test.id())
                if session.tracer:
                    session.tracer.start()

            def stopTest(self, test):
                if session.tracer:
                    session.tracer.stop()
                if self.ec_subtest is not None:
                    self.ec_tell(test, "call", "failed", self.ec_subtest)
                elif self.ec_skipped_part:
                    self.ec_tell(test, "call", "skipped")
                super(Result, self).stopTest(test)

            def ec_tell(self, test, phase, outcome, err=None, xfail=False):
                if self.ec_told:
                    return  # a second error of one test, such as a failing clean-up: the first one counts
                self.ec_told = True
                session.tell(test, phase, outcome, err, xfail, time.time() - self.ec_started)

            def addSuccess(self, test):
                super(Result, self).addSuccess(test)
                self.ec_tell(test, "call", "skipped" if self.ec_skipped_part else "passed")

            def addFailure(self, test, err):
                self.ec_tell(test, report.phase_of(err[2]), "failed", err)
                super(Result, self).addFailure(test, err)

            def addError(self, test, err):
                held = _HOLDER.match(test.id()) if type(test).__name__ == "_ErrorHolder" else None
                if held:
                    session.tell_owner(held.group("owner"), held.group(1), err)
                elif not unittest_items.is_failed_import(test):
                    if not hasattr(self, "ec_told"):
                        self.ec_told, self.ec_started = False, time.time()
                    self.ec_tell(test, report.phase_of(err[2]), "failed", err)
                super(Result, self).addError(test, err)

            def addSkip(self, test, reason):
                super(Result, self).addSkip(test, reason)
                held = _HOLDER.match(test.id()) if type(test).__name__ == "_ErrorHolder" else None
                if held:
                    session.skip_owner(held.group("owner"))
                elif id(test) in session.index:
                    self.ec_tell(test, "call", "skipped")
                else:
                    self.ec_skipped_part = True  # of a test whose other sub-tests may still fail

            def addExpectedFailure(self, test, err):
                super(Result, self).addExpectedFailure(test, err)
                self.ec_tell(test, "call", "skipped", err, xfail=True)

            def addUnexpectedSuccess(self, test):
                super(Result, self).addUnexpectedSuccess(test)
                self.ec_tell(test, "call", "passed", xfail=True)

            def addSubTest(self, test, subtest, err):
                if err is not None and self.ec_subtest is None:
                    self.ec_subtest = err
                super(Result, self).addSubTest(test, subtest, err)

        return Result

    def tell_owner(self, owner, what, err):
        """Set-up of a class or module failed: so did the set-up of each of its tests. Clean-up: that of its last."""
        mine = [t for t in self.tests if t.id().startswith(owner + ".")]
        if what.startswith("tearDown"):
            for test in mine[-1:]:
                self.tell(test, "teardown", "failed", err)
            return
        for test in mine:
            self.tell(test, "setup", "failed", err)

    def skip_owner(self, owner):
        for test in self.tests:
            if test.id().startswith(owner + "."):
                self.tell(test, "setup", "skipped")

    def failed_import(self, name, info):
        """A test module that cannot be imported, with the exception itself."""
        path = name.replace(".", "/") + ".py"
        path = next((f for f in self.request["files"] if f == path or f.endswith("/" + path)), path)
        if issubclass(info[0], unittest.SkipTest):
            self.channel.emit("collect_skip", path=path, reason=report.message_of(info[1]))
        else:
            self.broken = True
            self.channel.emit("collect_error", path=path, failure=report.describe(*info, root=self.root))

    def watch_imports(self):
        """Be told of modules that cannot be imported or whose `load_tests` fails; unittest keeps only a text."""
        loader = sys.modules["unittest.loader"]
        for function in ("_make_failed_import_test", "_make_failed_load_tests"):
            original = getattr(loader, function, None)
            if original is not None:
                setattr(loader, function, self._watching(original))
        self._contain_imports(unittest.TestLoader)

    def _contain_imports(self, loader_class):
        """A module that raises anything but an ImportError, or ends the process, cannot be loaded; the rest can."""
        session, original = self, loader_class.loadTestsFromName

        def loadTestsFromName(self, name, module=None):
            try:
                return original(self, name, module)
            except BaseException as error:
                session.failed_import(name, sys.exc_info())
                return self.suiteClass([sys.modules["unittest.loader"]._FailedTest(name, error)])

        loader_class.loadTestsFromName = loadTestsFromName

    def _watching(self, original):
        def wrapped(name, *rest):
            info = sys.exc_info()
            if info[0] is not None:
                self.failed_import(name, info)
            return original(name, *rest)

        return wrapped

    def end(self, code):
        """Say the last word and leave at once: exit handlers of the code under test have no say in the status.

        `code` is the runner's own; what could not be loaded is a failure, and no test at all is 5, as under pytest.
        """
        if self.broken:
            code = 1
        elif not self.tests and code == 0:
            code = 5
        if self.tracer:
            self.channel.emit_many("executed", "files", sorted(self.tracer.files))
        self.sockets.tell(self.channel)
        self.channel.emit("end", exit=code, imports=report.imported_elsewhere(self.request["tops"], self.root))
        report.flush_all()
        os._exit(code)
