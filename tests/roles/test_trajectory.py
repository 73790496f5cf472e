from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from execcritic_roles.trajectory import Trajectory, read
from execcritic_scaffold.errors import UsageError


def test_every_line_is_on_disk_as_soon_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "t.jsonl"
    seen = []
    with Trajectory(path, seen.append) as trajectory:
        for number in range(3):
            trajectory.append("message", number=number, text="ä\ud800\n\0")
            assert [line["number"] for line in read(path)] == list(range(number + 1))
    assert [line["text"] for line in read(path)] == ["ä\ud800\n\0"] * 3
    assert seen == list(read(path))


@pytest.mark.parametrize("torn", [b'{"event": "mess', b"\xff\xfe", b"{", b"[" * 200_000])
def test_a_torn_last_line_is_left_out_and_cut_off_when_the_record_goes_on(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "t.jsonl"
    with Trajectory(path) as trajectory:
        trajectory.append("message", number=1)
    with open(path, "ab") as file:
        file.write(torn)
    assert [line["number"] for line in read(path)] == [1]
    with Trajectory(path) as trajectory:
        trajectory.append("message", number=2)
    assert [line["number"] for line in read(path)] == [1, 2]


def test_a_file_that_is_torn_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"x" * 200_000)
    with Trajectory(path) as trajectory:
        trajectory.append("message", number=1)
    assert [line["number"] for line in read(path)] == [1]


@pytest.mark.parametrize("line", ["no json", "[]", "3"])
def test_damage_in_the_middle_is_said_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f'{{"a": 1}}\n\n{line}\n{{"a": 2}}\n')
    with pytest.raises(UsageError, match=r"line 3 .*repair or remove"):
        list(read(path))


def test_neither_writing_nor_reading_holds_the_file_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    tracemalloc.start()
    try:
        with Trajectory(path) as trajectory:
            for _ in range(100):
                trajectory.append("message", text="x" * 200_000)
        assert sum(len(line["text"]) for line in read(path)) == 20_000_000
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
    assert json.loads(path.read_bytes().splitlines()[-1])["event"] == "message"
