"""Reinforcement learning on one box: episodes of our own controller in, updates out (docs/decisions/0005).

A step takes the judged episodes of its groups, makes advantages and rows of them (`steps`), and one update of each part
of the batch. Accelerate spreads it over devices; micro-batches never change what an update is. Only whole steps are
kept: a killed run goes on behind its last checkpoint, with the numbers that it would have had.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType, set_seed

from execcritic_scaffold.errors import InfrastructureError, UsageError
from execcritic_training.alarm import FailureAlarm
from execcritic_training.checkpoints import Checkpoints, Progress
from execcritic_training.metricslog import MetricsLog
from execcritic_training.policyloss import policy_loss, token_logprobs
from execcritic_training.policymodel import load_model, load_tokenizer, stops_of, write_policy
from execcritic_training.recipes import RlRecipe
from execcritic_training.records import Record, template_hash
from execcritic_training.steps import RewardFunction, Weighted, prepare

Source = Callable[[int, int], Sequence[Record] | None]
"""(step from 0, version of the weights) -> its judged episodes, None: there are no more."""
Publish = Callable[[Path, int], None]
"""Told of new weights: the folder and their version."""


@dataclass(frozen=True)
class Settings:
    """What a run has beside its recipe. `model` is the folder with the weights to begin with, `out` the folder of the
    run; `template` None: the tokenizer's chat template; `reward` None: METHOD's; `until`: end this start after so many
    steps."""

    model: Path
    out: Path
    template: str | None = None
    reward: RewardFunction | None = None
    publish: Publish | None = None
    until: int | None = None


def train(recipe: RlRecipe, source: Source, settings: Settings) -> Progress:
    """Carry out a run, or go on with it; returns how far it got. Checkpoints, `metrics.jsonl` and `policy/` (a folder
    that serves) are in `settings.out`.

    Raises UsageError for episodes that cannot be trained on (see `steps.prepare`), InfrastructureError where memory
    runs out, a loss is not finite, or too many episodes were spoilt by the machine.
    """
    return _Run(recipe, settings).carry_out(source)


class _Run:
    def __init__(self, recipe: RlRecipe, settings: Settings) -> None:
        self._recipe, self._settings = recipe, settings
        self._accelerator = Accelerator(
            cpu=not torch.cuda.is_available(), mixed_precision="bf16" if recipe.precision == "bf16" else "no"
        )
        if self._accelerator.distributed_type == DistributedType.DEEPSPEED:
            raise UsageError(
                "DeepSpeed takes a step of its own accord after a fixed number of micro-batches; use the fsdp or ddp "
                "configuration for this stage."
            )
        set_seed(recipe.seed)
        self._tokenizer = load_tokenizer(settings.model, settings.template)
        self._template = template_hash(self._tokenizer.chat_template)
        model = load_model(settings.model, recipe.lora)
        self._stops = stops_of(model, self._tokenizer)
        if recipe.checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
            model.enable_input_require_grads()  # else nothing would reach adapters behind frozen embeddings
        self._model = self._accelerator.prepare(model)
        numbers = recipe.optimiser
        self._optimiser = self._accelerator.prepare(
            torch.optim.AdamW(
                [weight for weight in self._model.parameters() if weight.requires_grad],
                lr=numbers.lr,
                betas=(numbers.beta1, numbers.beta2),
                weight_decay=numbers.weight_decay,
            )
        )
        self._checkpoints = Checkpoints(settings.out, recipe, self._accelerator)
        self._alarm = FailureAlarm(
            recipe.sound.failures,
            recipe.sound.failures_window,
            recipe.sound.failures_least,
        )

    def carry_out(self, source: Source) -> Progress:
        progress = self._checkpoints.resume()
        log = MetricsLog(self._settings.out, progress.step) if self._accelerator.is_main_process else None
        end = min(self._recipe.steps, self._settings.until or self._recipe.steps)
        try:
            if self._settings.publish and progress.version:
                self._publish(progress)  # whoever serves may have newer weights than the checkpoint
            while progress.step < end and (records := source(progress.step, progress.version)) is not None:
                progress, said = self._step(records, progress)
                if log:
                    log.write(progress.step, said)
                if progress.step % self._recipe.save_every == 0:
                    self._checkpoints.save(progress)
            self._checkpoints.save(progress)
            self._write()
        finally:
            if log:
                log.close()
        return progress

    def _step(self, records: Sequence[Record], before: Progress) -> tuple[Progress, dict[str, float]]:
        work = prepare(
            records,
            self._recipe,
            before.step,
            before.version,
            self._template,
            reward=self._settings.reward,
            stops=self._stops,
        )
        self._alarm.see(*work.scores)
        rate = learning_rate(self._recipe, before.step)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        sums: Counter[str] = Counter()
        for update in work.updates:
            sums.update(self._update(update))
        moved = bool(work.updates)
        progress = Progress(before.step + 1, before.version + moved)
        tokens = max(1.0, sums["tokens"])
        said = {
            **work.metrics,
            "updates": float(len(work.updates)),
            "version": float(progress.version),
            "lr": rate,
            "loss": sums["loss"] / max(1, len(work.updates)),
            "grad_norm": sums["grad_norm"] / max(1, len(work.updates)),
            "entropy": sums["entropy"] / tokens,
            "kl": sums["kl"] / tokens,
            "clip_share": sums["clipped"] / tokens,
        }
        if moved and self._settings.publish:
            self._publish(progress)
        return progress, said

    def _update(self, rows: Sequence[Weighted]) -> dict[str, float]:
        """One step of the optimiser; sums over its tokens, the loss, and the norm of the gradient before clipping."""
        many, rank = self._accelerator.num_processes, self._accelerator.process_index
        ordered = sorted(rows, key=lambda one: len(one.row.ids))  # little padding
        size = self._recipe.micro_batch
        parts = [ordered[n : n + size] for n in range(0, len(ordered), size)]
        while len(parts) % many:  # all devices must do as many passes; these weigh nothing
            parts.append([Weighted(ordered[0].row, 0.0, 0.0)])
        sums: Counter[str] = Counter()
        try:
            mine = parts[rank::many]
            for n, part in enumerate(mine):
                with self._accelerator.no_sync(self._model) if n + 1 < len(mine) else nullcontext():
                    loss, said = self._backward(part, many)
                if part[0].weight:
                    sums.update({**said, "loss": loss})
            total = self._accelerator.reduce(
                torch.tensor([sums[name] for name in _SUMS], dtype=torch.float64, device=self._accelerator.device)
            )
            norm = float(
                self._accelerator.clip_grad_norm_(self._model.parameters(), self._recipe.optimiser.max_grad_norm)
            )
            found = {**dict(zip(_SUMS, total.tolist(), strict=True)), "grad_norm": norm}
            if not math.isfinite(found["loss"]) or not math.isfinite(norm):
                raise InfrastructureError(
                    f"The loss ({found['loss']:g}) or its gradient ({norm:g}) is not finite, so this update was not "
                    "made; lower optimiser.lr or look at the episodes of this step. The last checkpoint is kept."
                )
            self._optimiser.step()
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error):
                raise InfrastructureError(
                    f"Memory ran out on a row of {len(ordered[-1].row.ids)} tokens; lower micro_batch or "
                    "window.tokens, or set checkpointing: true, and start again: it goes on behind the last checkpoint."
                ) from None
            raise
        finally:
            self._optimiser.zero_grad()
        return found

    def _backward(self, rows: Sequence[Weighted], many: int) -> tuple[float, dict[str, float]]:
        with self._accelerator.autocast():
            now, entropy = token_logprobs(self._model, rows, self._accelerator.device)
        loss, said = policy_loss(now, rows, self._recipe.clip)
        self._accelerator.backward(loss * many)  # gradients are averaged over devices
        return float(loss.detach()), {**said, "entropy": float(entropy.sum())}

    def _publish(self, progress: Progress) -> None:
        self._write()
        if self._accelerator.is_main_process and self._settings.publish:
            self._settings.publish(self._settings.out / "policy", progress.version)
        self._accelerator.wait_for_everyone()

    def _write(self) -> None:
        state = self._accelerator.get_state_dict(self._model)
        if self._accelerator.is_main_process:
            model = self._accelerator.unwrap_model(self._model)
            write_policy(model, state, self._tokenizer, self._settings.out / "policy")
        self._accelerator.wait_for_everyone()


_SUMS = ("tokens", "clipped", "kl", "entropy", "loss")


def learning_rate(recipe: RlRecipe, step: int) -> float:
    """The rate of a step (from 0): rising over `warmup` steps, then constant or on a half cosine down to 0."""
    numbers = recipe.optimiser
    rise = min(1.0, (step + 1) / numbers.warmup) if numbers.warmup else 1.0
    fall = 0.5 * (1 + math.cos(math.pi * step / recipe.steps)) if numbers.schedule == "cosine" else 1.0
    return numbers.lr * rise * fall
