"""What a model sees of a command: decoded, bounded, with its exit code said."""

from __future__ import annotations

from execcritic_scaffold.sandbox.protocol import ActionResult

# Control characters other than tab, line feed and carriage return; some servers refuse a conversation that holds them.
_CONTROL = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127], "\ufffd")


def render(result: ActionResult, most: int, seconds: float) -> str:
    """The output's head and tail within `most` characters, then how the command ended. Never fails on any bytes."""
    text = result.output.decode("utf-8", "replace").translate(_CONTROL)
    shown = cut(text, most, result.dropped) if text.strip() else "(no output)"
    if result.timed_out:
        end = (
            f"[timed out after {seconds:g} s: the command and all it had started were killed. Ask for a longer "
            "timeout, do less at once, or run it in the background with its output in a file.]"
        )
    else:
        end = f"[exit code {result.exit_code}]"
    return f"{shown.rstrip()}\n{end}"


def cut(text: str, most: int, dropped: int = 0) -> str:
    """`text` when it has at most `most` characters and nothing was `dropped` (bytes) from its middle before; else
    head and tail, with a line between them that says how much is missing."""
    if len(text) <= most and not dropped:
        return text
    keep = min(most, len(text)) // 2
    head, tail = text[:keep], text[len(text) - keep :]
    missing = text[keep : len(text) - keep]
    what = f"{len(missing)} characters ({missing.count(chr(10))} lines)"
    if dropped:
        what += f" and {dropped} bytes that were too many to keep"
    return f"{head}\n[… {what} left out: narrow the command down, or write to a file and read parts of it …]\n{tail}"
