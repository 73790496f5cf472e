"""Run pytest with a reporter of ours, from outside the repository. Started as a script by the supervisor.

The request (JSON on standard input): nonce, files, nodes (null: all in the files), order ("given" or "reversed"),
roots, runner_in_tree, args, ini (defaults for options of plugins that are switched off), canaries, trace, tops.
Node ids are pytest's own, relative to the workspace wherever pytest found its rootdir.
"""

import os
import sys

sys.path[0] = os.path.dirname(os.path.abspath(__file__))
import pytest_items  # noqa: E402
import report  # noqa: E402

sys.path.pop(0)
report.forget("pytest_items", "report", "causes")


class Reporter(object):
    """A pytest plugin that tells the supervisor what really happened, phase by phase."""

    def __init__(self, channel, request, root, pytest):
        self.channel = channel
        self.request = request
        self.root = root
        self.pytest = pytest
        self.rootdir = root
        self.index = {}
        self.names = {}
        self.last = None
        self.raw_failed = False
        self.excinfo = None
        self.stopped = None
        self.calling = False
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
        self.rootdir = str(getattr(config, "rootpath", None) or config.rootdir)
        self.channel.emit(
            "start",
            runner="pytest",
            version=self.pytest.__version__,
            python="%d.%d.%d" % sys.version_info[:3],
            plugins=names,
            rootdir=self.rootdir,
        )

    def name(self, node):
        """The id of an item or collector, its path relative to the workspace: rootdir may lie deeper, and moves with
        the files that are asked for."""
        head, separator, tail = node.nodeid.partition("::")
        if self.rootdir != self.root:
            path = os.path.abspath(str(getattr(node, "path", None) or node.fspath))
            if path.startswith(self.root + os.sep):
                head = path[len(self.root) + 1 :].replace(os.sep, "/")
        return head + separator + tail

    # -- collection -----------------------------------------------------------------------------------------

    def collect_error(self, collector, excinfo):
        error = excinfo[1]
        cause = getattr(error, "__cause__", None)
        if type(error).__name__ == "CollectError" and cause is not None:
            excinfo = (type(cause), cause, cause.__traceback__)
        failure = report.describe(*excinfo, root=self.root)
        self.channel.emit("collect_error", path=self.name(collector), failure=failure)

    def on_collect(self, collector, outcome):
        if outcome.excinfo is not None:
            # The module ends or interrupts the process while it is imported: it cannot be collected, the rest can.
            self.collect_error(collector, outcome.excinfo)
            outcome.force_result(pytest_items.failed_collection(collector, outcome.excinfo))
            return
        rep = outcome.get_result()
        call = getattr(rep, "call", None)
        if rep.outcome == "passed" or call is None or call.excinfo is None:
            return
        info = call.excinfo
        if rep.outcome == "skipped":
            self.channel.emit("collect_skip", path=self.name(collector), reason=report.message_of(info.value))
        else:
            self.collect_error(collector, (info.type, info.value, info.tb))

    def on_modify(self, session, items):
        items[:] = list({id(item): item for item in items}.values())  # one that a hook lists twice runs once
        self.names = {item: self.name(item) for item in items}
        self.channel.emit_many("collected", "nodes", [self.names[item] for item in items])
        wanted = self.request["nodes"]
        if wanted is not None:
            rank = {node: number for number, node in enumerate(wanted)}
            chosen = [item for item in items if self.names[item] in rank]
            items[:] = sorted(chosen, key=lambda item: rank[self.names[item]])
        if self.request["order"] == "reversed":
            items.reverse()
        canaries = self.request["canaries"]
        if canaries and items:
            beside = items[-1]
            passing = pytest_items.canary(self.pytest, session, beside, canaries["pass"], False)
            self.last = pytest_items.canary(self.pytest, session, beside, canaries["fail"], True)
            self.names.update({passing: passing.nodeid, self.last: self.last.nodeid})
            items.insert(0, passing)
        chosen = items + ([self.last] if self.last is not None else [])
        self.index = {item: number for number, item in enumerate(chosen)}
        self.channel.emit_many("selected", "nodes", [self.names[item] for item in chosen])

    def after_all(self, session):
        """The control test that must fail, when whatever the others do to the runner is done. It is no item of the
        session, so that the clean-up of the session stays the last test's."""
        if self.last is not None:
            session.config.hook.pytest_runtest_protocol(item=self.last, nextitem=None)

    # -- execution ------------------------------------------------------------------------------------------

    def on_phase(self, item, phase, outcome):
        self.calling = False
        if phase == "call" and self.tracer:
            self.tracer.stop()
        self.raw_failed = outcome.excinfo is not None or bool(phase == "call" and getattr(item, "_excinfo", None))
        if outcome.excinfo is not None and pytest_items.ends_session(outcome.excinfo[0]):
            self.stopped = outcome.excinfo
            pytest_items.force(outcome, report.Stopped("%s was raised" % outcome.excinfo[0].__name__))

    def on_makereport(self, item, call):
        info = call.excinfo
        self.excinfo = (info.type, info.value, info.tb) if info is not None else None
        if self.stopped is not None and not self.calling:
            self.excinfo, self.stopped = self.stopped, None

    def on_protocol(self, item):
        self.channel.emit("begin", node=self.names.get(item, item.nodeid))

    def on_report(self, item, rep):
        excinfo, self.excinfo = self.excinfo, None
        if self.calling:
            # Made while the test goes on: a sub-test's.
            if rep.outcome == "failed" and excinfo is not None:
                failure = report.describe(*excinfo, root=self.root)
                self.channel.emit("subtest", item=self.index.get(item, -1), node=self.names[item], failure=failure)
            return
        if rep.when != "call" and rep.outcome == "passed" and not self.raw_failed:
            return
        fields = {
            "item": self.index.get(item, -1),
            "node": self.names.get(item, item.nodeid),
            "phase": rep.when,
            "outcome": rep.outcome,
            "raw_failed": self.raw_failed,
            "xfail": hasattr(rep, "wasxfail"),
            "seconds": round(getattr(rep, "duration", 0.0), 6),
        }
        if excinfo is not None and (rep.outcome != "passed" or self.raw_failed):
            text = getattr(rep, "longreprtext", None) if rep.outcome == "failed" else None
            fields["failure"] = report.describe(*excinfo, root=self.root, text=text)
            if rep.when == "call" and pytest_items.is_unittest(item) and rep.outcome == "failed":
                fields["part"] = report.phase_of(excinfo[2])
            if rep.when == "call" and rep.outcome == "failed" and pytest_items.unexpected_success(excinfo):
                fields.update(outcome="passed", xfail=True)
        if rep.when == "call" and pytest_items.never_awaited(item, excinfo):
            fields["not_awaited"] = True
        self.channel.emit("phase", **fields)


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
        def pytest_runtestloop(self, session):
            outcome = yield
            if outcome.excinfo is None:
                reporter.after_all(session)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_protocol(self, item):
            reporter.on_protocol(item)
            yield

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_setup(self, item):
            outcome = yield
            reporter.on_phase(item, "setup", outcome)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_call(self, item):
            reporter.calling = True
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


def import_pytest(roots, in_tree, tops):
    """pytest, imported before the checkout is on the import path, so that nothing in it can stand in for pytest.

    Where the checkout is one of pytest's own dependencies (or pytest itself), its copy is what tests must see.
    """
    before = set(sys.modules)
    if not in_tree:
        import pytest

        report.put_first(roots)
        fresh = set(sys.modules) - before
        if not fresh & set(tops):
            return pytest
        report.forget(*[name for name in fresh if report.is_installed(sys.modules[name])])
    else:
        report.put_first(roots)
    import pytest

    return pytest


def main():
    channel = report.Channel()
    request = report.read_request()
    channel.nonce = request["nonce"]
    root = os.getcwd()
    roots = [os.path.normpath(os.path.join(root, r)) for r in request["roots"]]
    pytest = import_pytest(roots, request["runner_in_tree"], request["tops"])
    reporter = Reporter(channel, request, root, pytest)
    args = list(request["args"]) + [os.path.join(root, f) for f in request["files"]]
    code = int(pytest.main(args, plugins=[reporter, hooks(reporter, pytest)]))
    if reporter.tracer:
        channel.emit_many("executed", "files", sorted(reporter.tracer.files))
    channel.emit("end", exit=code, imports=report.imported_elsewhere(request["tops"], root))
    report.flush_all()
    os._exit(code)  # leaves at once: exit handlers of the code under test have no say in the status


if __name__ == "__main__":
    main()
