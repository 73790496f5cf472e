"""Run pytest with a reporter of ours, from outside the repository. Started as a script by the supervisor.

The request (JSON on standard input): nonce, files, nodes (null: all in the files), order ("given" or "reversed"),
roots, runner_in_tree, args, ini (defaults for options of plugins that are switched off), canaries, trace, tops.
"""

import os
import sys

sys.path[0] = os.path.dirname(os.path.abspath(__file__))
import report  # noqa: E402
import sockets  # noqa: E402
from pytest_hooks import hooks  # noqa: E402
from pytest_report import Reporter  # noqa: E402

sys.path.pop(0)
report.forget(
    "report", "causes", "controls", "pytest_controls", "pytest_hooks", "pytest_items", "pytest_report", "sockets"
)


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
    start(channel, report.read_request())


def start(channel, request, further=None):
    """Run pytest and leave the process. `further` makes one more plugin."""
    channel.nonce = request["nonce"]
    heard = sockets.Sockets(request)
    root = os.getcwd()
    roots = [os.path.normpath(os.path.join(root, r)) for r in request["roots"]]
    pytest = import_pytest(roots, request["runner_in_tree"], request["tops"])
    reporter = Reporter(channel, request, root, pytest)
    sys.argv[:] = ["pytest"] + request["files"]
    args = list(request["args"]) + [os.path.join(root, f) for f in request["files"]]
    plugins = [reporter, hooks(reporter, pytest)]
    if further is not None:
        plugins.append(further(pytest, root, reporter.name))
    code = int(pytest.main(args, plugins=plugins))
    if reporter.tracer:
        channel.emit_many("executed", "files", sorted(reporter.tracer.files))
    heard.tell(channel)
    channel.emit("end", exit=code, imports=report.imported_elsewhere(request["tops"], root))
    report.flush_all()
    os._exit(code)  # leaves at once: exit handlers of the code under test have no say in the status


if __name__ == "__main__":
    main()
