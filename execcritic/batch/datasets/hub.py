"""Data sets of the Hugging Face hub, through the package `datasets`, which keeps what it fetched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from execcritic.batch.datasets.row import Row
from execcritic.batch.datasets.sources import choose, package
from execcritic_scaffold.errors import InfrastructureError, UsageError

ALIASES = {
    "full": "SWE-bench/SWE-bench",
    "lite": "SWE-bench/SWE-bench_Lite",
    "verified": "SWE-bench/SWE-bench_Verified",
    "multilingual": "SWE-bench/SWE-bench_Multilingual",
    "live": "SWE-bench-Live/SWE-bench-Live",
    "rebench": "nebius/SWE-rebench",
    "smith": "SWE-bench/SWE-smith",
}


@dataclass(frozen=True)
class Hub:
    """One split of a data set of the hub."""

    name: str
    split: str | None

    def rows(self) -> Iterator[Row]:
        for number, cells in enumerate(_asked(self.name, "load_dataset", self.name, split=self.split), start=1):
            yield Row(f"{self.name} ({self.split}), row {number}", cells)


def hub(name: str, split: str | None) -> Hub:
    """The source of that name. Raises UsageError where the hub has no such data set or split, InfrastructureError
    where it cannot be reached."""
    splits = _asked(name, "get_dataset_split_names", name)
    return Hub(name, choose(name, list(splits), split))


def _asked(name: str, function: str, *arguments: Any, **options: Any) -> Any:
    datasets = package("datasets")
    datasets.disable_progress_bars()
    try:
        return getattr(datasets, function)(*arguments, **options)
    except datasets.exceptions.DatasetNotFoundError:
        raise UsageError(
            f"The Hugging Face hub has no data set {name} that you may read; check --dataset, or set HF_TOKEN."
        ) from None
    except (
        OSError,
        ValueError,
        RuntimeError,
    ) as error:  # what httpx, the hub's client and `datasets` raise derive from these
        reason = " ".join(str(error).split())[:300]
        raise InfrastructureError(
            f"The data set {name} cannot be fetched from the Hugging Face hub ({reason}); try again, or give a file."
        ) from None
