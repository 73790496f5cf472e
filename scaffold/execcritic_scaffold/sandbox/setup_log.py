"""What set-up commands print: kept beside what they made, copied to the run, and its last words for an error."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

NAME = "setup.log"
_ERROR = re.compile(r"(error|fatal)\b[:\s]|\w*Error:|.*(not found|No such file)", re.IGNORECASE)
_TELLS_NOTHING = re.compile(r"hint:|note:|\[notice\]|╰─>\s*See above", re.IGNORECASE)
_COMMAND = re.compile(r"\+ (.*)")
_WORDS = 300
"""Characters of output quoted in an error."""


def keep(kept: Path, output: bytes) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(output)


def copy(kept: Path, log: Path) -> None:
    """The kept log to where the caller wants it; one that is gone is not missed."""
    if kept.is_file() and kept != log:
        log.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(kept, log)


def failure(output: bytes, how: str, kept: Path) -> str:
    """One sentence: how it ended, at which command, its last words, where the whole output lies, what to do."""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    commands = [found[1] for line in lines if (found := _COMMAND.fullmatch(line))]
    at = f" at `{_short(commands[-1], 120)}`" if commands else ""
    lines = [line for line in lines if not _TELLS_NOTHING.match(line) and not _COMMAND.fullmatch(line)]
    errors = [line for line in lines[-40:] if _ERROR.match(line)]
    said = " | ".join(list(dict.fromkeys(errors))[-2:] or lines[-2:]) or "no output"
    return (
        f"The set-up {how}{at}: {_short(said, _WORDS)}; the whole output is in {kept}. "
        "Give the commands with --setup, or a ready interpreter with --python."
    )


def _short(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 1]}…"
