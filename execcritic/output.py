"""What a command says: one JSON object or a few lines on stdout, everything else on stderr.

With `--progress jsonl` what goes to stderr is one JSON object a line (docs/progress.md)."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from execcritic_roles.printable import printable
from execcritic_scaffold.errors import InfrastructureError

_as_events = False


class OutputLost(InfrastructureError):
    """Standard output does not take the result; nothing more can be said there."""


def result(as_json: bool, body: Mapping[str, Any], text: str) -> None:
    """Write the command's one result to stdout: `body` with `--json`, else `text`. Raises OutputLost."""
    if reason := write(sys.stdout, encoded(body, indent=1) if as_json else text):
        raise _lost(reason)


def lost() -> OutputLost | None:
    """Flush what others wrote to stdout; the error where it does not arrive."""
    reason = _flush(sys.stdout)
    return _lost(reason) if reason else None


def say(message: str) -> None:
    """Write one message for people to stderr; where that is impossible there is nobody to tell."""
    write(sys.stderr, spoken(message))


def spoken(message: str) -> str:
    """A message in the form that stderr has now."""
    return event("message", text=message) if _as_events else message


def speak_in_events() -> None:
    """From now on everything on stderr is an event."""
    global _as_events
    _as_events = True


def event(kind: str, /, **fields: Any) -> str:
    """An event in its one line."""
    return encoded({"time": round(time.time(), 3), "event": kind, **fields})


def encoded(body: Mapping[str, Any], indent: int | None = None) -> str:
    """JSON in visible ASCII, which nothing that is written there can change or reorder."""
    return json.dumps(body, ensure_ascii=True, indent=indent).replace("\x7f", "\\u007f")


def write(stream: TextIO, text: str) -> str | None:
    """Write a line and flush; returns why that is impossible, or None.

    A reader that has gone away is no failure: it does not change what the command decided.
    """
    # What models and tests say may hold bytes that are not UTF-8, signs the terminal cannot show, or its commands.
    encoding = stream.encoding or "utf-8"
    shown = printable(text).encode(encoding, "backslashreplace").decode(encoding)
    try:
        stream.write(shown + "\n")
    except OSError as error:
        return _given_up(stream, error)
    return _flush(stream)


def _flush(stream: TextIO) -> str | None:
    try:
        stream.flush()
    except OSError as error:
        return _given_up(stream, error)
    return None


def _lost(reason: str) -> OutputLost:
    return OutputLost(f"The result cannot be written to standard output ({reason}); send it somewhere else.")


def _given_up(stream: TextIO, error: OSError) -> str | None:
    # Later writes, and the interpreter's own flush at exit, must not fail a second time.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return None if isinstance(error, BrokenPipeError) else error.strerror or type(error).__name__
