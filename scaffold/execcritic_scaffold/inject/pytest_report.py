"""A pytest plugin that tells the supervisor what really happened, phase by phase.

Node ids are pytest's own, relative to the workspace wherever pytest found its rootdir. Runs inside the sandbox, on
Pythons from 3.6 and pytests from 4 on; imported by `run_pytest.py`.
"""

import os
import sys

import pytest_controls
import pytest_items
import report


class Reporter(object):
    """What is told, and when; `pytest_hooks.py` calls it."""

    def __init__(self, channel, request, root, pytest):
        self.channel = channel
        self.request = request
        self.root = root
        self.pytest = pytest
        self.rootdir = root
        self.index = {}
        self.names = {}
        self.early = self.late = None
        self.failed = 0
        self.raw_failed = False
        self.excinfo = None
        self.stopped = None
        self.phase = None
        """The phase that has begun and, as far as our wrapper was told, not ended."""
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
        if self.request["nodes"] is None:
            items[:] = pytest_items.usual(session.config, items, self.names, self.request)
        self.channel.emit_many("collected", "nodes", [self.names[item] for item in items])
        wanted = self.request["nodes"]
        if wanted is not None:
            rank = {node: number for number, node in enumerate(wanted)}
            chosen = [item for item in items if self.names[item] in rank]
            items[:] = sorted(chosen, key=lambda item: rank[self.names[item]])
        if self.request["order"] == "reversed":
            items.reverse()
        chosen = self.add_controls(items) if self.request["canaries"] and items else items
        self.index = {item: number for number, item in enumerate(chosen)}
        self.channel.emit_many("selected", "nodes", [self.names[item] for item in chosen])

    def add_controls(self, items):
        """Control tests beside the first item and the last; all items that will run."""
        canaries, make = self.request["canaries"], pytest_controls.make
        first, last = items[0], items[-1]
        passing = make(self.pytest, first, canaries["pass"], False)
        self.early = make(self.pytest, first, canaries["early"], True, raises=True)
        self.late = make(self.pytest, last, canaries["fail"], True)
        for control in (self.early, passing, self.late):
            self.names[control] = self.name(control)
            self.on_protocol(control)  # a hook of the suite that breaks on it, breaks on a control test
            control.ihook.pytest_itemcollected(item=control)
        items.insert(0, passing)
        return [self.early] + items + [self.late]

    def before_all(self, session):
        """The first control test that must fail. It and the last are no items of the session: suites that look at
        what failed, or stop after a number of failures, have theirs only."""
        if self.early is not None:
            failed = session.testsfailed
            session.config.hook.pytest_runtest_protocol(item=self.early, nextitem=session.items[0])
            self.failed, session.testsfailed = session.testsfailed - failed, failed
            if session.shouldfail:
                session._shouldfail = session.shouldfail = False  # the former, or pytest from 8 on refuses

    def after_all(self, session):
        """The control test that must fail when whatever the others do to the runner is done. The clean-up of the
        session has been the last test's."""
        if self.late is not None:
            session.testsfailed += self.failed
            session.config.hook.pytest_runtest_protocol(item=self.late, nextitem=None)

    # -- execution ------------------------------------------------------------------------------------------

    def on_phase(self, item, phase, outcome):
        self.phase = None
        if phase == "call" and self.tracer:
            self.tracer.stop()
        self.raw_failed = outcome.excinfo is not None or bool(phase == "call" and getattr(item, "_excinfo", None))
        if outcome.excinfo is not None and pytest_items.ends_session(outcome.excinfo[0]):
            self.stopped = outcome.excinfo
            pytest_items.force(outcome, report.Stopped("%s was raised" % outcome.excinfo[0].__name__))

    def on_makereport(self, item, call):
        if self.phase is not None and not pytest_items.goes_on(self.phase):
            # A wrapper inside ours raised (a warning that is an error): a pluggy before 1.4 resumes none around it.
            if self.phase == "call" and self.tracer:
                self.tracer.stop()
            self.phase, self.raw_failed = None, True
        info = call.excinfo
        self.excinfo = (info.type, info.value, info.tb) if info is not None else None
        if self.stopped is not None and self.phase is None:
            self.excinfo, self.stopped = self.stopped, None

    def on_protocol(self, item):
        self.channel.emit("begin", node=self.names.get(item, item.nodeid))

    def on_report(self, item, rep):
        excinfo, self.excinfo = self.excinfo, None
        if self.phase is not None:
            self.tell_subtest(item, rep, excinfo)
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

    def tell_subtest(self, item, rep, excinfo):
        """A report made while the test goes on is a sub-test's."""
        if rep.outcome == "passed":
            return
        fields = {"item": self.index.get(item, -1), "node": self.names.get(item, item.nodeid)}
        if excinfo is not None:
            fields["failure"] = report.describe(*excinfo, root=self.root)
        self.channel.emit("subtest", outcome=rep.outcome, xfail=hasattr(rep, "wasxfail"), **fields)
