"""Run SymPy's own test runner (what `bin/test` runs) with a reporter of ours. Started by the supervisor.

The request (JSON on standard input): nonce, files, nodes (null: all in the files), order, roots, canaries, trace, tops.
Node ids are `path::function`. Functions run in the order of their file, as SymPy has them; "reversed" turns the files.
"""

import os
import shutil
import sys
import tempfile
import time

sys.path[0] = os.path.dirname(os.path.abspath(__file__))
import report  # noqa: E402
import sockets  # noqa: E402

sys.path.pop(0)
report.forget("report", "causes", "sockets")

SEED = 1


def machinery():
    """SymPy's runner and reporter classes, wherever this version keeps them."""
    try:
        from sympy.testing.runtests import PyTestReporter, SymPyTests
    except ImportError:
        from sympy.utilities.runtests import PyTestReporter, SymPyTests
    return SymPyTests, PyTestReporter


class Session(object):
    """One run: which functions were found and chosen, and the channel to the supervisor."""

    def __init__(self, channel, request, root):
        self.channel = channel
        self.wanted = request["nodes"]
        self.controlling = False
        self.root = root
        self.path = ""
        self.items = 0
        self.done = set()
        self.current = None
        self.failed = False
        self.tracer = report.Tracer(root) if request["trace"] else None
        self.sockets = sockets.Sockets(request)

    def choose(self, function):
        """Whether a function that SymPy found is to run; those named one by one run even when they are slow."""
        node = "%s::%s" % (self.path, function.__name__)
        if node in self.done:
            return False
        if not self.controlling:
            self.channel.emit("collected", nodes=[node])
        chosen = self.controlling or self.wanted is None or node in self.wanted
        if chosen:
            self.channel.emit("selected", nodes=[node])
            if self.wanted is not None and getattr(function, "_slow", False):
                function._slow = False
        else:
            self.done.add(node)
        return chosen

    def begin(self, function):
        node = "%s::%s" % (self.path, function.__name__)
        self.done.add(node)
        self.current = (node, time.time())
        self.channel.emit("begin", node=node)
        if self.tracer:
            self.tracer.start()

    def tell(self, outcome, err=None, xfail=False):
        if self.tracer:
            self.tracer.stop()
        if self.current is None:  # raised while the file was read
            self.failed = True
            self.channel.emit("collect_error", path=self.path, failure=report.describe(*err, root=self.root))
            return
        node, started = self.current
        self.current = None
        self.failed = self.failed or outcome == "failed"
        fields = {"item": self.items, "node": node, "phase": "call", "outcome": outcome, "xfail": xfail}
        fields.update(raw_failed=outcome == "failed", seconds=round(time.time() - started, 6))
        if err is not None:
            fields["failure"] = report.describe(*err, root=self.root)
        self.items += 1
        self.channel.emit("phase", **fields)

    def run(self, tests, path, filename):
        """One file through SymPy's own machinery; again for the rest where a test ended it."""
        self.path = path
        while True:
            try:
                tests.test_file(filename)
                return
            except BaseException:
                ended = self.current is not None
                self.tell("failed", sys.exc_info())
                if not ended:
                    return

    def control(self, tests, near, name, fails):
        """A test of the harness's own, one that must pass or one that must fail (HARNESS 3.4)."""
        folder = tempfile.mkdtemp()
        filename = os.path.join(folder, name + ".py")
        with open(filename, "w") as file:
            file.write("def %s():\n    assert %r, %r\n" % (name, not fails, name))
        self.controlling = True
        self.run(tests, near, filename)
        self.controlling = False
        shutil.rmtree(folder)


def reporting(reporter_class, session):
    """SymPy's reporter, which also tells the session."""

    class Reporter(reporter_class):
        def entering_test(self, f):
            session.begin(f)
            reporter_class.entering_test(self, f)

        def test_pass(self, char="."):
            session.tell("passed")
            reporter_class.test_pass(self, char)

        def test_xfail(self):
            session.tell("skipped", xfail=True)
            reporter_class.test_xfail(self)

        def test_xpass(self, v):
            session.tell("passed", xfail=True)
            reporter_class.test_xpass(self, v)

        def test_skip(self, v=None):
            session.tell("skipped")
            reporter_class.test_skip(self, v)

        def test_fail(self, exc_info):
            session.tell("failed", exc_info)
            reporter_class.test_fail(self, exc_info)

        def test_exception(self, exc_info):
            session.tell("failed", exc_info)
            if hasattr(self, "_active_f"):
                reporter_class.test_exception(self, exc_info)

        def import_error(self, filename, exc_info):
            session.tell("failed", exc_info)

    return Reporter(colors=False)


def main():
    channel = report.Channel()
    request = report.read_request()
    channel.nonce = request["nonce"]
    root = os.getcwd()
    report.put_first([os.path.normpath(os.path.join(root, r)) for r in request["roots"]])
    test_class, reporter_class = machinery()
    import sympy

    channel.emit(
        "start", runner="sympy", version=sympy.__version__, python="%d.%d.%d" % sys.version_info[:3], plugins={}
    )
    session = Session(channel, request, root)
    tests = test_class(reporting(reporter_class, session), seed=SEED)
    tests.matches = session.choose
    files = [(f, os.path.join(root, f)) for f in request["files"]]
    if request["order"] == "reversed":
        files.reverse()
    canaries = request["canaries"]
    sys.argv[:] = ["bin/test"] + request["files"]
    if canaries and files:
        session.control(tests, files[0][0], canaries["early"], True)
        session.control(tests, files[0][0], canaries["pass"], False)
    for path, filename in files:
        session.run(tests, path, filename)
    if canaries and files:
        session.control(tests, files[-1][0], canaries["fail"], True)
    code = 1 if session.failed else 0 if session.items else 5
    if session.tracer:
        channel.emit_many("executed", "files", sorted(session.tracer.files))
    session.sockets.tell(channel)
    channel.emit("end", exit=code, imports=report.imported_elsewhere(request["tops"], root))
    report.flush_all()
    os._exit(code)  # leaves at once: exit handlers of the code under test have no say in the status


if __name__ == "__main__":
    main()
