"""Run Django's own suite through its `tests/runtests.py` with a reporter of ours. Started by the supervisor.

The request (JSON on standard input): nonce, files, nodes (null: all in the files), order, roots, settings, canaries,
trace, tops. Node ids are unittest's, relative to `tests/`: `admin_views.tests.AdminTest.test_login`.
"""

import os
import runpy
import sys
import unittest

sys.path[0] = os.path.dirname(os.path.abspath(__file__))
import report  # noqa: E402
import unittest_report  # noqa: E402

sys.path.pop(0)
report.forget("report", "causes", "controls", "unittest_report", "unittest_items", "sockets")


def label(path):
    """The runner's label of a test file: dotted, relative to `tests/`."""
    path = path[len("tests/") :] if path.startswith("tests/") else path
    path = path[: -len("/__init__.py")] if path.endswith("/__init__.py") else path
    path = path[: -len(".py")] if path.endswith(".py") else path
    return path.replace("/", ".")


def main():
    channel = report.Channel()
    request = report.read_request()
    channel.nonce = request["nonce"]
    root = os.getcwd()
    os.chdir("tests")
    report.put_first([os.path.normpath(os.path.join(root, r)) for r in request["roots"]])
    sys.path.insert(0, os.path.join(root, "tests"))
    channel.emit("start", runner="django", version="", python="%d.%d.%d" % sys.version_info[:3], plugins={})
    session = unittest_report.Session(channel, request, root)
    session.watch_imports()

    class Runner(unittest.TextTestRunner):
        resultclass = session.result_class()

        def run(self, test):
            return super(Runner, self).run(session.choose(test))

    unittest.TextTestRunner = Runner
    sys.argv = ["runtests.py", "--settings=" + request["settings"], "--parallel=1", "--noinput", "-v", "0"]
    sys.argv += [label(f) for f in request["files"]]
    code = 1
    try:
        runpy.run_path("runtests.py", run_name="__main__")
        code = 0
    except SystemExit as error:
        code = int(error.code) if isinstance(error.code, (int, bool)) else (1 if error.code else 0)
    except BaseException:
        session.broken = True
        channel.emit("collect_error", path="", failure=report.describe(*sys.exc_info(), root=root))
    session.end(code)


if __name__ == "__main__":
    main()
