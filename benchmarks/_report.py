"""What every benchmark has in common: its two options, its Markdown tables, and the file with figures and targets."""

from __future__ import annotations

import argparse
import json
import math
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Target:
    """A figure that has a limit; `value` is None where this machine could not measure it (then it is not met)."""

    name: str
    value: float | None
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        if self.value is None:
            return False
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser that has the options all benchmarks take."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: under 50 seconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures and the targets there")
    return parser


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table; floats are shown with three significant digits."""
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(_shown(cell) for cell in row) + " |")
    print(flush=True)


def finish(path: Path | None, figures: dict[str, Any], targets: Sequence[Target]) -> int:
    """Print the targets, write everything to `path`; returns the exit status, 0 whatever was measured."""
    if targets:
        rows = [
            (t.name, t.value, ("≥ " if t.at_least else "≤ ") + _shown(t.limit), "yes" if t.met else "no")
            for t in targets
        ]
        table(("target", "value", "limit", "met"), rows)
    if path:
        listed = [{**{k: v for k, v in asdict(t).items() if k != "at_least"}, "met": t.met} for t in targets]
        machine = {"python": platform.python_version(), "machine": platform.machine(), "kernel": platform.release()}
        path.write_text(json.dumps({**figures, "on": machine, "targets": listed}, indent=1) + "\n")
    return 0


def upper_bound(errors: int, trials: int, confidence: float = 0.95) -> float | None:
    """One-sided exact (Clopper-Pearson) upper bound of an error rate; None without trials."""
    if trials == 0:
        return None
    low, high = errors / trials, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _at_most(errors, trials, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _at_most(errors: int, trials: int, rate: float) -> float:
    """P(at most `errors` in `trials`) for a binomial with this rate."""
    if rate >= 1:
        return float(errors >= trials)
    terms = (
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        + (k * math.log(rate) if k else 0.0) + (trials - k) * math.log1p(-rate)
        for k in range(errors + 1)
    )  # fmt: skip
    return math.fsum(math.exp(term) for term in terms)


def _shown(cell: object) -> str:
    if cell is None:
        return "-"
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)
