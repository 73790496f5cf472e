"""The weights that are trained: read from a folder, with adapters or whole, and written as a folder that serves."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from execcritic_scaffold.errors import UsageError
from execcritic_training.recipes.schema import LoRA


def load_tokenizer(folder: Path, template: str | None = None) -> Any:
    """The tokenizer with the chat template that is trained: `template`, else its own. Raises UsageError."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(_folder(folder), local_files_only=True)
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder} holds no tokenizer ({_line(error)}); check it.") from None
    if template is not None:
        tokenizer.chat_template = template
    if not isinstance(tokenizer.chat_template, str):
        raise UsageError(f"{folder} has no chat template; name a file with --template.")
    if tokenizer.pad_token_id is None or tokenizer.pad_token_id == tokenizer.eos_token_id:
        which = "missing" if tokenizer.pad_token_id is None else "its stop token"
        raise UsageError(
            f"The pad token of {folder} is {which}, so that the end of a reply would be taken for padding; set "
            "another one in its tokenizer_config.json."
        )
    return tokenizer


def load_model(folder: Path, lora: LoRA | None) -> Any:
    """The model in float32, all of it to be trained, or adapters on it alone. Raises UsageError."""
    try:
        model = AutoModelForCausalLM.from_pretrained(
            _folder(folder), dtype=torch.float32, local_files_only=True, use_safetensors=True
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"{folder} holds no model ({_line(error)}); check it.") from None
    return model if lora is None else _adapted(model, lora)


def stops_of(model: Any, tokenizer: Any) -> frozenset[int]:
    """The ids that end a reply."""
    eos = model.generation_config.eos_token_id
    return frozenset({tokenizer.eos_token_id, *(eos if isinstance(eos, list) else [eos])} - {None})


def write_policy(model: Any, state: dict[str, Any], tokenizer: Any, folder: Path) -> None:
    """Write the whole model and its tokenizer, adapters merged in, as a folder that serves; there whole or not at all.
    `state` are all its weights by name, gathered from wherever they lie; they stay as they are."""
    partial = folder.with_name(f".{folder.name}")
    shutil.rmtree(partial, ignore_errors=True)
    if hasattr(model, "get_base_model"):
        model.get_base_model().save_pretrained(partial, state_dict=merged(model, state))
    else:
        model.save_pretrained(partial, state_dict=state)
    tokenizer.save_pretrained(partial)
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    partial.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _adapted(model: Any, lora: LoRA) -> Any:
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise UsageError("peft is missing; pip install 'execcritic[train]', or use a recipe with lora: null.") from None
    targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
    settings = LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=targets, task_type="CAUSAL_LM"
    )
    try:
        return get_peft_model(model, settings)
    except ValueError as error:
        raise UsageError(f"The adapters do not fit the model ({_line(error)}); correct lora.targets.") from None


def merged(model: Any, state: dict[str, Any]) -> dict[str, Any]:
    """The weights of an adapted model with its adapters added. Not by peft's own merging, which changes the weights and
    takes the change back with an error of rounding: a run that wrote a policy would no longer be one that did not."""
    prefix, found = "base_model.model.", {}
    scaling = {name: module.scaling for name, module in model.named_modules() if hasattr(module, "scaling")}
    for name, value in state.items():
        if ".lora_" in name:
            continue
        layer, inner, rest = name.partition(".base_layer.")
        if inner and rest == "weight":
            for adapter, factor in scaling[layer].items():
                down, up = (state[f"{layer}.lora_{side}.{adapter}.weight"] for side in "AB")
                value = value + factor * (up.float() @ down.float()).to(value.dtype)
        found[(f"{layer}.{rest}" if inner else name).removeprefix(prefix)] = value
    return found


def _folder(folder: Path) -> Path:
    if not folder.is_dir():  # transformers would take it for a name at the hub
        raise UsageError(f"There is no folder {folder}; name the one that holds the model with --model.")
    return folder


def _line(error: Exception) -> str:
    said = str(error).strip().splitlines()
    return said[0] if said else type(error).__name__
