"""The folder of a batch, the single record of it.

::

    batch.json       what was asked: configuration, data set with its digest, ids asked for, mode, repeats; written once
    journal.jsonl    one object a line, appended and synced: started and ended runs of instances (see journal.py)
    runs/<id>/<n>/   the run directory of repeat n, as `resolve` writes it (see `execcritic.runs`)
    preds.json       one row an instance, of repeat 0, by id: what the official evaluator reads
    preds.jsonl      the same, one row a line
    audit.jsonl      what `swebench audit` found, one frozen bundle a line                          optional
    evaluation.json  what the official evaluator said                                               optional
    oracle/<id>/     bundle/ made of the official test, or qualification.json, which says why there is none   optional
    replaced/        run directories that were done again on request (`--rerun`)                   optional

A line of the journal::

    {"time": seconds, "event": "started", "instance": id, "repeat": n, "attempt": k, "fresh": bool}
    {"time": seconds, "event": "ended", "instance": id, "repeat": n, "attempt": k, "cost": dollars|null,
     "ending": "finished|model-failed|infra-failed|interrupted", "reason": text|null, "body": verdict.json}

An attempt that is `fresh` began in an empty run directory; another goes on with what the one before it left there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Folder:
    """Paths below a batch folder; nothing is read or written here."""

    root: Path

    @property
    def manifest(self) -> Path:
        return self.root / "batch.json"

    @property
    def journal(self) -> Path:
        return self.root / "journal.jsonl"

    @property
    def predictions(self) -> Path:
        return self.root / "preds.json"

    @property
    def prediction_lines(self) -> Path:
        return self.root / "preds.jsonl"

    @property
    def audit(self) -> Path:
        return self.root / "audit.jsonl"

    @property
    def evaluation(self) -> Path:
        return self.root / "evaluation.json"

    @property
    def stop(self) -> Path:
        """While this file is there, workers end after the turn they are in."""
        return self.root / "stop"

    def oracle(self, instance: str) -> Path:
        return self.root / "oracle" / instance

    def bundle(self, instance: str, repeat: int) -> Path:
        """Where the frozen test of a run lies, if one qualified."""
        return self.run(instance, repeat) / "test" / "bundle"

    def replaced(self, instance: str, repeat: int, attempt: int) -> Path:
        """Where the run directory goes whose place the attempt of this number takes."""
        return self.root / "replaced" / f"{instance}.{repeat}.{attempt}"

    def run(self, instance: str, repeat: int) -> Path:
        """The run directory of one repeat. Ids are checked when a data set is read (see `is_id`)."""
        return self.root / "runs" / instance / str(repeat)


def is_id(text: str) -> bool:
    """Whether an instance's id can be the name of a folder as it is, on every file system."""
    return re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}", text) is not None
