"""Checkpoints of a run: weights, optimiser, random numbers, and how far it got; there whole or not at all."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from execcritic_scaffold.errors import UsageError
from execcritic_training.recipes import RlRecipe


@dataclass(frozen=True)
class Progress:
    """Steps that are done, and the version of the weights: how often a step changed them."""

    step: int = 0
    version: int = 0


class Checkpoints:
    """`OUT/checkpoints/step-000010/`, the last few of them. `accelerator` is Accelerate's: it knows what is trained."""

    def __init__(self, out: Path, recipe: RlRecipe, accelerator: Any) -> None:
        """Raises UsageError where the folder holds a run of another recipe."""
        self._folder, self._recipe, self._accelerator = out / "checkpoints", recipe, accelerator
        self._folder.mkdir(parents=True, exist_ok=True)
        pin_recipe(out, recipe.model_dump(mode="json"))

    def resume(self) -> Progress:
        """Load the last checkpoint; a run without one begins."""
        found = self._all()
        if not found:
            return Progress()
        self._accelerator.load_state(str(found[-1]))
        return Progress(**json.loads((found[-1] / "progress.json").read_text()))

    def save(self, progress: Progress) -> None:
        """Keep this state under its step, and no more than `recipe.keep`."""
        folder = self._folder / f"step-{progress.step:06d}"
        if folder.exists():
            return
        partial = self._folder / f".{folder.name}"
        main = self._accelerator.is_main_process
        if main:
            shutil.rmtree(partial, ignore_errors=True)
        self._accelerator.wait_for_everyone()
        self._accelerator.save_state(str(partial))
        self._accelerator.wait_for_everyone()
        if main:
            (partial / "progress.json").write_text(json.dumps(asdict(progress)))
            partial.rename(folder)
            for old in self._all()[: -self._recipe.keep]:
                shutil.rmtree(old)
        self._accelerator.wait_for_everyone()

    def _all(self) -> list[Path]:
        return sorted(self._folder.glob("step-*"))


def pin_recipe(out: Path, recipe: dict[str, Any]) -> None:
    """Write down what a run is, or hold it against what was written: a run is gone on with as it began. What does not
    change the weights (`keep`, `save_every`) may differ. Raises UsageError."""
    path = out / "recipe.json"
    if not path.exists():
        path.write_text(json.dumps(recipe, indent=1) + "\n")
        return
    before = json.loads(path.read_text())
    changed = sorted(key for key in {*before, *recipe} - {"keep", "save_every"} if before.get(key) != recipe.get(key))
    if changed:
        raise UsageError(
            f"{out} holds a run with another recipe ({', '.join(changed)} differ); go on with that one, or name "
            "another folder with --out."
        )
