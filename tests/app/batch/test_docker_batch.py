"""A batch of instances whose environment is a Docker image, made without a registry."""

from __future__ import annotations

import io
import json
import os
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from execcritic_scaffold.sandbox import docker_engine

from ..conftest import NODE, SAMPLE, TEST_FILE, Cli, diff, recording
from .conftest import DONE, GOOD_TEST, RIGHT, WRONG, bash

IMAGE = os.environ.get("EXECCRITIC_TEST_IMAGE", "")
NAMES = [f"spans__spans-{number}" for number in range(8)]
WRONG_ONES = NAMES[::4]

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.skipif(not IMAGE, reason="EXECCRITIC_TEST_IMAGE names no image"),
]


@pytest.fixture(scope="module")
def image(template: Path) -> Iterator[str]:
    """The test image with the sample's checkout in /testbed."""
    name = f"execcritic-batch-{uuid.uuid4().hex[:8]}:latest"
    holder = io.BytesIO()
    with tarfile.open(fileobj=holder, mode="w") as archive:
        archive.add(template, "testbed")
    client = docker_engine.connect()
    container = client.containers.create(IMAGE, ["-"])
    container.put_archive("/", holder.getvalue())
    container.commit(*name.split(":"))
    docker_engine.remove(container)
    yield name
    client.images.remove(name, force=True)
    client.close()


def test_eight_instances_in_docker(image: str, cli: Cli, template: Path, tmp_path: Path) -> None:
    (tmp_path / "replies").mkdir()
    test = diff(template, {"tests/test_contained.py": TEST_FILE}).decode()
    rows = []
    for name in NAMES:
        fix = WRONG if name in WRONG_ONES else RIGHT
        recording(tmp_path / "replies" / f"{name}.jsonl", *GOOD_TEST, bash(fix), DONE, DONE)
        rows.append(
            {"instance_id": name, "repo": "spans/spans", "image": image, "patch": "", "test_patch": test}
            | {
                "problem_statement": (SAMPLE / "issue.md").read_text(),
                "FAIL_TO_PASS": [NODE],
                "PASS_TO_PASS": [],
                "base_commit": "0" * 40,
            }
        )
    (tmp_path / "set.json").write_text(json.dumps(rows))
    arguments: list[object] = [
        *("swebench", "run", "--dataset", tmp_path / "set.json", "--workers", 2, "--out", tmp_path / "out", "--json"),
        *("--model", "replay:replies/{instance}.jsonl", "--set", "environment.check=false"),
        *("--set", "qualify.repeats=1", "--set", "verify.repeats=1", "--set", "verify.guard=off"),
    ]
    ran = cli(*arguments, env={"DOCKER_HOST": os.environ["DOCKER_HOST"]} if "DOCKER_HOST" in os.environ else {})
    assert ran.code == 0, ran
    resolved = {
        name: json.loads((tmp_path / f"out/runs/{name}/0/verdict.json").read_bytes())["status"] for name in NAMES
    }
    assert resolved == {name: "NOT_FIXED" if name in WRONG_ONES else "RESOLVED" for name in NAMES}
    predictions = json.loads((tmp_path / "out/preds.json").read_bytes())
    assert set(predictions) == set(NAMES)
    assert all("spans/merge.py" in row["model_patch"] for row in predictions.values())
    client = docker_engine.connect()
    assert client.containers.list(all=True, filters={"label": f"{docker_engine.LABEL}=1"}) == []
    client.close()
