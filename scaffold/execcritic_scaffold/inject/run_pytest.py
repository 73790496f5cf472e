"""Run pytest with a reporter of ours, from outside the repository. Started as a script by the supervisor.

The request (JSON on standard input): nonce, files, nodes (null: all in the files), order ("given" or "reversed"),
roots, runner_in_tree, args, ini (defaults for options of plugins that are switched off), canaries, trace, tops.
"""

import inspect
import os
import sys

sys.path.pop(0)
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import report  # noqa: E402

sys.path.pop(0)


class Reporter(object):
    """A pytest plugin that tells the supervisor what really happened, phase by phase."""

    def __init__(self, channel, request, root, pytest):
        self.channel = channel
        self.request = request
        self.root = root
        self.pytest = pytest
        self.index = {}
        self.raw_failed = False
        self.excinfo = None
        self.tracer = report.Tracer(root) if request["trace"] else None

    # -- configuration --------------------------------------------------------------------------------------

    def pytest_addoption(self, parser):
        for name in self.request["ini"]:
            try:
                parser.addini(name, "option of a plugin that is switched off", default=None)
            except ValueError:
                pass

    def pytest_configure(self, config):
        for marker in self.request["markers"]:
            config.addinivalue_line("markers", marker)
        names = {}
        for dist in {d for _, d in config.pluginmanager.list_plugin_distinfo()}:
            names[dist.project_name] = str(dist.version)
        self.channel.emit(
            "start",
            runner="pytest",
            version=self.pytest.__version__,
            python="%d.%d.%d" % sys.version_info[:3],
            plugins=names,
            rootdir=str(getattr(config, "rootpath", "") or getattr(config, "rootdir", "")),
        )

    # -- collection -----------------------------------------------------------------------------------------

    def collect_error(self, node, excinfo):
        error = excinfo[1]
        cause = getattr(error, "__cause__", None)
        if type(error).__name__ == "CollectError" and cause is not None:
            excinfo = (type(cause), cause, cause.__traceback__)
        self.channel.emit("collect_error", path=node, failure=report.describe(*excinfo, root=self.root))

    def on_collect(self, collector, outcome):
        if outcome.excinfo is not None:
            self.collect_error(collector.nodeid, outcome.excinfo)
            return
        rep = outcome.get_result()
        call = getattr(rep, "call", None)
        if rep.outcome == "passed" or call is None or call.excinfo is None:
            return
        info = call.excinfo
        if rep.outcome == "skipped":
            self.channel.emit("collect_skip", path=collector.nodeid, reason=report.message_of(info.value))
        else:
            self.collect_error(collector.nodeid, (info.type, info.value, info.tb))

    def on_modify(self, session, items):
        self.channel.emit_many("collected", "nodes", [item.nodeid for item in items])
        wanted = self.request["nodes"]
        if wanted is not None:
            rank = {node: number for number, node in enumerate(wanted)}
            items[:] = sorted((i for i in items if i.nodeid in rank), key=lambda i: rank[i.nodeid])
        if self.request["order"] == "reversed":
            items.reverse()
        canaries = self.request["canaries"]
        if canaries and items:
            near = items[-1].nodeid.split("::")[0]
            items.insert(0, canary(self.pytest, session, near, canaries["pass"], False))
            items.append(canary(self.pytest, session, near, canaries["fail"], True))
        for number, item in enumerate(items):
            self.index[item] = number
        self.channel.emit_many("selected", "nodes", [item.nodeid for item in items])

    # -- execution ------------------------------------------------------------------------------------------

    def on_phase(self, item, phase, outcome):
        self.raw_failed = outcome.excinfo is not None or bool(phase == "call" and getattr(item, "_excinfo", None))
        if phase == "call" and self.tracer:
            self.tracer.stop()

    def on_makereport(self, item, call):
        self.excinfo = call.excinfo

    def pytest_runtest_logstart(self, nodeid, location):
        self.channel.emit("begin", node=nodeid)

    def on_report(self, item, rep):
        if rep.when != "call" and rep.outcome == "passed" and not self.raw_failed:
            self.excinfo = None
            return
        fields = {
            "item": self.index.get(item, -1),
            "node": item.nodeid,
            "phase": rep.when,
            "outcome": rep.outcome,
            "raw_failed": self.raw_failed,
            "xfail": hasattr(rep, "wasxfail"),
            "seconds": round(getattr(rep, "duration", 0.0), 6),
        }
        info = self.excinfo
        if info is not None and (rep.outcome != "passed" or self.raw_failed):
            text = getattr(rep, "longreprtext", None) if rep.outcome == "failed" else None
            fields["failure"] = report.describe(info.type, info.value, info.tb, self.root, text)
            if rep.when == "call" and type(item).__name__ == "TestCaseFunction" and rep.outcome == "failed":
                fields["part"] = report.phase_of(info.tb)
        if rep.when == "call" and never_awaited(item):
            fields["not_awaited"] = True
        self.excinfo = None
        self.channel.emit("phase", **fields)

    def pytest_runtest_logreport(self, report):
        # Sub-tests are reported beside their test, with reports of a class of their own.
        if type(report).__name__.lower() == "subtestreport" and report.outcome == "failed":
            self.channel.emit("subtest", node=report.nodeid, text=getattr(report, "longreprtext", "")[-4000:])


def hooks(reporter, pytest):
    """The wrappers, outermost around every other plugin's."""

    class Hooks(object):
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_make_collect_report(self, collector):
            outcome = yield
            reporter.on_collect(collector, outcome)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_collection_modifyitems(self, session, config, items):
            yield
            reporter.on_modify(session, items)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_setup(self, item):
            outcome = yield
            reporter.on_phase(item, "setup", outcome)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_call(self, item):
            if reporter.tracer:
                reporter.tracer.start()
            outcome = yield
            reporter.on_phase(item, "call", outcome)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_teardown(self, item):
            outcome = yield
            reporter.on_phase(item, "teardown", outcome)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_makereport(self, item, call):
            outcome = yield
            reporter.on_makereport(item, call)
            if outcome.excinfo is None and outcome.get_result() is not None:
                reporter.on_report(item, outcome.get_result())

    return Hooks()


def never_awaited(item):
    """True for a coroutine test that nothing ran: pytest refused it, or unittest only called it."""
    function = getattr(item, "obj", None)
    if not inspect.iscoroutinefunction(function):
        return False
    owner = getattr(item, "cls", None)
    if owner is not None and any(c.__name__ == "IsolatedAsyncioTestCase" for c in owner.__mro__):
        return False
    if type(item).__name__ == "TestCaseFunction":
        return True
    names = {name for name, _ in item.config.pluginmanager.list_name_plugin()}
    return not names & {"asyncio", "pytest_asyncio", "anyio", "trio", "tornasync", "twisted", "aiohttp"}


def canary(pytest, session, near, name, fails):
    """A test of the harness's own: one must pass and one must fail, or somebody rewrites outcomes (HARNESS 3.4)."""

    class Item(pytest.Item):
        fixturenames = ()
        funcargs = {}
        module = cls = instance = obj = function = None

        def runtest(self):
            assert not fails, name

        def reportinfo(self):
            return near, 0, name

    return Item.from_parent(session, name=name, nodeid="%s::%s" % (near, name))


def main():
    channel = report.Channel()
    request = report.read_request()
    channel.nonce = request["nonce"]
    root = os.getcwd()
    roots = [os.path.normpath(os.path.join(root, r)) for r in request["roots"]]
    if request["runner_in_tree"]:
        sys.path[0:0] = roots
    import pytest

    if not request["runner_in_tree"]:
        sys.path[0:0] = roots
    reporter = Reporter(channel, request, root, pytest)
    args = list(request["args"]) + [os.path.join(root, f) for f in request["files"]]
    code = int(pytest.main(args, plugins=[reporter, hooks(reporter, pytest)]))
    if reporter.tracer:
        channel.emit_many("executed", "files", sorted(reporter.tracer.files))
    channel.emit("end", exit=code, imports=report.imported_from(request["tops"]))
    report.flush_all()
    os._exit(code)  # leaves at once: exit handlers of the code under test have no say in the status


if __name__ == "__main__":
    main()
