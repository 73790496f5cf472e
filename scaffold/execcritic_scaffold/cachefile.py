"""Small cached answers on disk: written whole or not at all, by any number of threads and processes."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any


def write_json(path: Path, value: Any) -> None:
    """Replace `path` by the value's JSON, atomically. A cache that cannot be written is no reason to fail: the
    answer is found again next time."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(value))
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
