"""Data sets: where rows come from (sources.py, hub.py), what they say (row.py, dialects.py), which are taken
(selection.py).

`load` gives instances without their gold, which is read again, apart, by `Dataset.gold`.
"""

from execcritic.batch.datasets.dataset import Dataset, load
from execcritic.batch.datasets.selection import select

__all__ = ["Dataset", "load", "select"]
