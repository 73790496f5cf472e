"""What a model sees of a command: decoded, bounded, with its exit code and what it left behind said."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from execcritic_scaffold.sandbox.protocol import ActionResult, Spooled

# Control characters other than tab, line feed and carriage return; some servers refuse a conversation that holds them.
_CONTROL = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127], "\ufffd")
_COMMAND = 100
"""Characters of a command by which its elided output can be recognised."""
_REPLS = frozenset({"python", "python3", "ipython", "node", "irb", "sqlite3", "psql", "bash", "sh", "bc", "cat"})


@dataclass(frozen=True)
class Origin:
    """Where an output came from: all that is said of it once it is elided."""

    command: str
    exit_code: int | None
    spooled: Spooled | None = None

    def stub(self, size: int, gone: Container[str]) -> str:
        """One line in place of an output of `size` characters; `gone` are files that are no longer there."""
        command = " ".join(self.command.split())
        command = command if len(command) <= _COMMAND else f"{command[:_COMMAND]}…"
        ended = "timed out" if self.exit_code is None else f"exit code {self.exit_code}"
        kept = self.spooled is not None and self.spooled.path not in gone
        again = f"Read it in {self.spooled.path}" if kept and self.spooled else "Run the command again"
        return f"[{size} characters of output removed to make room: `{command}`, {ended}. {again} if you need it.]"


def render(result: ActionResult, most: int, seconds: float, command: str = "") -> str:
    """The output's head and tail within `most` characters, then how the command ended. Never fails on any bytes."""
    text = result.output.decode("utf-8", "replace").translate(_CONTROL)
    shown = cut(text, most, result.dropped, result.spooled) if text.strip() else "(no output)"
    if result.timed_out:
        end = (
            f"[timed out after {seconds:g} s: the command and all it had started were killed. Ask for a longer "
            "timeout, do less at once, or run it in the background with its output in a file. Programs that wait for "
            "a person (editors, pagers, prompts, watchers) cannot be used: there is no terminal and no input.]"
        )
    else:
        end = f"[exit code {result.exit_code}]"
    lines = [shown.rstrip(), end]
    if command.strip() in _REPLS:
        lines.append(f"[its input was empty and there is no terminal: give `{command.strip()}` a script or a file]")
    if result.left_behind:
        lines.append(_left_behind(result))
    return "\n".join(lines)


def cut(text: str, most: int, dropped: int = 0, spooled: Spooled | None = None) -> str:
    """`text` when it has at most `most` characters and nothing was `dropped` (bytes) from its middle before; else
    head and tail, with a line between them that says how much is missing and where it is."""
    if len(text) <= most and not dropped:
        return text
    keep = min(most, len(text)) // 2
    head, tail = text[:keep], text[len(text) - keep :]
    missing = text[keep : len(text) - keep]
    what = f"{len(missing)} characters ({missing.count(chr(10))} lines)"
    if dropped:
        what += f" and {dropped} bytes"
    where = "narrow the command down, or write to a file and read parts of it"
    if spooled is not None:
        what_is_kept = f"its first {spooled.kept} bytes are" if spooled.dropped else "all of it is"
        where = f"{what_is_kept} in {spooled.path}: read parts of it"
        if spooled.dropped:
            where += f"; {spooled.dropped} bytes were dropped"
    return f"{head}\n[… {what} left out: {where} …]\n{tail}"


def _left_behind(result: ActionResult) -> str:
    more = result.left_behind - len(result.left_names)
    names = [*result.left_names, *([f"and {more} more"] if more > 0 else [])]
    processes = "1 process" if result.left_behind == 1 else f"{result.left_behind} processes"
    return f"[{processes} still running in the background: {', '.join(names)}]"
