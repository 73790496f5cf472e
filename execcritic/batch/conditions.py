"""What a run is given of other batches: a frozen test to repair under, a Round 0 to begin with (METHOD: conditions)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from execcritic.batch import journal, manifest, round0
from execcritic.batch.assignment import Ending, Mode
from execcritic.batch.folder import Folder
from execcritic.batch.journal import Key
from execcritic_scaffold.errors import UsageError


class Conditions:
    """Bundles and beginnings by run. `bundles` and `round0` are folders of other batches."""

    def __init__(self, bundles: Path | None, round0: Path | None) -> None:
        """Raises UsageError for a folder that is no batch."""
        self._bundles = _batch(bundles, "--bundles")
        self._round0 = _batch(round0, "--round0")
        self.oracle: dict[str, str | None] = {}
        """The bundle made of each instance's official test, None where that was refused."""

    def bundle(self, instance: str) -> str | None:
        """The frozen test to repair under: the same for all repeats. None: Round 0 is kept."""
        if self._bundles is None:
            return self.oracle.get(instance)
        folder = self._bundles[0].bundle(instance, 0)
        return str(folder) if folder.is_dir() else None

    def round0(self, key: Key) -> Path | None:
        """The run whose Round 0 is the beginning: of the same repeat, where that batch has repeats."""
        if self._round0 is None:
            return None
        folder, repeats = self._round0
        return folder.run(key[0], key[1] if repeats > 1 else 0)

    def unusable(self, key: Key) -> str | None:
        """Why a run cannot begin with its Round 0, in one sentence; None where it can, or there is none to be."""
        run = self.round0(key)
        if run is None:
            return None
        try:
            round0.turns(run)
        except UsageError as error:
            return str(error)
        return None

    def check(self, keys: Sequence[Key]) -> None:
        """Raises UsageError where a Round 0 is still to be made. One that a model broke off stays so, and counts."""
        missing = [key for key in keys if self.unusable(key)]
        if not missing or self._round0 is None:
            return
        folder, repeats = self._round0
        states = journal.read(folder.journal).states
        for name, repeat in missing:
            state = states.get((name, repeat if repeats > 1 else 0))
            if state is None or state.ending is not Ending.MODEL_FAILED:
                raise UsageError(
                    f"{folder.root} has no complete Round 0 of {name} ({len(missing)} such runs); finish that batch "
                    "first, or leave these instances out."
                )


def check(mode: Mode, bundles: Path | None, round0: Path | None, models: Mapping[str, str | None]) -> None:
    """Raises UsageError for what does not go together."""
    if (mode is Mode.REPAIR) != (bundles is not None):
        raise UsageError("--mode repair needs --bundles DIR, a batch with frozen tests, and no other mode takes it.")
    if round0 is not None and mode in (Mode.RESOLVE, Mode.TEST):
        raise UsageError("--round0 is where the repair begins: it goes with --mode repair, no-test or oracle.")
    if "human" in models.values():
        raise UsageError("A person cannot play a role in a batch; name another --model.")


def _batch(path: Path | None, option: str) -> tuple[Folder, int] | None:
    """The folder of another batch and its number of repeats."""
    if path is None:
        return None
    folder = Folder(path.absolute())
    body = manifest.read(folder)
    if body is None:
        raise UsageError(f"{path} is no batch; name a folder that `swebench run` wrote with {option}.")
    return folder, int(body["repeats"])
