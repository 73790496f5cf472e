"""The wrappers by which the pytest reporter sees every phase: outermost, around every other plugin's.

Runs inside the sandbox, on Pythons from 3.6 and pytests from 4 on; imported by `run_pytest.py`.
"""


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
            reporter.before_all(session)
            outcome = yield
            if outcome.excinfo is None:
                reporter.after_all(session)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_protocol(self, item):
            reporter.on_protocol(item)
            yield

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_setup(self, item):
            reporter.phase = "setup"
            outcome = yield
            reporter.on_phase(item, "setup", outcome)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_call(self, item):
            reporter.phase = "call"
            if reporter.tracer:
                reporter.tracer.start()
            outcome = yield
            reporter.on_phase(item, "call", outcome)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_teardown(self, item):
            reporter.phase = "teardown"
            outcome = yield
            reporter.on_phase(item, "teardown", outcome)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_makereport(self, item, call):
            outcome = yield
            reporter.on_makereport(item, call)
            if outcome.excinfo is None and outcome.get_result() is not None:
                reporter.on_report(item, outcome.get_result())

    return Hooks()
