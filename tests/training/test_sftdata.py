"""Samples for supervised training, without torch: ids kept, labels, the window's rule, refusals by name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from execcritic_scaffold.errors import UsageError
from execcritic_training.rows import Window
from execcritic_training.sftdata import Samples, read
from tests.training.judged import TEMPLATE, episode, good, write


def render(messages: Sequence[Any], tools: Sequence[Mapping[str, Any]]) -> tuple[list[int], list[int]]:
    """A token for each letter; a message ends with token 0, which belongs to it."""
    ids, mask = [], []
    for message in messages:
        said = [*message["content"].encode(), 0]
        ids += said
        mask += [int(message["role"] == "assistant")] * len(said)
    return ids, mask


def talk(*texts: str, **more: Any) -> dict[str, Any]:
    roles = ["user", "assistant"] * len(texts)
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    base = {"schema": "execcritic.sft/1", "role": "test", "instance_id": "i-1", "split": "train"}
    return {**base, "messages": messages, "tools": [], **more}


def samples(tmp_path: Path, *lines: Any, tokens: int = 100, rule: Any = "drop") -> Samples:
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read([path], "test", Window(tokens, rule), render, TEMPLATE)


def test_labels_are_what_the_assistant_said_with_its_stop(tmp_path: Path) -> None:
    found = samples(tmp_path, talk("ab", "c", "d", "e"), talk("x", "y", split="validation"))
    (one,) = found.train
    assert one.ids == [97, 98, 0, 99, 0, 100, 0, 101, 0]
    assert one.labels == [-100, -100, -100, 99, 0, -100, -100, 101, 0]
    assert len(found.validation) == 1 and found.body["trained_tokens"] == 4 and found.body["rendered"] == 2


def test_longer_samples_follow_the_rule_and_are_counted(tmp_path: Path) -> None:
    lines = talk("ab", "c", "d", "e"), talk("x", "y")
    dropped = samples(tmp_path, *lines, tokens=6)
    assert len(dropped.train) == 1 and dropped.counts.dropped == 1
    cut = samples(tmp_path, *lines, tokens=6, rule="cut")
    assert cut.train[0].ids == [97, 98, 0, 99, 0, 100] and cut.counts.cut == 1
    split = samples(tmp_path, *lines, tokens=6, rule="split")
    assert [one.ids for one in split.train] == [[97, 98, 0, 99, 0], [100, 0, 101, 0], [120, 0, 121, 0]]
    assert split.train[1].labels == [-100, -100, 101, 0] and split.counts.split == 1


def test_a_cut_that_leaves_no_label_is_named(tmp_path: Path) -> None:
    found = samples(tmp_path, talk("abcdef", "c", instance_id="long"), talk("x", "y"), tokens=5, rule="cut")
    assert found.cut_away == ["long"] and len(found.train) == 1
    with pytest.raises(UsageError, match="0 samples are longer than 5 tokens, 1 have no label"):
        samples(tmp_path, talk("abcdef", "c"), tokens=5, rule="cut")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (talk("only asked"), r"s.jsonl, line 2 \(i-1\) has no token to train on"),
        (talk("a", "b", role="repair"), "line 2 is of the role repair"),
        ({"schema": "execcritic.sft/9"}, "line 2 is of the schema 'execcritic.sft/9'"),
        ([1], "line 2 is no sample"),
        ({"schema": "execcritic.sft/1", "role": "test"}, "line 2 cannot be rendered"),
        (talk("a", "b", messages=[{"role": "user"}]), "line 2 cannot be rendered"),
        (episode("e", good(), template="cd" * 32).to_json(), "episode e was rendered with the chat template"),
        ({**episode("e", good()).to_json(), "id": ""}, "line 2: id: "),
    ],
)
def test_what_is_no_sample_is_refused_by_name(tmp_path: Path, line: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        samples(tmp_path, talk("a", "b"), line)


def test_records_keep_their_ids_and_those_without_are_rendered(tmp_path: Path) -> None:
    with_ids = episode("e", good(), pairs=(((1, 2), (3,)), ((4,), (5,))))
    turn = with_ids.turns[0].model_copy(
        update={
            "tokens": None,
            "messages": [{"role": "user", "content": "a"}],
            "reply": {"role": "assistant", "content": "b"},
        }
    )
    told = with_ids.model_copy(update={"turns": [turn], "template": None, "id": "told"})
    path = write(tmp_path / "r.jsonl", [with_ids, told])
    found = read([path], "test", Window(100, "drop"), render, TEMPLATE)
    assert [one.ids for one in found.train] == [[1, 2, 3, 4, 5], [97, 0, 98, 0]]
    assert found.rendered == 1


def test_a_torn_file_and_none_at_all(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"schema": "\xff')
    with pytest.raises(UsageError, match="line 1 is not JSON"):
        read([path], "test", Window(9, "drop"), render, TEMPLATE)
    with pytest.raises(UsageError, match="cannot be read"):
        read([tmp_path / "none"], "test", Window(9, "drop"), render, TEMPLATE)
