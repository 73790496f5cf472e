"""What a command says: one JSON object or a few lines on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, TextIO

CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127, *range(128, 160)) if chr(code) not in "\t\n"}


def result(as_json: bool, body: Mapping[str, Any], text: str) -> None:
    """Write the command's one result to stdout: `body` with `--json`, else `text`."""
    write(sys.stdout, json.dumps(body, ensure_ascii=True, indent=1) if as_json else text)


def say(message: str) -> None:
    """Write one message for people to stderr."""
    write(sys.stderr, message)


def write(stream: TextIO, text: str) -> None:
    """Write a line and flush. A reader that has gone away does not change what the command decided."""
    # What models and tests say may hold bytes that are not UTF-8, signs the terminal cannot show, or its commands.
    encoding = stream.encoding or "utf-8"
    printable = text.translate(CONTROLS).encode(encoding, "backslashreplace").decode(encoding)
    try:
        stream.write(printable + "\n")
        stream.flush()
    except BrokenPipeError:
        # Later writes, and the interpreter's own flush at exit, must not fail a second time.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
