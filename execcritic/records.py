"""Values of the harness as plain JSON values, for journals and `--json`, and verdicts back again.

Plain dictionaries rather than pydantic: names of files and tests may hold surrogates (bytes that are not UTF-8),
which JSON can carry as escapes and pydantic refuses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.outcome import Decision, Finding, GuardReport, Outcome, Verdict
from execcritic_scaffold.resolution import Gate


def plain(value: Any) -> Any:
    """Any value of the harness as JSON values. Bytes become their SHA-256 and size, a bundle its id."""
    if isinstance(value, bytes):
        return {"sha256": hashlib.sha256(value).hexdigest(), "bytes": len(value)}
    if isinstance(value, FrozenBundle):
        return value.id
    if isinstance(value, IntEnum):
        return value.name
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, BaseException | Path):
        return str(value)
    if isinstance(value, Gate):
        return {**_fields(value), "status": value.status.name}
    if is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value


def verdict(body: Mapping[str, Any]) -> Verdict:
    """A verdict from the JSON form that `plain` gave it."""
    guard = {**body["guard"], **{key: tuple(body["guard"][key]) for key in ("newly_failing", "flaky")}}
    return Verdict(
        decision=Decision(body["decision"]),
        reason=body["reason"],
        detail=body["detail"],
        nodes={node: Outcome(outcome) for node, outcome in body["nodes"].items()},
        guard=GuardReport(**guard),
        findings=tuple(Finding(**finding) for finding in body["findings"]),
        feedback=body["feedback"],
        runs=tuple(body["runs"]),
        seconds=body["seconds"],
        signature=body["signature"],
    )


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
