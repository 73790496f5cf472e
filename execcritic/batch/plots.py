"""Plots of a report, as SVG: resolved by condition, the frozen test over the rounds, resolved against cost."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

from execcritic.batch import statistics
from execcritic.batch.report import MEANS, RATES, Report, rate, values
from execcritic_scaffold.errors import InfrastructureError, UsageError


def draw(report: Report, folder: Path) -> list[Path]:
    """Write the plots; returns their paths. Raises UsageError where matplotlib is missing or the folder cannot be
    written, InfrastructureError for a full disk."""
    try:
        import matplotlib
    except ImportError:
        raise UsageError("Plots need matplotlib; install execcritic[swebench], or leave --plots out.") from None
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "execcritic"  # the same report, the same bytes
    from matplotlib.figure import Figure

    made = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, plot in (("resolved", _resolved), ("rounds", _rounds), ("cost", _cost)):
            figure = Figure(figsize=(7, 4), layout="constrained")
            plot(report, figure.add_subplot())
            path = folder / f"{name}.svg"
            figure.savefig(path, metadata={"Date": None})
            made.append(path)
    except OSError as error:
        kind = InfrastructureError if error.errno in (errno.ENOSPC, errno.EDQUOT) else UsageError
        raise kind(f"{folder} cannot be written ({error.strerror}); name another with --plots.") from None
    return made


def _resolved(report: Report, axes: Any) -> None:
    for number, one in enumerate(report.results):
        share = rate(one.rows).interval
        if share is not None:
            below, above = share.value - share.low, share.high - share.value
            axes.errorbar(number, 100 * share.value, [[100 * below], [100 * above]], fmt="o", capsize=4)
    axes.set_xticks(range(len(report.results)), [_plain(one.name) for one in report.results])
    axes.set(ylabel="resolved, % of all runs asked for", ylim=(0, 100))


def _rounds(report: Report, axes: Any) -> None:
    """Share of runs whose frozen test passes after at most so many revision rounds."""
    for one in report.results:
        passed = [row.rounds or 0 for row in one.rows if RATES["frozen test passes"](row)]
        if passed:
            ends = range(max(passed) + 1)
            axes.plot(
                ends, [100 * sum(r <= n for r in passed) / len(one.rows) for n in ends], "o-", label=_plain(one.name)
            )
    if axes.lines:
        axes.legend()
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="revision rounds", ylabel="frozen test passes, % of all runs", ylim=(0, 100))


def _cost(report: Report, axes: Any) -> None:
    for one in report.results:
        paid, share = statistics.mean(values(one.rows, MEANS["cost ($)"])), rate(one.rows).interval
        if paid is not None and share is not None:
            axes.plot(paid.value, 100 * share.value, "o", label=_plain(one.name))
    if axes.lines:
        axes.legend()
    axes.set(xlabel="US dollars for a run", ylabel="resolved, %", ylim=(0, 100))


def _plain(name: str) -> str:
    """A name in which nothing is read as a formula."""
    return name.replace("$", r"\$")
