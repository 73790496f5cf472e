"""Making two failures comparable: paths, addresses, times and orders that change from run to run are taken out."""

from __future__ import annotations

import hashlib
import re

from execcritic_scaffold.outcome import Failure, NodeResult

_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(\.py:|\bline )\d+"), r"\1N"),
    (re.compile(r"\x1b\[[0-9;]*[A-Za-z]"), ""),
    (re.compile(r"0x[0-9a-fA-F]{4,}"), "0xADDR"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:?\d{2})?"), "TIME"),
    (re.compile(r"(?:/tmp|/var/tmp|/dev/shm|/home/agent)(?:/[^\s'\"):,;\]>]*)?"), "TMP"),
    (re.compile(r"\b\d+(?:\.\d+)?\s?(?:ms|us|ns|s|seconds?)\b"), "DURATION"),
    (re.compile(r"\bpid[= ]\d+"), "pid=N"),
    (re.compile(r"""\bid=(['"]?)\d{6,}\1"""), "id=N"),
)
_CUT = ("...", "left out", "Full diff truncated", "characters left out")
_TOKEN = re.compile(r"\w+|[^\w\s]")


def normalise(text: str, workdir: str = "/testbed") -> str:
    """The text without absolute paths of the workspace, temporary paths, addresses, times and colours."""
    text = text.replace(workdir.rstrip("/") + "/", "")
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def signature(result: NodeResult, workdir: str = "/testbed") -> str:
    """Stable id of how a node failed: outcome, exception class, where, and the message as a bag of tokens.

    The bag makes the printed order of sets and dictionaries irrelevant. A message that was cut off says
    nothing certain, so it is left out of the signature then.
    """
    failure = result.failure
    if failure is None:
        return f"{result.outcome}"
    place = _place(failure)
    message = normalise(failure.message, workdir)
    words = "" if any(mark in message for mark in _CUT) else " ".join(sorted(_TOKEN.findall(message)))
    digest = hashlib.sha256("\0".join((str(result.outcome), failure.kind, place, words)).encode("utf-8", "replace"))
    return f"{result.outcome}:{failure.kind}:{place}:{digest.hexdigest()[:16]}"


def location(sig: str) -> str:
    """A signature without its message part: outcome, class and place."""
    return sig.rsplit(":", 1)[0]


def _place(failure: Failure) -> str:
    for frame in reversed(failure.frames):
        if frame.inside:
            return f"{frame.path}#{frame.function}"
    return "-"
