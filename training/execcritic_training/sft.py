"""Supervised training over TRL's SFTTrainer, on sequences whose ids and labels are ready (`sftdata`).

TRL prepares nothing here: it would cut at a length of its own and drop what loses its labels without a name. A killed
run goes on behind its last whole checkpoint, with the losses that it would have had.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback, set_seed
from trl import SFTConfig, SFTTrainer

from execcritic_scaffold.errors import InfrastructureError, UsageError
from execcritic_training import sftdata, templates
from execcritic_training.checkpoints import pin_recipe
from execcritic_training.metricslog import MetricsLog
from execcritic_training.policymodel import load_model, load_tokenizer, write_policy
from execcritic_training.recipes import SftRecipe
from execcritic_training.records import template_hash

SAVED_LAST = "trainer_state.json"
"""The file of a checkpoint that is written after all others: where it is missing, the checkpoint is torn."""


@dataclass(frozen=True)
class Settings:
    """What a run has beside its recipe. `model` is the folder with the weights to begin with, `out` the folder of the
    run; `template` None: the tokenizer's chat template; `until`: end this start after so many updates; `say` is told
    what is worth knowing before the first."""

    model: Path
    out: Path
    template: str | None = None
    until: int | None = None
    say: Callable[[str], None] = print


def train(recipe: SftRecipe, paths: Sequence[Path], settings: Settings) -> dict[str, Any]:
    """Carry out a run, or go on with it; returns its updates, last loss, and what became of the samples. Checkpoints,
    `metrics.jsonl`, `samples.json` and `policy/` (a folder that serves) are in `settings.out`.

    Raises UsageError for samples that cannot be trained on (see `sftdata.read`), InfrastructureError where memory runs
    out or a loss is not finite.
    """
    tokenizer = load_tokenizer(settings.model, settings.template)
    render = renderer(tokenizer)
    for finding in templates.check_template(_whole(tokenizer)):
        settings.say(f"template: {finding}")
    template = template_hash(tokenizer.chat_template)
    samples = sftdata.read(paths, recipe.role, recipe.window.of_rows(), render, template)
    settings.out.mkdir(parents=True, exist_ok=True)
    pin_recipe(settings.out, {**recipe.model_dump(mode="json"), "samples": samples.digest})
    (settings.out / "samples.json").write_text(json.dumps(samples.body, indent=1) + "\n")
    last = last_checkpoint(settings.out)
    begun = int(last.name.rpartition("-")[2]) if last else 0
    trainer = make_trainer(recipe, samples, settings, tokenizer)
    log = MetricsLog(settings.out, begun) if trainer.is_world_process_zero() else None
    trainer.add_callback(_Watch(log, settings.until))
    try:
        trainer.train(resume_from_checkpoint=str(last) if last else None)
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error):
            raise InfrastructureError(
                "Memory ran out; lower micro_batch or window.tokens, or set checkpointing: true, and start again: it "
                "goes on behind the last checkpoint."
            ) from None
        raise
    finally:
        if log:
            log.close()
    state = trainer.accelerator.get_state_dict(trainer.model_wrapped)
    if trainer.is_world_process_zero():
        write_policy(trainer.accelerator.unwrap_model(trainer.model), state, tokenizer, settings.out / "policy")
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    return {"updates": trainer.state.global_step, "loss": losses[-1] if losses else None, **samples.body}


def make_trainer(recipe: SftRecipe, samples: sftdata.Samples, settings: Settings, tokenizer: Any) -> SFTTrainer:
    """TRL's trainer with the numbers of the recipe. Raises UsageError where the batch does not fit the devices."""
    devices = int(os.environ.get("WORLD_SIZE", "1"))
    if recipe.batch % (recipe.micro_batch * devices):
        raise UsageError(
            f"A batch of {recipe.batch} cannot be made of micro-batches of {recipe.micro_batch} on {devices} devices; "
            "change batch or micro_batch."
        )
    numbers = recipe.optimiser
    arguments = SFTConfig(
        output_dir=str(settings.out / "checkpoints"),
        per_device_train_batch_size=recipe.micro_batch,
        per_device_eval_batch_size=recipe.micro_batch,
        gradient_accumulation_steps=recipe.batch // (recipe.micro_batch * devices),
        num_train_epochs=recipe.epochs,
        max_steps=recipe.steps or -1,
        learning_rate=numbers.lr,
        lr_scheduler_type="constant_with_warmup" if numbers.schedule == "constant" else "cosine",
        warmup_steps=numbers.warmup,
        adam_beta1=numbers.beta1,
        adam_beta2=numbers.beta2,
        weight_decay=numbers.weight_decay,
        max_grad_norm=numbers.max_grad_norm,
        bf16=recipe.precision == "bf16",
        use_cpu=not torch.cuda.is_available(),
        gradient_checkpointing=recipe.checkpointing,
        logging_steps=1,
        logging_nan_inf_filter=False,  # it would show the loss of the step before instead
        save_steps=recipe.save_every,
        save_total_limit=recipe.keep,
        eval_strategy="steps" if samples.validation else "no",
        eval_steps=recipe.save_every,
        seed=recipe.seed,
        data_seed=recipe.seed,
        report_to=[],
        disable_tqdm=True,
        max_length=None,  # the window's rule was applied before, with counts
        packing=False,
        dataset_kwargs={"skip_prepare_dataset": True},
        eos_token=tokenizer.eos_token,
    )
    set_seed(recipe.seed)  # adapters begin at random
    trainer = SFTTrainer(
        model=load_model(settings.model, recipe.lora),
        args=arguments,
        train_dataset=_dataset(samples.train),
        eval_dataset=_dataset(samples.validation) if samples.validation else None,
        processing_class=tokenizer,
    )
    trainer.remove_callback(PrinterCallback)  # standard output is for the result
    return trainer


def last_checkpoint(out: Path) -> Path | None:
    """The last whole checkpoint; torn ones, which a killed run left, are removed."""
    whole = []
    for path in (out / "checkpoints").glob("checkpoint-*"):
        if (path / SAVED_LAST).is_file():
            whole.append(path)
        else:
            shutil.rmtree(path)
    return max(whole, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def renderer(tokenizer: Any) -> sftdata.Render:
    """Renders conversations with the tokenizer's chat template. Raises UsageError for one that does not mark what the
    assistant says."""
    if "generation" not in tokenizer.chat_template:
        raise UsageError(
            "The chat template does not mark what the assistant says ({% generation %}); name one that does with "
            "--template."
        )

    def render(messages: Sequence[Any], tools: Sequence[Mapping[str, Any]]) -> tuple[list[int], list[int]]:
        try:
            got = tokenizer.apply_chat_template(
                list(messages),
                tools=list(tools) or None,
                tokenize=True,
                return_dict=True,
                return_assistant_tokens_mask=True,
            )
        except Exception as error:  # whatever the template does with what it did not expect
            raise ValueError(" ".join(str(error).split())) from None
        return list(got["input_ids"]), list(got["assistant_masks"])

    return render


def _whole(tokenizer: Any) -> templates.Render:
    def render(messages: Sequence[Any], reply: bool) -> list[int]:
        text = tokenizer.apply_chat_template(
            list(messages), tools=templates.TOOLS, add_generation_prompt=reply, tokenize=False
        )
        ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    return render


def _dataset(samples: Sequence[sftdata.Sample]) -> Dataset:
    return Dataset.from_dict({"input_ids": [s.ids for s in samples], "labels": [s.labels for s in samples]})


class _Watch(TrainerCallback):  # type: ignore[misc]
    """Writes each step's numbers, ends a start where it is told to, and ends the run before a step that is not finite
    could be saved."""

    def __init__(self, log: MetricsLog | None, until: int | None) -> None:
        self._log, self._until = log, until

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **more: Any) -> None:
        numbers = {name: float(value) for name, value in (logs or {}).items() if isinstance(value, int | float)}
        for name in ("loss", "grad_norm"):
            if not math.isfinite(numbers.get(name, 0.0)):
                raise InfrastructureError(
                    f"The {name} of update {state.global_step} is {numbers[name]}; nothing of it was saved. Lower "
                    "optimiser.lr or look at the samples, then start again: it goes on behind the last checkpoint."
                )
        if self._log and "train_runtime" not in numbers:
            self._log.write(state.global_step, numbers)

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if self._until is not None and state.global_step >= self._until:
            control.should_training_stop = control.should_save = True
