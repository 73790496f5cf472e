"""Run unittest with a reporter of ours, from outside the repository. Started as a script by the supervisor.

The request (JSON on standard input): nonce, files, nodes (null: all in the files), order, roots, canaries, trace, tops.
Node ids are unittest's own: `package.module.Class.method`.
"""

import os
import sys
import unittest

sys.path[0] = os.path.dirname(os.path.abspath(__file__))
import report  # noqa: E402
import unittest_report  # noqa: E402

sys.path.pop(0)
report.forget("report", "causes", "controls", "unittest_report", "unittest_items", "sockets")


def module_name(path):
    return path[: -len(".py")].replace("/", ".") if path.endswith(".py") else path


def main():
    channel = report.Channel()
    request = report.read_request()
    channel.nonce = request["nonce"]
    root = os.getcwd()
    report.put_first([os.path.normpath(os.path.join(root, r)) for r in request["roots"]])
    folders = {os.path.dirname(os.path.join(root, f)) for f in request["files"]}
    sys.path.extend(sorted(folders - set(sys.path)))
    channel.emit("start", runner="unittest", version="", python="%d.%d.%d" % sys.version_info[:3], plugins={})
    session = unittest_report.Session(channel, request, root)
    session.watch_imports()
    sys.argv[:] = ["python -m unittest"] + request["files"]
    loader = unittest.TestLoader()
    suites = [loader.loadTestsFromName(module_name(path)) for path in request["files"]]
    chosen = session.choose(unittest.TestSuite(suites))
    code = 0
    if session.tests:
        runner = unittest.TextTestRunner(stream=sys.stderr, resultclass=session.result_class())
        code = 0 if runner.run(chosen).wasSuccessful() else 1
    session.end(code)


if __name__ == "__main__":
    main()
