"""Where every error of a command ends: one sentence on stderr, the right exit code, no traceback.

| what                               | exit |
|------------------------------------|------|
| an `ExecCriticError`               | its `exit_code` |
| options that do not parse          | 2    |
| no permission, read-only folder    | 2    |
| disk full, quota used up           | 5    |
| stdout does not take the result    | 5    |
| Ctrl-C, SIGTERM, SIGHUP            | 130  |
| anything else: a defect of ours    | 70, with the traceback in a file that the sentence names |
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

from execcritic import credentials, output
from execcritic.cli.tty import Found
from execcritic_scaffold.errors import ExecCriticError, InfrastructureError, Interrupted, UsageError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_terminal = Found()


def guarded(argv: Sequence[str], command: Callable[[], int | None]) -> int:
    """Run `command` and return the exit code; `argv` says whether errors are wanted as JSON too."""
    _listen()
    if "--progress=jsonl" in argv or ("--progress", "jsonl") in pairwise(argv):
        output.speak_in_events()  # errors of the command line too
    code = _ended(argv, command)
    lost = output.lost()  # what the help left unwritten
    if lost is not None:
        output.say(str(lost))
        return lost.exit_code
    return code


def _ended(argv: Sequence[str], command: Callable[[], int | None]) -> int:
    try:
        return command() or 0
    except KeyboardInterrupt:
        # Raised while text is evaluated (a dataclass being made), it stays noted in the interpreter though it was
        # caught, and `python -m` then dies of SIGINT instead of exiting. Evaluating anything takes the note back.
        eval("None")
        known: ExecCriticError = Interrupted(
            "Interrupted; what was done is in the run's folder, `resolve --resume DIR` goes on from there."
        )
    except Exception as error:
        known = _known(error) or ExecCriticError(_crash(argv, error))
    finally:
        _terminal.restore()
    _report("--json" in argv, known)
    return known.exit_code


def _listen() -> None:
    """Have signals raise KeyboardInterrupt, which libraries do not swallow as they do an Exception.

    Python itself drops what is raised inside a destructor or a weak reference's callback, and reports it to
    `sys.unraisablehook`; then it is raised again a moment later.
    """

    def dropped(event: Any) -> None:
        if isinstance(event.exc_value, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.01)
        else:
            sys.__unraisablehook__(event)

    for number in SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, _interrupt)
    signal.signal(signal.SIGALRM, _interrupt)
    sys.unraisablehook = dropped


def _interrupt(number: int, frame: FrameType | None) -> None:
    for every in SIGNALS:
        signal.signal(every, _leave)
    raise KeyboardInterrupt


def _leave(number: int, frame: FrameType | None) -> None:
    """The second signal ends the process at once, whatever the clean-up is doing."""
    for every in SIGNALS:
        signal.signal(every, signal.SIG_DFL)
    _terminal.restore()
    with suppress(OSError):
        said = "Interrupted again, so nothing is cleaned up; `execcritic clean` removes what is left."
        os.write(2, f"{output.spoken(said)}\n".encode())
    os._exit(Interrupted.exit_code)


def _known(error: Exception) -> ExecCriticError | None:
    if isinstance(error, ExecCriticError):
        return error
    if isinstance(error, OSError) and error.filename is None and (lost := output.lost()):
        return lost  # of the help, which is not written through `output`
    if format_message := getattr(error, "format_message", None):  # typer's own usage errors
        return UsageError(f"{str(format_message()).rstrip('.') or 'No command is given'}; see `execcritic --help`.")
    if isinstance(error, OSError) and error.filename is not None:
        where = os.fsdecode(error.filename)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return InfrastructureError(f"The disk is full at {where}; free some space and start again.")
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return UsageError(f"{where} cannot be written or read ({error.strerror}); name another with --out.")
    elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InfrastructureError("The disk is full; free some space and start again.")
    return None


def _crash(argv: Sequence[str], error: Exception) -> str:
    """Keep the traceback in a file; returns the sentence that names it."""
    name = f"execcritic-crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    text = f"execcritic {' '.join(argv)}\nPython {sys.version}\n\n{''.join(traceback.format_exception(error))}"
    text = credentials.hidden(text, argv, os.environ)
    path = Path(tempfile.gettempdir()) / name
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", errors="backslashreplace") as out:
            out.write(text)
    except OSError:
        output.say(text)
        return f"Internal error ({type(error).__name__}); the details stand above, please report them."
    said = credentials.hidden(str(error), argv, os.environ)
    return f"Internal error ({type(error).__name__}: {said}); please report it with {path}."


def _report(as_json: bool, error: ExecCriticError) -> None:
    message = " ".join(str(error).split())
    output.say(message)
    if as_json and not isinstance(error, output.OutputLost):
        with suppress(output.OutputLost):  # the sentence and the exit code say what there is to say
            output.result(True, {"error": message, "exit_code": error.exit_code}, "")
