"""Reading episodes, admitting them, finding leaks, pooling candidates; once end to end by the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from execcritic.batch.instance import Checkout, Gold, Instance
from execcritic_scaffold.errors import InfrastructureError, UsageError
from execcritic_training import admission, conversation, episode, lines, pooling
from execcritic_training.admission import AdmissionSettings, Found, Report, split_of
from execcritic_training.leaks import LeakCheck
from tests.app.batch.conftest import GOOD_TEST, Studies
from tests.app.conftest import Cli, call
from tests.training.recorded import reply, said, stop, write_lines, write_run

RESOLVED = {"status": "RESOLVED"}
ENDED = {"status": "RESOLVED", "error": None, "rounds": 0}


def diff(text: str, path: str = "tests/test_a.py") -> bytes:
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-old line\n+{text}\n".encode()


# -- how an episode ended -----------------------------------------------------------------------------------------


def test_test_episodes(tmp_path: Path) -> None:
    number = iter(range(99))

    def read(*events: Any, **more: Any) -> episode.Episode:
        return episode.read(write_run(tmp_path / str(next(number)), *events, **more), "test")

    turns = [reply("a"), reply("b")]
    unqualified = {"status": "UNQUALIFIED"}
    frozen = read(*turns, stop("submit_test"), gate=RESOLVED, test_patch=b"x", result=ENDED)
    assert (frozen.turns, frozen.operational, frozen.truncated) == (2, None, False)
    assert frozen.bundle is not None
    for kind, cut in {"turns": True, "context": True, "seconds": True, "loop": False, "format": False}.items():
        ended = read(*turns, stop(kind), gate=unqualified, result=ENDED)
        assert (ended.truncated, ended.operational, ended.ran_on_base) == (cut, None, False), kind
    assert read(stop("submit_test"), gate=unqualified, codes=["WRONG_REASON", "PASSES_ON_BASE"]).ran_on_base
    broken = {"status": "INFRASTRUCTURE", "error": "No engine answers."}
    assert read(stop("submit_test"), gate=broken).operational == "No engine answers."
    odd = {"status": "INFRASTRUCTURE", "error": None, "last": {"detail": "no control test passes"}}
    assert read(stop("submit_test"), gate=odd).operational == "no control test passes"
    assert read(*turns).operational == "the run did not end"


def test_repair_episodes(tmp_path: Path) -> None:
    number = iter(range(99))

    def read(kind: str | None, **more: Any) -> episode.Episode:
        events = [reply("a")] + ([stop(kind, "why")] if kind else [])
        return episode.read(write_run(tmp_path / str(next(number)), *events, role="repair", **more), "repair")

    done = read("check", result={**ENDED, "rounds": 2}, fix=b"patch")
    assert (done.turns, done.rounds, done.patch, done.truncated, done.operational) == (1, 2, b"patch", False, None)
    assert not read("turns", result=ENDED).truncated  # the last turn forces a check
    assert read("context", result=ENDED).truncated
    assert read("model", result=ENDED).operational == "the model failed: why"
    assert read("check", result={**ENDED, "error": "disk"}).operational == "disk"
    assert read(None).operational == "the run did not end"


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run directory"):
        episode.read(tmp_path, "test")
    run = write_run(tmp_path / "r", stop("check"), role="repair", result=ENDED)
    (run / "verdict.json").write_bytes(b"[\xff")
    with pytest.raises(UsageError, match="damaged"):
        episode.read(run, "repair")


# -- leaks --------------------------------------------------------------------------------------------------------

FIX = b"""diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1,2 +1,4 @@
-    return merged_spans_of(values, key=None)
+    return merged_spans_of(values, key=operator.itemgetter(0))
+    x = 1
     unchanged_line_of_the_file_is_no_secret()
+    unchanged_line_of_the_file_is_no_secret()
"""
HIDDEN = diff("def test_contained_span_is_kept():")
GOLD = Gold("i", FIX, HIDDEN, ())


@pytest.mark.parametrize(
    ("text", "leak"),
    [
        ("return  merged_spans_of(values,\tkey=operator.itemgetter(0))", "a line of the reference patch"),
        (
            json.dumps({"command": "echo '\n    return merged_spans_of(values, key=operator.itemgetter(0))\n'"}),
            "a line",
        ),
        ("def test_contained_span_is_kept_too():", None),
        ("tests/test_a.py::test_contained_span_is_kept FAILED", "the hidden test"),
        ("return merged_spans_of(values, key=None)", None),
        ("x = 1", None),
        ("unchanged_line_of_the_file_is_no_secret()", None),
        ("", None),
    ],
)
def test_leaks(text: str, leak: str | None) -> None:
    found = LeakCheck(GOLD, "an issue").find(["nothing", text])
    assert (found is None) if leak is None else (found or "").startswith(leak)


def test_what_the_issue_says_is_no_leak() -> None:
    issue = "Use `return merged_spans_of(values, key=operator.itemgetter(0))`; see test_contained_span_is_kept."
    assert LeakCheck(GOLD, issue).find([issue]) is None
    assert LeakCheck(Gold("i", b"", b"", ()), "").find(["anything"]) is None


# -- admission ----------------------------------------------------------------------------------------------------


def instance(name: str, repo: str) -> Instance:
    return Instance(name, repo, "an issue", Checkout("."))


def test_admission(tmp_path: Path) -> None:
    """Three equal tests are one; of four different ones two are kept; the rest is dropped for what it is."""
    found: list[Found] = []

    def run(name: str, text: str, test: bytes | None, *more: Any, gate: Any = RESOLVED) -> None:
        folder = tmp_path / name / str(len(found))
        events = (said("system", "s"), said("user", "u"), reply(text), *more, stop("submit_test"))
        write_run(folder, *events, gate=gate, test_patch=test, result=ENDED)
        found.append(Found(name, folder))

    for text in ("one", "two", "three"):
        run("a", text, diff("same test"))
    for text in ("1", "2", "3", "4"):
        run("b", text, diff(f"test {text}"))
    run("c", "no test", None, gate={"status": "UNQUALIFIED"})
    run("c", "x" * 2000, diff("long"))
    run("c", "saw test_contained_span_is_kept", diff("leak"))
    run("c", "elided", diff("elided"), {"event": "elision", "elided": []})
    run("c", "broken", None, gate={"status": "INFRASTRUCTURE", "error": "no engine"})
    run("d", "unknown", diff("z"))
    write_run(tmp_path / "c" / "none", gate=RESOLVED, test_patch=diff("none"), result=ENDED)
    found.append(Found("c", tmp_path / "c" / "none"))
    settings, report = AdmissionSettings(per_instance=2, characters=1000, validation=0.5), Report()
    known = {name: instance(name, f"o/{name}") for name in "abc"}
    rows = list(admission.admit(found, known, lambda name: Gold(name, FIX, HIDDEN, ()), settings, report))
    assert [row["instance_id"] for row in rows] == ["a", "b", "b"]
    assert report.dropped == {
        "double": 2, "instance has enough": 2, "no clean Base failure": 1, "too long": 1, "leak": 1,
        "outputs were elided": 1, "not judged": 1, "unknown instance": 1, "no reply": 1,
    }  # fmt: skip
    assert report.admitted == 3 and len(report.runs) == len(found)
    assert [m["role"] for m in rows[0]["messages"]] == ["system", "user", "assistant"]
    assert rows[0]["tools"] == ({"type": "function"},)
    assert len({row["split"] for row in rows if row["repo"] == "o/b"}) == 1
    again = Report()
    others = list(admission.admit(found[::-1], known, lambda name: GOLD, settings, again))
    assert [row["messages"] for row in others] == [row["messages"] for row in rows]


def test_a_repository_is_on_one_side() -> None:
    settings = AdmissionSettings(validation=0.3)
    sides = [split_of(f"owner/repo{i}", settings) for i in range(400)]
    assert 80 < sides.count("validation") < 160
    assert split_of("Owner/Repo1", settings) == split_of("owner/repo1", settings)
    assert {split_of(f"r{i}", AdmissionSettings(validation=0)) for i in range(50)} == {"train"}


def test_conversations(tmp_path: Path) -> None:
    """A reply as it was sent back, to the last one; an earlier start in the same file is another attempt."""
    path = tmp_path / "t.jsonl"
    start = {"event": "start", "tools": []}
    history = {"role": "assistant", "content": "(empty reply)"}
    write_lines(
        path,
        [start, said("user", "old"), reply("old"), start, said("user", "u"), reply("", history=history),
         said("tool", "out"), reply("end"), said("user", "never answered")],
    )  # fmt: skip
    talk = conversation.read(path)
    assert [m["content"] for m in talk.messages] == ["u", "(empty reply)", "out", "end"]
    assert (talk.replies, talk.elided) == (2, False)


def test_lines_are_whole_or_not_there(tmp_path: Path) -> None:
    def rows() -> Iterator[dict[str, str]]:
        yield {"a": "\udcff"}
        raise InfrastructureError("The disk is gone; mount it.")

    with pytest.raises(InfrastructureError):
        lines.write(tmp_path / "out", rows(), "--out")
    assert list(tmp_path.iterdir()) == []
    assert lines.write(tmp_path / "out", [{"a": "\udcff"}], "--out") == 1
    assert json.loads((tmp_path / "out").read_text()) == {"a": "\udcff"}
    with pytest.raises(UsageError, match="--out"):
        lines.write(tmp_path / "no" / "out", [], "--out")


# -- pools --------------------------------------------------------------------------------------------------------


def test_pools_of_predictions_and_batches(tmp_path: Path) -> None:
    preds, report = tmp_path / "p.json", tmp_path / "r.json"
    rows = {name: {"instance_id": name, "model_name_or_path": "m", "model_patch": patch} for name, patch in
            {"a": diff("1", "a.py").decode(), "b": diff("2", "a.py").decode().rstrip(), "c": ""}.items()}  # fmt: skip
    preds.write_text(json.dumps(rows))
    report.write_text(json.dumps({"resolved_ids": ["a"], "unresolved_ids": ["b"], "error_ids": ["c"], "total": 3}))
    batch = tmp_path / "batch"
    first = write_run(batch / "runs" / "a" / "0", role="repair", fix=diff("3", "a.py"))
    (first / "repair" / "checks").mkdir()
    (first / "repair" / "checks" / "1.patch").write_bytes(diff("1", "a.py"))
    write_run(batch / "runs" / "a" / "1", role="repair", fix=diff("4", "a.py"))
    (batch / "batch.json").write_text("{}")
    (batch / "evaluation.json").write_text(json.dumps({"a": {"resolved": False}}))
    pools = pooling.gather([f"{preds}={report}", str(batch)])
    labelled = {name: sorted((one.id, one.resolved) for one in pool.candidates) for name, pool in pools.items()}
    assert labelled == {"a": [("batch/0/1", True), ("batch/0/fix", False)], "b": [("m", False)], "c": []}
    assert pooling.totals(pools.values()) == {
        "candidates": 3, "correct": 1, "doubles": 1, "without a label": 1, "labelled both ways": 0, "unreadable": 0,
        "empty": 1,
    }  # fmt: skip
    assert pooling.row("b", pools["b"])["candidate_patches"][0]["patch"].encode() == diff("2", "a.py")


@pytest.mark.parametrize("content", [b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"a": 1}'])
def test_reports_that_say_nothing(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "r").write_bytes(content)
    with pytest.raises(UsageError, match="report"):
        pooling.labels(tmp_path / "r")


def test_what_is_no_batch(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither"):
        list(pooling.runs_of(tmp_path))


@pytest.mark.slow
def test_from_a_data_set_to_training_data(study: Studies) -> None:
    """Two instances, two episodes each: one writes a good test, the other gives up. Collected twice, admitted, pooled;
    the episodes are read as the judge reads them."""
    done = study({"o__spans-1": GOOD_TEST, "o__spans-2": [call("test", "bash", command="ls")]})
    data, out = done.folder / "set.jsonl", done.folder / "episodes"
    data.write_text(data.read_text().replace("def test_", "def test_officially_"))  # else it were a leak
    asked = ("train", "collect", "--role", "test", "--samples", 2, "--out", out, "--json", *done.arguments[2:])
    first = done.cli(*asked)
    assert (out / "runs" / "o__spans-1" / "1" / "test" / "bundle").is_dir(), first
    again = done.cli(*asked)
    assert again.code == first.code
    good = episode.read(out / "runs" / "o__spans-1" / "0", "test")
    assert (good.turns, good.truncated, good.operational) == (2, False, None) and good.bundle is not None
    assert episode.read(out / "runs" / "o__spans-2" / "0", "test").bundle is None
    admitted = done.cli("train", "admit", out, "--dataset", data, "--out", done.folder / "sft.jsonl", "--json")
    assert admitted.code == 0 and admitted.json["admitted"] == 1, admitted
    assert admitted.json["dropped"]["double"] == 1
    row = json.loads((done.folder / "sft.jsonl").read_text())
    assert row["repo"] == "o/spans" and row["messages"][-1]["tool_calls"]
    pools = done.cli("train", "candidates", out, "--out", done.folder / "pools.jsonl", "--json")
    assert pools.code == 0 and pools.json["candidates"] == 0, pools


def test_commands_say_what_is_wrong(cli: Cli, tmp_path: Path) -> None:
    wrong = cli("train", "admit", tmp_path, "--dataset", tmp_path / "none.jsonl", "--out", tmp_path / "sft.jsonl")
    assert wrong.code == 2 and "none.jsonl" in wrong.sentence()
    assert list(tmp_path.iterdir()) == []
