"""What a batch has come to: every count from the states of all runs that were asked for, in one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from execcritic.batch.assignment import Ending, Mode
from execcritic.batch.folder import Folder
from execcritic.batch.journal import Key, State, spent
from execcritic.batch.worker import patch_of
from execcritic_scaffold.errors import InfrastructureError
from execcritic_scaffold.wording import count

MISSING = "missing"


@dataclass(frozen=True)
class Summary:
    """`endings` has a number for each `Ending` and for MISSING, runs that never ended; their sum is `runs`.

    `empty`: runs that finished without a patch; they count as not resolved. `cost` in US dollars, None: unknown.
    """

    folder: Folder
    mode: Mode
    instances: int
    runs: int
    endings: Mapping[str, int]
    statuses: Mapping[str, int]
    empty: int
    cost: float | None
    seconds: float
    damaged: Sequence[int] = ()
    halted: str | None = None
    failed: Sequence[str] = field(default=())
    """One sentence for each run that did not finish, the first ones."""

    @property
    def exit_code(self) -> int:
        """0 where every run that was asked for finished; 5 otherwise."""
        return 0 if self.endings[Ending.FINISHED] == self.runs else InfrastructureError.exit_code

    @property
    def body(self) -> dict[str, Any]:
        """The `--json` form."""
        return {
            "out": str(self.folder.root),
            "mode": self.mode.value,
            "instances": self.instances,
            "runs": self.runs,
            "endings": dict(self.endings),
            "statuses": dict(self.statuses),
            "empty_patches": self.empty,
            "cost": self.cost,
            "seconds": round(self.seconds, 3),
            "predictions": str(self.folder.predictions),
            "damaged_lines": list(self.damaged),
            "stopped": self.halted,
            "failed": list(self.failed),
            "exit_code": self.exit_code,
        }

    @property
    def text(self) -> str:
        """For a person."""
        endings = "  ".join(f"{name} {number}" for name, number in self.endings.items() if number)
        statuses = "  ".join(f"{name} {number}" for name, number in self.statuses.items())
        cost = "unknown" if self.cost is None else f"${self.cost:.2f}"
        lines = [
            f"{count(self.runs, 'run')} of {count(self.instances, 'instance')}: {endings}",
            f"results     {statuses or 'none'}",
            f"no patch    {self.empty}",
            f"cost        {cost}",
            f"predictions {self.folder.predictions}",
            *(f"  {reason}" for reason in self.failed),
        ]
        if self.mode is Mode.TEST:
            lines = [line for line in lines if not line.startswith("no patch")]
        elif self.empty * 2 > self.endings[Ending.FINISHED]:
            lines.append("More than half of the runs made no patch; look at some of them before you compare numbers.")
        if self.halted:
            lines.append(self.halted)
        if self.exit_code:
            lines.append(
                "INCOMPLETE: not every run finished; the same command again, or --resume, goes on with the others "
                "(but for model-failed: add --rerun model-failed)."
            )
        return "\n".join(lines)


def summary(
    folder: Folder,
    mode: Mode,
    keys: Sequence[Key],
    states: Mapping[Key, State],
    seconds: float,
    damaged: Sequence[int] = (),
    halted: str | None = None,
) -> Summary:
    """The summary of the runs `keys`; a state of a run that was not asked for does not count, but its cost does."""
    endings = dict.fromkeys([*(ending.value for ending in Ending), MISSING], 0)
    statuses: Counter[str] = Counter()
    empty = 0
    failed: list[str] = []
    for key in keys:
        state = states.get(key) or State()
        endings[state.ending.value if state.ending else MISSING] += 1
        if status := state.body.get("status"):
            statuses[str(status)] += 1
        if state.ending is Ending.FINISHED:
            empty += not patch_of(folder.run(*key))
        elif state.ending is not None and len(failed) < 10:
            failed.append(f"{key[0]} ({key[1]}) {state.ending.value}: {state.reason}")
    instances = len({name for name, _ in keys})
    cost = spent(states.values())
    ordered = dict(sorted(statuses.items()))
    return Summary(folder, mode, instances, len(keys), endings, ordered, empty, cost, seconds, damaged, halted, failed)
