"""Supervised training through TRL's own trainer, with a tiny random model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from execcritic_scaffold.errors import InfrastructureError, UsageError
from execcritic_training.recordfile import read_records
from execcritic_training.records import template_hash
from tests.training.conftest import CHATML, tiny
from tests.training.judged import episode, good, sft_recipe, write

pytestmark = pytest.mark.slow
TEMPLATE = template_hash(CHATML.read_text("utf-8"))
BASH = {"function": {"name": "bash", "arguments": '{"command": "ls"}'}, "id": "c", "type": "function"}


def conversation(n: int, split: str = "train") -> dict[str, Any]:
    messages = [
        {"role": "user", "content": f"fix {n}"},
        {"role": "assistant", "content": "look", "tool_calls": [BASH]},
        {"role": "tool", "content": "XYZ", "tool_call_id": "c"},
        {"role": "assistant", "content": f"done {n}"},
    ]
    said = {"schema": "execcritic.sft/1", "role": "test", "repo": "r", "instance_id": f"i-{n}", "split": split}
    return {**said, "turns": 2, "messages": messages, "tools": []}


@pytest.fixture(scope="module")
def model(torch: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("trl", reason="trl is not installed (docs/training.md)")
    return tiny(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "sft.jsonl"
    rows = [conversation(n) for n in range(12)] + [conversation(99, "validation")]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run(model: Path, data: Path, out: Path, recipe: Any = None, **more: Any) -> dict[str, Any]:
    from execcritic_training.sft import Settings, train

    return train(recipe or sft_recipe(), [data], Settings(model, out, say=lambda text: None, **more))


def losses(out: Path) -> list[tuple[int, float]]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], line["loss"]) for line in lines if "loss" in line]


@pytest.mark.parametrize("lora", [None, {"rank": 4, "alpha": 8, "dropout": 0.1}])
def test_a_run_in_two_parts_is_the_run_in_one(model: Path, data: Path, tmp_path: Path, lora: Any) -> None:
    from safetensors.torch import load_file

    recipe = sft_recipe(lora=lora)
    run(model, data, tmp_path / "whole", recipe)
    first = run(model, data, tmp_path / "parts", recipe, until=3)
    (tmp_path / "parts/checkpoints/checkpoint-5").mkdir()  # torn by a kill
    with open(tmp_path / "parts/metrics.jsonl", "ab") as file:
        file.write(b'{"step": 4, "loss": 9.9}\n{"step": 5, "lo')  # what came behind the checkpoint
    second = run(model, data, tmp_path / "parts", recipe)
    assert (first["updates"], second["updates"]) == (3, 6)
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole") and len(losses(tmp_path / "whole")) == 6
    one, other = (load_file(tmp_path / name / "policy/model.safetensors") for name in ("whole", "parts"))
    assert all((one[name] == other[name]).all() for name in one)
    begun = load_file(model / "model.safetensors")
    assert set(one) == set(begun) and any((one[name] != begun[name]).any() for name in one)
    assert any((tmp_path / "whole" / "tensorboard").iterdir()) or not installed("tensorboard")


def installed(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None


def test_what_the_policy_serves_is_what_was_trained(model: Path, data: Path, tmp_path: Path, torch: Any) -> None:
    """Adapters merged into `policy` predict what the trained model predicts."""
    from execcritic_training.policymodel import load_model, merged
    from execcritic_training.recipes.schema import LoRA

    adapted = load_model(model, LoRA(rank=4))
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight)
    plain = load_model(model, None)
    plain.load_state_dict(merged(adapted, adapted.state_dict()))
    ids = torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        torch.testing.assert_close(plain(ids).logits, adapted(ids).logits, atol=1e-4, rtol=1e-4)


def trainer(model: Path, paths: list[Path], out: Path) -> Any:
    from execcritic_training import sft, sftdata
    from execcritic_training.policymodel import load_tokenizer

    recipe, tokenizer = sft_recipe(), load_tokenizer(model)
    samples = sftdata.read(paths, "test", recipe.window.of_rows(), sft.renderer(tokenizer), TEMPLATE)
    return sft.make_trainer(recipe, samples, sft.Settings(model, out), tokenizer), samples, tokenizer


def test_a_tool_token_has_exactly_no_gradient(model: Path, data: Path, tmp_path: Path) -> None:
    """Two turns through the real trainer: what predicts a trained token gets a gradient, all else exactly none."""
    made, samples, tokenizer = trainer(model, [data], tmp_path)
    batch = made.data_collator([{"input_ids": samples.train[0].ids, "labels": samples.train[0].labels}])
    held: list[Any] = []

    def hold(module: Any, given: Any, state: Any) -> None:
        state.retain_grad()
        held.append(state)

    made.model.model.norm.register_forward_hook(hold)
    made.model.train()
    made.compute_loss(made.model, dict(batch)).backward()
    got = held[0].grad[0].abs().sum(-1) > 0
    labels = samples.train[0].labels
    assert got.tolist() == [label >= 0 for label in [*labels[1:], -100]]
    trained = tokenizer.decode([label for label in labels if label >= 0])
    assert "XYZ" not in trained and trained.startswith("look\n<tool_call>") and trained.endswith("done 0<|im_end|>")


def test_ids_are_kept_where_they_exist(model: Path, tmp_path: Path) -> None:
    """One text in two spellings: the sampled one is trained, with its second turn, and no other."""
    pairs = (((1, 2), (104, 105)), ((9,), (256,)))
    path = write(tmp_path / "r.jsonl", [episode("e", good(), pairs=pairs, template=TEMPLATE)])
    made, samples, _ = trainer(model, [path], tmp_path)
    assert [(one.ids, one.labels) for one in samples.train] == [
        ([1, 2, 104, 105, 9, 256], [-100, -100, 104, 105, -100, 256])
    ]
    assert made.train_dataset[0]["input_ids"] == samples.train[0].ids
    assert next(read_records(path)).turns[1].tokens is not None


def test_a_loss_that_is_no_number_stops_the_run(model: Path, data: Path, tmp_path: Path, torch: Any) -> None:
    from safetensors.torch import load_file, save_file

    ill = tmp_path / "ill"
    ill.mkdir()
    for file in model.iterdir():
        (ill / file.name).write_bytes(file.read_bytes())
    weights = load_file(model / "model.safetensors")
    weights["model.norm.weight"][0] = float("nan")
    save_file(weights, ill / "model.safetensors", {"format": "pt"})
    with pytest.raises(InfrastructureError, match="of update 1 is nan; nothing of it was saved"):
        run(ill, data, tmp_path / "out")
    assert not list((tmp_path / "out/checkpoints").glob("*")) and not (tmp_path / "out/policy").exists()


def test_a_run_goes_on_as_it_began_or_not_at_all(model: Path, data: Path, tmp_path: Path) -> None:
    run(model, data, tmp_path / "out", until=1)
    with pytest.raises(UsageError, match=r"another recipe \(optimiser differ"):
        run(model, data, tmp_path / "out", sft_recipe(optimiser={"lr": 1}))
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps(conversation(5)) + "\n")
    with pytest.raises(UsageError, match=r"another recipe \(samples differ"):
        run(model, other, tmp_path / "out")


def test_memory_that_runs_out_is_one_sentence(model: Path, data: Path, tmp_path: Path, torch: Any) -> None:
    from transformers import LlamaModel

    def forward(self: Any, *given: Any, **more: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LlamaModel, "forward", forward)
        with pytest.raises(InfrastructureError, match="lower micro_batch or window"):
            run(model, data, tmp_path / "out")


def test_a_template_without_marks_is_refused(model: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not mark what the assistant says"):
        run(model, data, tmp_path / "out", template="{% for m in messages %}{{ m.content }}{% endfor %}")
