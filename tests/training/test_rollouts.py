"""Episodes of our own making, end to end: agents through the proxy, a judge, records, and an update by them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from execcritic_training.recipes import load_rl
from execcritic_training.recordfile import read_records
from execcritic_training.records import template_hash
from execcritic_training.rollouts import bounds
from tests.app.batch.conftest import GOOD_TEST
from tests.app.conftest import SAMPLE, SCRIPT, diff
from tests.openai_server import serve
from tests.training.conftest import CHATML, tiny
from tests.training.test_rl import metrics

RECIPE = """
stage: rl
role: test
model: tiny
precision: fp32
steps: 2
window: {tokens: 8192}
episodes: {groups: 1, samples: 2, budget: 1, response: 64, turns: 3, seconds: 300}
optimiser: {lr: 1.0e-3}
rewards: {truncated: zero}
batch: 2
save_every: 1
"""


def test_the_recipes_bounds_are_settings() -> None:
    from execcritic import config

    test, repair = (config.load(None, bounds(load_rl(name)), environ={}) for name in ("test-rl", "repair-rl"))
    assert (test.loop.test_turns, test.limits.test.seconds) == (60, 900)
    assert (test.model.temperature, test.model.extra["top_p"], test.model.max_output_tokens) == (1.0, 1.0, 8192)
    assert test.limits.test.context_tokens == 48_000
    assert (repair.loop.repair_turns, repair.loop.revisions, repair.loop.revision_turns) == (200, 5, 40)
    assert repair.limits.repair.context_tokens == 65_536


@pytest.mark.slow
def test_from_agents_to_an_update(
    torch: Any, environment: Mapping[str, str], repo: Path, engine: str, tmp_path: Path
) -> None:
    pytest.importorskip("accelerate", reason="accelerate is not installed (docs/training.md)")
    from transformers import AutoTokenizer

    model = tiny(tmp_path / "tiny")
    stop = AutoTokenizer.from_pretrained(model).eos_token_id
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    source = (repo / "spans/merge.py").read_bytes()
    right = source.replace(b"(merged[-1][0], end)", b"(merged[-1][0], max(merged[-1][1], end))")
    row = {
        "instance_id": "spans-1",
        "repo": "o/spans",
        "path": str(repo),
        "problem_statement": (SAMPLE / "issue.md").read_text(),
        "patch": diff(repo, {"spans/merge.py": right}).decode(),
        "test_patch": "",
        "FAIL_TO_PASS": [],
    }
    (tmp_path / "set.jsonl").write_text(json.dumps(row) + "\n")
    prose = {"role": "assistant", "content": "I do not know."}
    good = [{k: v for k, v in said.items() if k != "role_name"} for said in GOOD_TEST]
    command = [
        *(SCRIPT, "train", "rl", "--recipe", tmp_path / "recipe.yaml", "--model", model, "--out", tmp_path / "out"),
        *("--dataset", tmp_path / "set.jsonl", "--policy", "openai:tiny", "--workers", "1", "--sandbox", engine),
        *("--until", "1", "--json"),
    ]
    ran_in: dict[str, Any] = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
    with serve() as upstream:
        for reply in (*good, prose, prose, prose):
            held = len(upstream._script)
            ended = "tool_calls" if reply.get("tool_calls") else "stop"
            choice = {"message": reply, "finish_reason": ended, "token_ids": [50 + held, stop]}
            choice["logprobs"] = {"content": [{"logprob": -5.0}, {"logprob": -5.0}]}
            upstream.raw(json.dumps({"model": "tiny", "prompt_token_ids": [1, 2], "choices": [choice]}).encode())
        ran = subprocess.run([*command, "--base-url", upstream.url], **ran_in)
        assert ran.returncode == 0, ran.stderr[-3000:]
        assert json.loads(ran.stdout)["version"] == 1
        asked = len(upstream.requests)
        again = subprocess.run(
            [*command, "--base-url", upstream.url], env=environment, cwd=tmp_path, capture_output=True
        )
        assert again.returncode == 0 and len(upstream.requests) == asked
    first, second = read_records(
        tmp_path / "out/rollouts/step-000000.jsonl", tokens=True, template=template_hash(CHATML.read_text("utf-8"))
    )
    assert first.evidence is not None and first.evidence.operational is None, first.evidence
    assert first.group == second.group and first.artifacts.bundle and not second.artifacts.bundle
    (said,) = metrics(tmp_path / "out")
    assert said["updates"] == 1 and said["base_to_gold"] == 0.5 and said["level/Base-to-Gold"] == 0.5
