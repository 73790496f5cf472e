"""Isolated start. The program runs inside strangers' repositories, so neither PYTHONPATH nor the current directory may
be where it imports from: unless Python was started that way, it starts over under `python -E -P` (DESIGN 2)."""

import os
import sys


def main() -> int:
    """The console script. Returns the exit code; see `execcritic.cli`."""
    if not (sys.flags.ignore_environment and sys.flags.safe_path):
        os.execv(sys.executable, [sys.executable, "-E", "-P", "-m", "execcritic", *sys.argv[1:]])
    from execcritic.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
