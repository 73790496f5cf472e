"""Predictions: the three forms that are about, and what is refused in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from execcritic.batch import predictions
from execcritic.batch.folder import Folder
from execcritic.batch.predictions import Prediction
from execcritic_scaffold.errors import UsageError

ROWS = [
    {"instance_id": "a__a-1", "model_name_or_path": "m", "model_patch": "diff\n"},
    {"instance_id": "b__b-2", "model_name_or_path": "m", "model_patch": ""},
]
FORMS = {
    "list": json.dumps(ROWS),
    "lines": "\n".join(json.dumps(row) for row in ROWS) + "\n\n",
    "mapping": json.dumps({row["instance_id"]: row for row in ROWS}),
    "mapping without ids": json.dumps({row["instance_id"]: {k: row[k] for k in list(row)[1:]} for row in ROWS}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read(tmp_path: Path, form: str) -> None:
    path = tmp_path / "preds"
    path.write_text(FORMS[form])
    assert predictions.read(path) == {
        "a__a-1": Prediction("a__a-1", "m", b"diff\n"),
        "b__b-2": Prediction("b__b-2", "m", b""),
    }


def test_plain_patches_by_id_and_one_line(tmp_path: Path) -> None:
    path = tmp_path / "preds"
    path.write_text('{"a": "x", "b": null}')
    assert predictions.read(path) == {"a": Prediction("a", "", b"x"), "b": Prediction("b", "", b"")}
    path.write_text(json.dumps(ROWS[0]))
    assert list(predictions.read(path)) == ["a__a-1"]
    path.write_text(" \n")
    assert predictions.read(path) == {}


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """Also bytes that are no UTF-8, and in the form of the official evaluator: a row an instance, by its keys."""
    folder = Folder(tmp_path)
    made = [Prediction("a", "m", b"\xff\x80 caf\xc3\xa9 \xed\xa0\x80\r\n"), Prediction("b", "m")]
    predictions.write(folder, made)
    for path in (folder.predictions, folder.prediction_lines):
        assert list(predictions.read(path).values()) == made
    rows = json.loads(folder.predictions.read_bytes())
    assert set(rows) == {"a", "b"}
    assert {tuple(row) for row in rows.values()} == {("instance_id", "model_name_or_path", "model_patch")}
    assert not list(tmp_path.glob(".execcritic-*"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (json.dumps([ROWS[0], {"instance_id": "b"}]), "entry 2 has no model_name_or_path (it has instance_id)"),
        (json.dumps([ROWS[0], {**ROWS[1], "model_patch": 3}]), "entry 2: model_patch is no text"),
        (json.dumps({"a": {"model_name_or_path": "m", "patch": ""}}), "entry 1 has no model_patch"),
        (json.dumps([*ROWS, ROWS[0]]), "a__a-1 twice (entry 1 and entry 3)"),
        ("\n".join(json.dumps(row) for row in [*ROWS, {}, ROWS[0]]), "line 3 has no instance_id (it has no key)"),
        ("\n".join(json.dumps(row) for row in [*ROWS, ROWS[0]]), "a__a-1 twice (line 1 and line 3)"),
        ('{"a": "x", "b": "y", "a": "z"}', "a twice (entry 1 and entry 3)"),
        (json.dumps(ROWS[0]) + "\n{oops", "line 2 is not JSON"),
        (json.dumps(ROWS[0]) + "\n[1]", "line 2 is no object"),
        ("7", "holds no predictions"),
        ('{"a": [1]}', "entry 1 is no object"),
        ("[" * 100_000, "line 1 is not JSON"),
        (json.dumps([{**ROWS[0], "model_patch": "\ud800"}]), "characters that are no text"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "preds.json"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        predictions.read(path)
    assert words in str(error.value)
