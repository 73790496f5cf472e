"""Recipes: those that ship hold METHOD's numbers, and what is misspelt is an error."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from execcritic_scaffold.errors import UsageError
from execcritic_training.recipes import load_rl, load_sft, shipped
from execcritic_training.rewards import RepairLevels, TestLevels


def test_every_shipped_recipe_loads() -> None:
    roles = {name: (load_sft if "-sft" in name else load_rl)(name).role for name in shipped()}
    assert {(role, name.split("-")[1], name.endswith("-small")) for name, role in roles.items()} == {
        (role, stage, small) for role in ("test", "repair") for stage in ("sft", "rl") for small in (True, False)
    }


def test_the_methods_numbers() -> None:
    test, repair = load_rl("test-rl"), load_rl("repair-rl")
    for recipe, steps, batch, schedule, window in (
        (test, 200, 32, "constant", 48_000 + 8_192),
        (repair, 100, 64, "cosine", 65_536 + 6_122),
    ):
        assert recipe.model == "Qwen3.5-35B-A3B"
        assert (recipe.steps, recipe.episodes.groups, recipe.episodes.samples) == (steps, 16, 8)
        assert (recipe.batch, recipe.optimiser.schedule, recipe.window.tokens) == (batch, schedule, window)
        assert (recipe.optimiser.lr, recipe.optimiser.weight_decay) == (1e-6, 0.1)
        assert (recipe.optimiser.beta1, recipe.optimiser.beta2) == (0.9, 0.98)
        assert (recipe.clip.low, recipe.clip.high, recipe.kl, recipe.normaliser) == (0.2, 0.28, 0, "token")
    assert (test.episodes.turns, test.episodes.seconds, test.admission.least_candidates) == (60, 900, 6)
    assert (repair.episodes.turns, repair.episodes.revisions, repair.episodes.revision_turns) == (200, 5, 40)
    assert repair.admission.round0_below == 0.4 and repair.admission.both_labels
    assert test.levels() == TestLevels() and repair.levels() == RepairLevels()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("optimizer.lr=1", "optimizer: Extra inputs are not permitted"),
        ("clip.hgih=0.28", "clip.hgih: Extra inputs"),
        ("kl=0.1", "kl: Input should be 0"),
        ("episodes.samples=1", "episodes.samples: "),
        ("episodes.temperature=0.7", "episodes.temperature: "),
        ("window.rule=split", "the rule split is for sft alone"),
        ("rewards.at_round_0=2", "rewards.at_round_0: Extra inputs"),
        ("steps=x", "steps: "),
        ("stage=sft", "for the stage 'sft'; this command needs one for 'rl'"),
        ("steps", "sets nothing"),
        ("steps.a=1", "steps.a is not in this recipe"),
    ],
)
def test_what_is_wrong_is_named(change: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load_rl("test-rl-small", [change])


def test_a_change_may_be_written_as_people_write_numbers() -> None:
    assert load_rl("test-rl-small", ["optimiser.lr=3e-5", "lora=null"]).optimiser.lr == 3e-5


@pytest.mark.parametrize("content", [b"", b"- 1\n", b"\xff\xfe\x00", b"a: [", b"{}"])
def test_no_recipe_at_all(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"r\.yaml"):
        load_sft(str(path))
    with pytest.raises(UsageError, match="one of repair-rl, "):
        load_sft(str(tmp_path / "none.yaml"))


def test_a_batch_is_made_of_whole_micro_batches() -> None:
    with pytest.raises(UsageError, match="no multiple of micro_batch"):
        load_sft("test-sft-small", ["micro_batch=3"])


def test_the_configurations_of_accelerate_are_yaml() -> None:
    folder = Path(__file__).parents[2] / "training/recipes/accelerate"
    kinds = {path.stem: yaml.safe_load(path.read_text())["distributed_type"] for path in folder.glob("*.yaml")}
    assert kinds == {"ddp": "MULTI_GPU", "fsdp": "FSDP", "deepspeed-zero3": "DEEPSPEED"}
