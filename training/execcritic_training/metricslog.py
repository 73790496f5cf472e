"""The numbers of a run: a file of JSON lines, one a step, and TensorBoard's events where it is installed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from execcritic_roles.trajectory import open_lines, write_line


class MetricsLog:
    """Appends to `FOLDER/metrics.jsonl` and `FOLDER/tensorboard/`. `step`: where the run goes on; lines of later steps,
    which a killed run left and which are made again, are removed."""

    def __init__(self, folder: Path, step: int) -> None:
        path = folder / "metrics.jsonl"
        if path.exists():
            kept = [line for line in path.read_bytes().splitlines(True) if _step(line) <= step]
            partial = path.with_name(f".{path.name}")
            partial.write_bytes(b"".join(kept))
            partial.replace(path)
        self._file = open_lines(path)
        self._board: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """The numbers of a step that is done (the first is 1)."""
        write_line(self._file, {"step": step, **values})
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(name, value, step)
            self._board.flush()

    def close(self) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()


def _step(line: bytes) -> float:
    """The step of a line; infinite for one that a killed run tore."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")
