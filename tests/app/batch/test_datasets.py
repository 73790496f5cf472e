"""Data sets as they are published, and as they should not be: every form of a row, and messages that name the row."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from execcritic import config
from execcritic.batch.datasets import load
from execcritic.batch.images import ImageSettings
from execcritic.batch.instance import Candidate, Checkout, Image, Sdist
from execcritic_scaffold.errors import UsageError

PATCH = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-bad = 1\n+good = 1\n"
TEST = "diff --git a/t.py b/t.py\n--- a/t.py\n+++ b/t.py\n@@ -1 +1 @@\n-old\n+new\n"
ROW: dict[str, Any] = {
    "instance_id": "Owner__repo-1",
    "repo": "Owner/repo",
    "base_commit": "0" * 40,
    "problem_statement": "It fails.",
    "hints_text": "",
    "created_at": "2024-01-01",
    "version": "1.0",
    "environment_setup_commit": "1" * 40,
    "patch": PATCH,
    "test_patch": TEST,
    "FAIL_TO_PASS": '["t.py::a"]',
    "PASS_TO_PASS": "[]",
}
OWN: dict[str, dict[str, Any]] = {
    "swebench": {},
    "swebench 5": {"eval_script": "#!/bin/bash\n", "image": "swebench/x:latest", "log_parser": "p", "eval_type": "e"},
    "rebench": {"docker_image": "swerebench/x:latest", "install_config": {}, "FAIL_TO_PASS": ["t.py::a"]},
    "live": {"test_cmds": ["pytest"], "FAIL_TO_PASS": ["t.py::a"], "PASS_TO_PASS": []},
}
SMITH = {
    "instance_id": "o__r.12345678.bug__1",
    "repo": "swesmith/o__r.12345678",
    "problem_statement": "It fails.",
    "patch": PATCH,
    "image_name": "jyangballin/swesmith.x86_64.o_1776_r.12345678",
    "FAIL_TO_PASS": ["tests/t.py::a", "tests/t.py::b[x::y]"],
    "PASS_TO_PASS": [],
}
REAL = {
    **{name: ROW[name] for name in ("instance_id", "repo", "problem_statement", "test_patch")},
    "gold_patch": PATCH,
    "FAIL_TO_PASS": ["t.py::a"],
    "PASS_TO_PASS": ["t.py::b"],
    "sdist": "flask==2.0.1",
    "python_pins": ["pytest==7.4.4", "Jinja2==3.1.2"],
    "python_path": "src",
    "runner": "pytest",
    "candidate_patches": [
        {"source": "s", "patch": PATCH, "official_resolved": True, "local_resolved": False},
        {"source": "s", "patch": "", "official_resolved": True, "local_resolved": None},
        {"source": "s", "patch": ""},
    ],
}


def row(**changes: Any) -> dict[str, Any]:
    """A row of SWE-bench with other cells; None takes a column out."""
    return {name: value for name, value in {**ROW, **changes}.items() if value is not None}


def lines(path: Path, *rows: Any) -> str:
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return str(path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


@pytest.mark.parametrize("dialect", OWN)
def test_each_dialect_is_recognised_and_read(file: Path, dialect: str) -> None:
    data = load(lines(file, row(**OWN[dialect])), images=ImageSettings(architecture="x86_64"))
    (instance,) = data.instances
    assert data.dialect == dialect
    assert (instance.id, instance.repo, instance.version) == ("Owner__repo-1", "Owner/repo", "1.0")
    assert isinstance(instance.source, Image)
    assert instance.source.name == {
        "swebench": "swebench/sweb.eval.x86_64.owner_1776_repo-1:latest",
        "live": "starryzhang/sweb.eval.x86_64.owner_1776_repo-1:latest",
    }.get(dialect, f"swe{'re' if dialect == 'rebench' else ''}bench/x:latest")
    gold = data.gold(instance.id)
    assert (gold.patch, gold.test_patch) == (PATCH.encode(), TEST.encode())
    assert (gold.fail_to_pass, gold.pass_to_pass) == (("t.py::a",), ())


def test_smith_makes_the_bug_and_takes_the_tests_out(file: Path) -> None:
    data = load(lines(file, SMITH))
    (instance,) = data.instances
    assert data.dialect == "swesmith"
    assert instance.source == Image(str(SMITH["image_name"]), base_patch=PATCH.encode(), hidden=("tests/t.py",))
    assert b"-good = 1\n+bad = 1\n" in data.gold(instance.id).patch.replace(
        b"+bad = 1\n-good = 1\n", b"-good = 1\n+bad = 1\n"
    )


def test_a_source_distribution_with_its_labelled_candidates(file: Path) -> None:
    data = load(lines(file, {**REAL, "base_patch": PATCH}))
    (instance,) = data.instances
    assert instance.source == Sdist("flask==2.0.1", ("pytest==7.4.4", "Jinja2==3.1.2"), ("src",), PATCH.encode())
    assert instance.runner == "pytest"
    assert data.gold(instance.id).candidates == (
        Candidate("s-1", PATCH.encode(), False),  # what was found here goes before what was published
        Candidate("s-2", b"", True),
        Candidate("s-3", b"", None),
    )


def test_a_checkout_of_this_machine(file: Path) -> None:
    data = load(lines(file, row(path="/some/where", base_commit=None, PASS_TO_PASS=None)))
    assert data.instances[0].source == Checkout("/some/where")
    assert data.gold("Owner__repo-1").patch == PATCH.encode()


@pytest.mark.parametrize("written", [["a", "b"], '["a", "b"]', "['a', 'b']", "('a', \"b\")", ' ["a","b"] '])
def test_lists_in_every_form(file: Path, written: Any) -> None:
    for name in ("FAIL_TO_PASS", "fail_to_pass"):
        assert load(lines(file, row(FAIL_TO_PASS=None) | {name: written})).gold("Owner__repo-1").fail_to_pass == (
            "a",
            "b",
        )


@pytest.mark.parametrize(
    "written",
    [
        "",
        " ",
        None,
        3,
        {"a": 1},
        "a",
        "['a' 'b']",
        "[1]",
        [1],
        [""],
        [None],
        '{"a": 1}',
        "{'a'}",
        "[" * 9999,
        "null",
        '"a"',
    ],
)
def test_a_list_of_unknown_form_is_an_error_that_names_row_and_column(file: Path, written: Any) -> None:
    broken = {**ROW, "instance_id": "Owner__repo-2", "FAIL_TO_PASS": written}
    with pytest.raises(UsageError, match=r"^rows\.jsonl, row 2, column FAIL_TO_PASS: .*; correct the data set\.$"):
        load(lines(file, ROW, broken))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "holds no instances"),
        ([row(patch=None, problem_statement=None)], "rows.jsonl, row 1 .*no column problem_statement, patch;"),
        ([row(eval_script="x")], "no column image;"),
        ([row(eval_script="x", image="")], "column image: it names no image"),
        ([row(eval_script="x", image="a b")], "column image: 'a b' is no name of an image"),
        ([row(image="-v/etc:/etc")], "is no name of an image"),
        ([ROW, row(repo="other/repo")], "row 2, column instance_id: Owner__repo-1 is also the id of rows.jsonl, row 1"),
        ([ROW, row(instance_id="owner__REPO-1")], "is also the id of rows.jsonl, row 1"),
        ([row(instance_id="../../etc")], "column instance_id: '../../etc' cannot be the name of a folder"),
        ([row(instance_id="a/b")], "cannot be the name"),
        ([row(instance_id=7)], "column instance_id: a text is wanted, not 7"),
        ([row(problem_statement="  ")], "column problem_statement: it is empty"),
        ([row(problem_statement="\ud800")], "column problem_statement: it holds half of a surrogate pair"),
        ([row(patch=["x"])], "column patch: a text is wanted"),
        ([ROW, {**REAL, "instance_id": "x"}], "row 2 is written as realset, rows.jsonl, row 1 as swebench"),
        ([[1]], "row 1 is no object"),
        ([{**REAL, "sdist": "flask"}], "column sdist: 'flask' is not name==version"),
        ([{**REAL, "sdist": "--index-url=http://h x==1"}], "column sdist"),
        ([{**REAL, "sdist": "x @ file:///etc/x"}], "column sdist"),
        ([{**REAL, "python_pins": ["x==1", "-r /etc/passwd"]}], "column python_pins: '-r /etc/passwd' is not"),
        ([{**REAL, "python_pins": ["x==1.*"]}], "column python_pins"),
        ([{**REAL, "python_path": "../x"}], "column python_path: '../x' is not inside"),
        ([{**REAL, "runner": "os.path"}], "column runner: 'os.path' is none of django, pytest"),
        ([{**REAL, "candidate_patches": [3]}], "column candidate_patches: entry 1 is no object"),
        ([{**REAL, "candidate_patches": [{"source": "s", "patch": "", "local_resolved": 1}]}], "entry 1, column local"),
        ([{**SMITH, "FAIL_TO_PASS": ["../../x.py::a"]}], "is no Python file of the repository"),
        ([{**SMITH, "patch": PATCH[:-20]}], "column patch: it cannot be turned round"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(file: Path, rows: list[Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load(lines(file, *rows))


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("x.jsonl", b'\n{"a', "x.jsonl, row 2 is not JSON"),
        ("x.jsonl", b'\n\n{"a": "\xff"}\n', "x.jsonl, row 3 is not UTF-8"),
        ("x.json", b'{"a": 1}', "x.json holds no list of rows"),
        ("x.json", b"[1", "x.json is not JSON"),
        ("x.csv", b"a,b", "x.csv is none of .jsonl, .json, .parquet"),
    ],
)
def test_files_that_are_no_data_set(tmp_path: Path, name: str, data: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UsageError, match=words):
        load(str(tmp_path / name))


def test_json_lines_list_and_one_object_give_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([ROW]))
    (tmp_path / "b.json").write_text(json.dumps(ROW, indent=1))
    (tmp_path / "c.json").write_text(json.dumps(ROW) + "\n" + json.dumps(row(instance_id="x")))
    (tmp_path / "d.jsonl").write_bytes(b"\xef\xbb\xbf" + json.dumps(ROW).encode())
    digests = {load(str(tmp_path / name)).digest for name in ("a.json", "b.json", "d.jsonl")}
    assert len(digests) == 1
    assert len(load(str(tmp_path / "c.json")).instances) == 2


def test_splits_of_a_folder(tmp_path: Path) -> None:
    lines(tmp_path / "dev.jsonl", row(instance_id="dev"))
    lines(tmp_path / "test-00000-of-00002.jsonl", row(instance_id="t1"))
    lines(tmp_path / "test-00001-of-00002.jsonl", row(instance_id="t2"))
    assert [one.id for one in load(str(tmp_path)).instances] == ["t1", "t2"]
    assert [one.id for one in load(str(tmp_path), "dev").instances] == ["dev"]
    with pytest.raises(UsageError, match="has no split tset; it has dev, test"):
        load(str(tmp_path), "tset")
    with pytest.raises(UsageError, match="is one file and has no split test"):
        load(str(tmp_path / "dev.jsonl"), "test")


def test_parts_of_a_folder_are_read_one_after_the_other(tmp_path: Path) -> None:
    lines(tmp_path / "part1.jsonl", row(instance_id="a"))
    lines(tmp_path / "part2.jsonl", row(instance_id="A"))
    with pytest.raises(
        UsageError, match=r"part2\.jsonl, row 1, column instance_id: A is also the id of part1\.jsonl, row 1"
    ):
        load(str(tmp_path))


def test_names_that_are_nothing(tmp_path: Path) -> None:
    for name in ("vrified", "no/such/file.jsonl", "/nowhere", str(tmp_path / "x")):
        with pytest.raises(UsageError, match=r"There is no data set .*lite, verified"):
            load(name)
    with pytest.raises(UsageError, match="holds no data set"):
        load(str(tmp_path))


def test_gold_is_not_held_until_it_is_asked_for_and_never_goes_along(file: Path) -> None:
    data = load(lines(file, ROW))
    assert PATCH.encode() not in pickle.dumps(data)
    data.gold("Owner__repo-1")
    again = pickle.loads(pickle.dumps(data))
    assert b"good = 1" not in pickle.dumps(data)
    assert again == data
    with pytest.raises(UsageError, match="has no instance nobody"):
        data.gold("nobody")
    lines(file, row(patch=""))
    with pytest.raises(UsageError, match="has changed since it was read"):
        again.gold("Owner__repo-1")


def test_the_registry_and_the_architecture_are_the_users(file: Path) -> None:
    settings = ImageSettings(registry="localhost:5000/m", architecture="arm64", tag="v1")
    (instance,) = load(lines(file, ROW), images=settings).instances
    assert instance.source == Image("localhost:5000/m/swebench/sweb.eval.arm64.owner_1776_repo-1:v1")


def test_parquet_and_saved_folders_give_the_same(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_list([ROW, row(instance_id="x", FAIL_TO_PASS='["b"]')])
    rows.to_parquet(tmp_path / "test.parquet")
    datasets.DatasetDict({"test": rows, "dev": rows}).save_to_disk(str(tmp_path / "saved"))
    read = [load(str(tmp_path / "test.parquet")), load(str(tmp_path), "test"), load(str(tmp_path / "saved"), "dev")]
    assert len({data.digest for data in read}) == 1
    assert [data.gold("x").fail_to_pass for data in read] == [("b",)] * 3
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "test.parquet").read_bytes()[:-9])
    with pytest.raises(UsageError, match=r"cut\.parquet is no Parquet file that can be read"):
        load(str(tmp_path / "cut.parquet"))


def test_the_configuration_says_where_images_come_from() -> None:
    chosen = config.load(sets=["batch.images.registry=localhost:5000"], environ={}).batch.images
    assert chosen == ImageSettings(registry="localhost:5000")
    with pytest.raises(UsageError, match=r"batch\.images\.registy; the nearest known key is batch\.images\.registry"):
        config.load(sets=["batch.images.registy=x"], environ={})
