"""The real `swebench` packages on images of our own: nothing of them is imported here, nothing is pulled.

Opt-in: EXECCRITIC_SWEBENCH names one or more interpreters (separated by `:`) that have `swebench` 4.1 or 5.x, and
EXECCRITIC_TEST_IMAGE an image that has Python, git and pytest.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from execcritic.batch import evaluation, official, results
from execcritic.batch.counts import count
from execcritic.batch.results import Grade

from .batches import Batch

PYTHONS = [name for name in os.environ.get("EXECCRITIC_SWEBENCH", "").split(":") if name]
IMAGE = os.environ.get("EXECCRITIC_TEST_IMAGE")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.docker,
    pytest.mark.skipif(not PYTHONS, reason="EXECCRITIC_SWEBENCH names no interpreter that has swebench"),
    pytest.mark.skipif(not IMAGE, reason="EXECCRITIC_TEST_IMAGE names no image"),
]
NAMESPACE = "execcritic-official"
IDS = [f"psf__requests-{number}" for number in range(1, 7)]
RIGHT, WRONG, ODD, NO_PATCH, NO_IMAGE, CRASHED = IDS

SOURCE = "def add(a, b):\n    return a - b\n"
TEST_PATCH = """diff --git a/test_add.py b/test_add.py
--- a/test_add.py
+++ b/test_add.py
@@ -1,5 +1,9 @@
 from calc import add
 
 
 def test_zero():
     assert add(1, 0) == 1
+
+
+def test_add():
+    assert add(1, 2) == 3
"""
DOCKERFILE = """FROM {image}
RUN mkdir -p /testbed /opt/miniconda3/bin /usr/local/sbin \\
 && printf 'conda() {{ :; }}\\n' > /opt/miniconda3/bin/activate \\
 && printf '#!/bin/sh\\nexec python -m pytest "$@"\\n' > /usr/local/bin/pytest && chmod +x /usr/local/bin/pytest
COPY calc.py test_add.py /testbed/
RUN cd /testbed && git init -q && git add -A && git -c user.name=b -c user.email=b@b commit -q -m base
"""
EVAL_SCRIPT = f"""#!/bin/bash
set -uxo pipefail
cd /testbed
git apply -v - <<'EOF_114329324912'
{TEST_PATCH}EOF_114329324912
: '>>>>> Start Test Output'
pytest -rA test_add.py
: '>>>>> End Test Output'
git checkout test_add.py
"""


def patch(expression: str) -> str:
    old, new = "    return a - b", f"    return {expression}"
    return (
        "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n"
        f"@@ -1,2 +1,2 @@\n def add(a, b):\n-{old}\n+{new}\n"
    )


def image_of(instance: str) -> str:
    return f"{NAMESPACE}/sweb.eval.x86_64.{instance.replace('__', '_1776_')}:latest"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Rows with the columns of both versions, and images for all but one of them."""
    folder = tmp_path_factory.mktemp("official")
    (folder / "calc.py").write_text(SOURCE)
    (folder / "test_add.py").write_text("from calc import add\n\n\ndef test_zero():\n    assert add(1, 0) == 1\n")
    (folder / "Dockerfile").write_text(DOCKERFILE.format(image=IMAGE))
    tags = [word for name in IDS if name != NO_IMAGE for word in ("-t", image_of(name))]
    subprocess.run(["docker", "build", "-q", "--network=none", *tags, folder], check=True, capture_output=True)
    rows = [
        {
            "instance_id": name,
            "repo": "psf/requests",
            "version": "2.27",
            "base_commit": "HEAD",
            "problem_statement": "add is wrong",
            "hints_text": "",
            "created_at": "2024-01-01",
            "patch": patch("a + b"),
            "test_patch": TEST_PATCH,
            "FAIL_TO_PASS": json.dumps(["test_add.py::test_add"]),
            "PASS_TO_PASS": json.dumps(["test_add.py::test_zero"]),
            "environment_setup_commit": "HEAD",
            "image": image_of(name),
            "eval_script": EVAL_SCRIPT,
            "log_parser": "parse_log_pytest",
            "eval_type": "pass_and_fail",
        }
        for name in IDS
    ]
    path = folder / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    yield path
    subprocess.run(["docker", "rmi", *(tag for tag in tags if tag != "-t")], capture_output=True)


@pytest.mark.parametrize("python", PYTHONS)
def test_a_batch_is_graded_by_the_real_evaluator(python: str, dataset: Path, tmp_path: Path) -> None:
    evaluator = official.find(python)
    batch = Batch(tmp_path / "b", IDS)
    batch.ended(RIGHT, patch=patch("a + b"), round0=patch("a * b"))
    batch.ended(WRONG, patch=patch("a * b"), round0=patch("a + b"), verdict="PASS")
    batch.ended(ODD, patch=patch("a + b").replace("a - b", "nothing like it"))
    batch.ended(NO_PATCH, patch="")
    batch.ended(NO_IMAGE, patch=patch("a + b"))
    batch.ended(CRASHED, ending="infra-failed", status="INFRASTRUCTURE", bundle_id=None, verdict=None, patch="")
    batch.audited(WRONG, False)
    loaded = results.load(batch.folder.root)
    how = evaluation.How(evaluator, str(dataset), "test", workers=2, seconds=300, namespace=NAMESPACE)
    said: list[str] = []
    evaluation.repeats(loaded, how, [0], said.append)
    evaluation.round0(loaded, how, [0], said.append)
    evaluation.gold(loaded, how, said.append)

    rows = {row.instance: row for row in results.load(batch.folder.root).rows}
    assert {name: (row.official, row.grade) for name, row in rows.items()} == {
        RIGHT: ("resolved", Grade.RESOLVED),
        WRONG: ("unresolved", Grade.UNRESOLVED),
        ODD: ("error", Grade.UNRESOLVED),
        NO_PATCH: ("empty", Grade.UNRESOLVED),
        NO_IMAGE: ("error", Grade.NOT_GRADED),
        CRASHED: ("missing", Grade.NOT_GRADED),
    }
    assert rows[NO_IMAGE].infra is not None and rows[RIGHT].infra is None
    assert (rows[RIGHT].round0, rows[WRONG].round0) == (Grade.UNRESOLVED, Grade.RESOLVED)
    assert rows[WRONG].damaged is True and rows[RIGHT].damaged is False
    assert (rows[RIGHT].control, rows[NO_IMAGE].control) == (True, False), "Gold does not pass without an environment"
    assert count(rows.values()).requested == len(IDS)
