"""Isolated start. The program runs inside strangers' repositories, so neither PYTHONPATH nor the current directory may
be where it imports from. The installed script (bin/execcritic) sees to that; where it was passed over with
`python -m execcritic`, the program starts over here."""

import atexit
import os
import sys
import threading


def main() -> int:
    """One command. Returns the exit code; see `execcritic.cli`."""
    if not (sys.flags.ignore_environment and sys.flags.safe_path):
        os.execv(sys.executable, [sys.executable, "-E", "-P", "-m", "execcritic", *sys.argv[1:]])
    code: list[int] = []
    atexit.register(_leave, code)  # the first to be registered is the last to run
    from execcritic.cli import run

    code.append(run(sys.argv[1:]))
    return code[0]


def _leave(code: list[int]) -> None:
    """End without waiting for an interrupted episode that still waits for a model or for a person's input, which
    Python itself cannot end: it would die of the lock on standard input."""
    if code and threading.active_count() > 1:
        sys.stdout.flush()
        os._exit(code[0])


if __name__ == "__main__":
    sys.exit(main())
