"""Files of records: what is written is read again, and what is wrong is told with its file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from execcritic_scaffold.errors import UsageError
from execcritic_training.evidence import Labelled, RepairEvidence, TestEvidence
from execcritic_training.evidence import Outcome as Judged
from execcritic_training.recordfile import RecordWriter, read_records
from execcritic_training.records import Artifact, Artifacts, Outcome, Record, Task, Turn, group_key, template_hash
from tests.training.making import TASK, record, sampled, turn

EVIDENCE = TestEvidence(
    True, 12, Judged.FAIL, Judged.PASS, (Labelled("a", True, Judged.PASS), Labelled("b", False, Judged.OPERATIONAL))
)


def write(path: Path, *records: Record) -> Path:
    with RecordWriter(path) as writer:
        for each in records:
            writer.append(each)
    return path


def changed(path: Path, **fields: Any) -> Path:
    """The first record of the file again, with other fields."""
    body = json.loads(path.read_bytes().splitlines()[0])
    path.write_text(json.dumps({**body, **fields}) + "\n")
    return path


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    surrogate = {"role": "assistant", "content": "\ud800 é", "\udfff": [1.5, None]}
    patch = b"--- a/caf\xe9\n\x00"
    first = sampled(([1, 2], [3, 9]), ([1, 2, 3, 9, 5], [4, 9]), evidence=EVIDENCE, template=template_hash("t"))
    second = record(
        Turn(keep=0, messages=[{"role": "user", "content": "x"}], reply=surrogate),
        role="repair",
        frozen="f" * 64,
        evidence=RepairEvidence(True, 3, 1, None, Judged.PASS, Judged.FAIL),
        artifacts=Artifacts(files=[Artifact.of("fix.patch", patch)]),
        outcome=Outcome(status="op_error", reason="the sandbox died"),
    )
    read = list(read_records(write(tmp_path / "r.jsonl", first, second)))
    assert read == [first, second]
    assert read[0].evidence == EVIDENCE and isinstance(read[1].evidence, RepairEvidence)
    assert read[1].artifacts.files[0].content == patch
    assert read[1].turns[0].reply == surrogate
    assert list(read[0].prompts()) == [[1, 2], [1, 2, 3, 9, 5]]


def test_prompts_are_stored_as_what_they_add(tmp_path: Path) -> None:
    ids: list[int] = []
    turns = []
    for number in range(60):
        prompt = [*ids, *range(number, number + 50)]
        ids = [*prompt, 7, 9]
        turns.append((prompt, [7, 9]))
    long = sampled(*turns)
    assert sum(len(t.tokens.prompt) for t in long.turns if t.tokens) == 60 * 50
    assert list(long.prompts()) == [prompt for prompt, _ in turns]


def test_groups_are_task_role_and_frozen_bundle() -> None:
    keys = {
        group_key(task, role, frozen)  # type: ignore[arg-type]
        for task in (TASK, Task(instance_id="spans-1", base="cd" * 20), Task(instance_id="spans-2", base="ab" * 20))
        for role in ("test", "repair")
        for frozen in (None, "a", "b")
    }
    assert len(keys) == 18 and all(len(key) == 64 for key in keys)
    assert group_key(TASK.model_copy(update={"split": None}), "test", None) == group_key(TASK, "test", None)


def test_another_schema_names_file_and_line(tmp_path: Path) -> None:
    path = changed(write(tmp_path / "r.jsonl", sampled(([1], [2]))), schema="execcritic.traj/2")
    with pytest.raises(
        UsageError, match=r"r\.jsonl, line 1 is of the schema 'execcritic\.traj/2', .*'execcritic\.traj/1'"
    ):
        list(read_records(path))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"schema": "execcritic.traj/1", "id"', r"line 2 is torn"),
        (b'{"schema"\n', r"line 2 is not JSON"),
        (b"[1]\n", r"line 2 is no record"),
        (b"\xff\xfe\n", r"line 2 is not JSON"),
        (b"[" * 100_000 + b"\n", r"line 2 is not JSON"),
        (b'{"schema": "execcritic.traj/1"}\n', r"line 2: id: Field required"),
    ],
)
def test_a_bad_line_names_file_and_line(tmp_path: Path, line: bytes, said: str) -> None:
    path = write(tmp_path / "r.jsonl", sampled(([1], [2])))
    path.write_bytes(path.read_bytes() + line)
    with pytest.raises(UsageError, match=said):
        list(read_records(path))


def test_writing_goes_on_behind_a_torn_line(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", sampled(([1], [2]), id="a"))
    path.write_bytes(path.read_bytes() + b'{"schema": "exec')
    write(path, sampled(([1], [2]), id="b"))
    assert [each.id for each in read_records(path)] == ["a", "b"]


def test_a_file_in_use_is_refused_and_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with RecordWriter(path):
        path.write_bytes(b'{"half')
        with pytest.raises(UsageError, match="in use by another process"):
            RecordWriter(path)
        assert path.read_bytes() == b'{"half'


def test_unknown_fields_are_refused(tmp_path: Path) -> None:
    path = changed(write(tmp_path / "r.jsonl", sampled(([1], [2]))), reward=0.0)
    with pytest.raises(UsageError, match=r"line 1: reward: Extra inputs"):
        list(read_records(path))


def test_where_ids_are_needed_a_record_without_them_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", sampled(([1], [2])), record(Turn(keep=0, messages=[], reply={}), id="teacher"))
    assert len(list(read_records(path))) == 2
    with pytest.raises(UsageError, match=r"line 2: episode teacher, turn 0 has no token ids and log-probabilities"):
        list(read_records(path, tokens=True))
    with pytest.raises(UsageError, match=r"line 1: episode empty has no turn"):
        list(read_records(write(tmp_path / "e.jsonl", record(id="empty")), tokens=True))


def test_another_chat_template_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", sampled(([1], [2]), template=template_hash("a")), sampled(([1], [2])))
    records = read_records(path, template=template_hash("a"))
    next(records)
    with pytest.raises(UsageError, match=r"line 2: .*template of an unknown hash"):
        next(records)
    with pytest.raises(UsageError, match=r"line 1: .*collect it again"):
        next(read_records(path, template=template_hash("b")))


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ({"logprobs": [-0.1]}, "1 log-probabilities for 2 sampled tokens"),
        ({"logprobs": []}, "0 log-probabilities"),
        ({"logprobs": [-0.1, float("nan")]}, "finite"),
        ({"logprobs": [-0.1, None]}, "number"),
        ({"logprobs": [-0.1, 0.5]}, "less than"),
        ({"mask": [True]}, "a mask of 1"),
        ({"output": [], "logprobs": []}, "at least 1"),
        ({"prompt": [1.0]}, "integer"),
        ({"prompt": [-1]}, "greater"),
        ({"prompt": [True]}, "integer"),
        ({"prompt": []}, "empty prompt"),
        ({"keep": 3}, "keeps 3 of 0 tokens"),
    ],
)
def test_nothing_is_made_up_for_tokens(tmp_path: Path, tokens: dict[str, Any], said: str) -> None:
    path = write(tmp_path / "r.jsonl", sampled(([1], [2, 3])))
    body = json.loads(path.read_bytes())
    body["turns"][0]["tokens"] |= tokens
    path.write_text(json.dumps(body))
    with pytest.raises(UsageError, match=rf"line 1: .*{said}"):
        list(read_records(path))


def test_what_contradicts_itself_is_no_record() -> None:
    for fields, said in [
        ({"group": "0" * 64}, "group is not the key"),
        ({"evidence": RepairEvidence(True, 1, 0)}, "evidence about a repair episode"),
        ({"frozen": "f" * 64}, "is given no frozen bundle"),
    ]:
        with pytest.raises(ValidationError, match=said):
            record(turn(0, [1], [2]), **fields)
    for status in ("truncated", "op_error", "aborted"):
        with pytest.raises(ValidationError, match="without a reason"):
            Outcome(status=status)
    with pytest.raises(ValidationError, match="hash names"):
        Artifact(name="fix.patch", sha256="0" * 64, data="eA==")
