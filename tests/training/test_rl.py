"""Reinforcement learning of a tiny random model: the loss by hand and against TRL, masks, resume, failures."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from execcritic_scaffold.errors import InfrastructureError, UsageError
from execcritic_training.records import Record, template_hash
from tests.training.conftest import CHATML, tiny
from tests.training.judged import bad, broken, episode, good, rl_recipe

pytestmark = pytest.mark.slow
TEMPLATE = template_hash(CHATML.read_text("utf-8"))
TWO = (((1, 2, 3), (4, 5)), ((200, 201), (6, 7, 8)))
"""Two turns; 200 and 201 are what a tool said."""


@pytest.fixture(scope="module")
def model(torch: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("accelerate", reason="accelerate is not installed (docs/training.md)")
    return tiny(tmp_path_factory.mktemp("tiny") / "model")


def group(step: int = 0, version: int = 0) -> list[Record]:
    """Four episodes of one task; 0 and 2 succeed."""
    return [
        episode(
            f"s{step}/e{n}",
            bad() if n % 2 else good(),
            pairs=(((1, 2, 3), (4 + n, 5)), ((200, 201), (6, 7 + step, 8))),
            template=TEMPLATE,
            version=version,
        )
        for n in range(4)
    ]


def run(model: Path, out: Path, recipe: Any = None, source: Any = None, **more: Any) -> Any:
    from execcritic_training.rl import Settings, train

    return train(recipe or rl_recipe(), source or (lambda step, version: group(step)), Settings(model, out, **more))


def metrics(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def weighted(records: Sequence[Record], **changes: Any) -> list[Any]:
    from execcritic_training.steps import prepare

    done = prepare(records, rl_recipe(**changes), 0, 0, TEMPLATE)
    return [one for update in done.updates for one in update]


def test_the_loss_by_hand(torch: Any) -> None:
    from execcritic_training.policyloss import policy_loss
    from execcritic_training.recipes.schema import Clip
    from execcritic_training.rows import Row
    from execcritic_training.steps import Weighted

    up = Weighted(Row("up", [1, 2, 3], bytearray(b"\0\1\1"), [math.log(0.5), math.log(0.5)]), 2.0, 0.25)
    down = Weighted(Row("down", [1, 2, 3], bytearray(b"\0\1\1"), [math.log(0.5), math.log(0.5)]), -1.0, 0.25)
    now = torch.tensor([0.55, 0.9, 0.3, 0.7]).log().requires_grad_()
    loss, said = policy_loss(now, [up, down], Clip())
    # ratios 1.1, 1.8, 0.6, 1.4: the second is held at 1.28, the third at 0.8, the fourth is worse as it is
    assert loss.item() == pytest.approx(-0.25 * (1.1 * 2 + 1.28 * 2 + 0.8 * -1 + 1.4 * -1))
    loss.backward()
    assert now.grad.tolist() == pytest.approx([-0.25 * 1.1 * 2, 0.0, 0.0, 0.25 * 1.4])
    assert (said["tokens"], said["clipped"]) == (4, 2)


def test_the_loss_is_trls_where_both_can_be_had(model: Path, torch: Any, tmp_path: Path) -> None:
    """One row an episode, the same advantages and sampled log-probabilities: loss and gradient of `dapo` in TRL."""
    trl = pytest.importorskip("trl", reason="trl is not installed (docs/training.md)")
    from datasets import Dataset
    from transformers import AutoTokenizer

    from execcritic_training.policyloss import policy_loss, token_logprobs
    from execcritic_training.policymodel import load_model
    from execcritic_training.recipes.schema import Clip

    rows = weighted(group())
    arguments = trl.GRPOConfig(
        output_dir=str(tmp_path),
        loss_type="dapo",
        epsilon=0.2,
        epsilon_high=0.28,
        beta=0.0,
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=4,
        num_generations=4,
        report_to=[],
    )
    theirs = trl.GRPOTrainer(
        model=load_model(model, None),
        reward_funcs=lambda completions, **more: [0.0] * len(completions),
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": ["x"]}),
        processing_class=AutoTokenizer.from_pretrained(model),
    )
    theirs.current_gradient_accumulation_steps = 1
    first = min(one.row.spans[0].output for one in rows)
    ids = torch.tensor([one.row.ids for one in rows])
    mask = torch.tensor([list(one.row.mask) for one in rows])
    inputs = {
        "prompt_ids": ids[:, :first],
        "prompt_mask": torch.ones_like(ids[:, :first]),
        "completion_ids": ids[:, first:],
        "completion_mask": torch.ones_like(ids[:, first:]),
        "tool_mask": mask[:, first:],
        "advantages": torch.tensor([one.advantage for one in rows]),
        "old_per_token_logps": torch.tensor([one.row.aligned(0.0) for one in rows])[:, first:],
        "num_items_in_batch": mask.sum(),
    }
    theirs.model.train()
    expected = theirs._compute_loss(theirs.model, inputs)
    expected.backward()
    ours = load_model(model, None)
    now, _ = token_logprobs(ours, rows, torch.device("cpu"))
    loss, _ = policy_loss(now, rows, Clip())
    loss.backward()
    torch.testing.assert_close(loss, expected)
    for (name, one), other in zip(ours.named_parameters(), theirs.model.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-6, rtol=1e-4, msg=name)


def test_a_tool_token_has_exactly_no_gradient(model: Path, torch: Any) -> None:
    from execcritic_training.policyloss import policy_loss, token_logprobs
    from execcritic_training.policymodel import load_model
    from execcritic_training.recipes.schema import Clip

    policy = load_model(model, None)
    held: list[Any] = []

    def hold(module: Any, given: Any, state: Any) -> None:
        state.retain_grad()
        held.append(state)

    policy.model.norm.register_forward_hook(hold)
    short = episode("short", bad(), pairs=(((1,), (2, 3)),), template=TEMPLATE)
    rows = weighted([episode("two", good(), pairs=TWO, template=TEMPLATE), short])
    now, _ = token_logprobs(policy, rows, torch.device("cpu"))
    policy_loss(now, rows, Clip(low=1, high=1e9))[0].backward()
    for n, one in enumerate(rows):
        got = (held[0].grad[n].abs().sum(-1) > 0).tolist()
        width = len(got)
        assert got == [bool(m) for m in [*one.row.mask[1:], 0]] + [False] * (width - len(one.row.ids)), one.row.record


def test_padding_and_micro_batches_change_nothing(model: Path, torch: Any, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    records = [
        episode("a", good(), pairs=TWO, template=TEMPLATE),
        episode("b", bad(), pairs=(((1,), (2, 3)),), template=TEMPLATE),
        episode("c", bad(), pairs=(((9, 9, 9, 9), (7,)),), template=TEMPLATE),
    ]
    for size in (1, 3):
        run(model, tmp_path / str(size), rl_recipe(steps=1, micro_batch=size), lambda step, version: records)
    one, other = (load_file(tmp_path / size / "policy/model.safetensors") for size in "13")
    for name in one:
        torch.testing.assert_close(one[name], other[name], atol=2e-5, rtol=1e-4, msg=name)


def test_the_policy_moves_towards_what_was_rewarded(model: Path, torch: Any, tmp_path: Path) -> None:
    from execcritic_training.policyloss import token_logprobs
    from execcritic_training.policymodel import load_model

    rows = weighted(group())

    def likelihood(folder: Path) -> dict[str, float]:
        with torch.no_grad():
            values = [token_logprobs(load_model(folder, None), [one], "cpu")[0].sum().item() for one in rows]
        return {one.row.record: value for one, value in zip(rows, values, strict=True)}

    run(model, tmp_path / "out", rl_recipe(sound={"staleness": 99}), lambda step, version: group(0))
    before, after = likelihood(model), likelihood(tmp_path / "out/policy")
    gained = {name: after[name] - before[name] for name in before}
    assert min(gained["s0/e0"], gained["s0/e2"]) > max(gained["s0/e1"], gained["s0/e3"])


@pytest.mark.parametrize("lora", [None, {"rank": 4, "alpha": 8, "dropout": 0.1}])
def test_a_run_in_two_parts_is_the_run_in_one(model: Path, tmp_path: Path, lora: Any) -> None:
    from safetensors.torch import load_file

    recipe = rl_recipe(steps=4, lora=lora, optimiser={"lr": 1e-3, "schedule": "cosine"})
    run(model, tmp_path / "whole", recipe)
    assert run(model, tmp_path / "parts", recipe, until=2).step == 2
    (tmp_path / "parts/checkpoints/.step-000003").mkdir()  # torn by a kill
    with open(tmp_path / "parts/metrics.jsonl", "ab") as file:
        file.write(b'{"step": 3, "loss": 9.9}\n{"step": 4, "lo')
    ended = run(model, tmp_path / "parts", recipe)
    assert (ended.step, ended.version) == (4, 4)
    assert metrics(tmp_path / "parts") == metrics(tmp_path / "whole")
    one, other = (load_file(tmp_path / name / "policy/model.safetensors") for name in ("whole", "parts"))
    assert all((one[name] == other[name]).all() for name in one)
    assert len(list((tmp_path / "whole/checkpoints").iterdir())) == 2


def test_nothing_to_learn_is_no_update(model: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    alone = [episode("alone", good(), template=TEMPLATE)]
    masked = [episode(f"m{n}", broken(), template=TEMPLATE) for n in range(4)]
    ended = run(model, tmp_path, rl_recipe(steps=2), lambda step, version: [alone, masked][step])
    assert (ended.step, ended.version) == (2, 0)
    first, second = metrics(tmp_path)
    assert first["updates"] == 0 and first["groups/single"] == 1
    assert second["updates"] == 0 and second["groups/all_masked"] == 1 and second["masked/share"] == 1
    begun, ends = load_file(model / "model.safetensors"), load_file(tmp_path / "policy/model.safetensors")
    assert all((begun[name] == ends[name]).all() for name in begun)


def test_too_many_failures_of_the_machine_end_the_run(model: Path, tmp_path: Path) -> None:
    recipe = rl_recipe(sound={"failures": 0.2, "failures_least": 4, "failures_window": 8})
    spoilt = [*group()[:2], *(episode(f"m{n}", broken(), template=TEMPLATE) for n in range(2))]
    with pytest.raises(InfrastructureError, match="50% of the last 4 rollouts could not be judged"):
        run(model, tmp_path, recipe, lambda step, version: spoilt)
    assert metrics(tmp_path) == []


def test_out_of_memory_keeps_the_checkpoint_and_the_run_goes_on(model: Path, torch: Any, tmp_path: Path) -> None:
    from transformers import LlamaModel

    run(model, tmp_path / "whole")
    run(model, tmp_path / "out", until=2)

    def forward(self: Any, *given: Any, **more: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LlamaModel, "forward", forward)
        with pytest.raises(InfrastructureError, match="Memory ran out on a row of 10 tokens; lower micro_batch"):
            run(model, tmp_path / "out")
    run(model, tmp_path / "out")
    assert metrics(tmp_path / "out") == metrics(tmp_path / "whole")


def test_a_loss_that_is_no_number_changes_nothing(model: Path, tmp_path: Path) -> None:
    far = [episode(f"f{n}", bad() if n else good(), logprobs=[[-5.0, -1e4]], template=TEMPLATE) for n in range(2)]
    with pytest.raises(InfrastructureError, match="is not finite, so this update was not made"):
        run(model, tmp_path, rl_recipe(), lambda step, version: far)
    assert not (tmp_path / "policy").exists()


def test_what_cannot_be_trained_on_is_refused_before_any_update(model: Path, tmp_path: Path) -> None:
    other = [episode("e", good(), template="cd" * 32)]
    with pytest.raises(UsageError, match="episode e was rendered with the chat template"):
        run(model, tmp_path, source=lambda step, version: other)
    run(model, tmp_path / "b", until=1)
    with pytest.raises(UsageError, match=r"another recipe \(clip differ"):
        run(model, tmp_path / "b", rl_recipe(clip={"low": 0.1}))


def test_new_weights_are_published_with_their_version(model: Path, tmp_path: Path) -> None:
    told: list[int] = []

    def publish(folder: Path, version: int) -> None:
        assert (folder / "model.safetensors").is_file() and (folder / "tokenizer_config.json").is_file()
        told.append(version)

    run(model, tmp_path, source=lambda step, version: group(step, version), until=2, publish=publish)
    run(model, tmp_path, source=lambda step, version: group(step, version), until=3, publish=publish)
    assert told == [1, 2, 2, 3]
