"""The audit on real bugs: official tests as frozen bundles, judged on Base, Gold and labelled model patches."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from _console import execcritic
from _realset import SHARED

from execcritic import config
from execcritic.batch import datasets, oracle
from execcritic.batch.worker import Settings
from execcritic.places import Place

NAMES = ("pallets__flask-5063", "pytest-dev__pytest-10051", "sphinx-doc__sphinx-9711", "django__django-13112")

pytestmark = [
    pytest.mark.realset,
    pytest.mark.bubblewrap,
    pytest.mark.slow,
    pytest.mark.skipif(not SHARED.is_file(), reason="../shared/realset is not here"),
]


def test_official_tests_are_base_to_gold_and_tell_labelled_patches_apart(tmp_path: Path) -> None:
    bundles = tmp_path / "bundles"
    found = datasets.load(str(SHARED))
    settings = Settings(config.load(None, []), {}, Place(sandbox="bubblewrap"), os.devnull)
    for instance in found.instances:
        if instance.id in NAMES:
            made = oracle.make(instance, found.gold(instance.id), str(bundles / instance.id), settings)
            if made.bundle is None:
                pytest.skip(f"{instance.id}: {made.reason}")
    common = ("swebench", "audit", bundles, "--dataset", SHARED, "--workers", "2")
    answer = execcritic(*common)
    assert answer.code == 0, (answer.body, answer.stderr)
    body = answer.body
    assert (body["bundles"], body["base_to_gold"], body["gold_passes"]) == (4, 4, 4)
    assert body["operational"] == body["errors"] == body["gold_fails"] == []
    candidates = sum(len(found.gold(name).candidates) for name in NAMES)
    labelled = body["candidates_labelled_and_conclusive"]
    assert 0 < labelled <= candidates
    assert (body["candidates_as_labelled"], body["balanced_accuracy"]) == (labelled, 1.0)
    lines = (bundles / "audit.jsonl").read_text()
    assert {path.name for path in bundles.iterdir()} == {*NAMES, "audit.jsonl"}, "nothing else is written"

    again = execcritic(*common)
    assert again.code == 0 and (bundles / "audit.jsonl").read_text() == lines, "what is known is not done again"
    torn = lines.splitlines(keepends=True)
    (bundles / "audit.jsonl").write_text("".join(torn[:-1]) + torn[-1][:20])
    assert execcritic(*common).code == 0
    assert len([line for line in (bundles / "audit.jsonl").read_text().splitlines() if _whole(line)]) == len(torn)


def _whole(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
