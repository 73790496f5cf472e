"""`swebench run` as a user has it: what is done, what is done again, and what is refused before anything is."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from execcritic.batch import conditions, journal
from execcritic.batch.assignment import Mode
from execcritic.batch.journal import Journal
from execcritic.batch.manifest import Asked
from execcritic.batch.start import Order, start
from execcritic.config import load
from execcritic.places import Place
from execcritic_scaffold.errors import ModelError, UsageError

from ..conftest import NODE, SCRIPT, call
from ..test_errors import in_mount_namespace
from .conftest import CONTRACT, DONE, GOOD_TEST, RIGHT, WRONG, Studies, Study, bash

NO_TEST = ("--mode", "no-test")


def test_one_record_an_instance_and_only_what_failed_is_done_again(study: Studies) -> None:
    """One run ends with a patch, one without, one cannot start; then its repository is there; then there are more."""
    batch = study({"a-1": [bash(RIGHT), DONE], "b-2": [DONE], "c-3": [bash(WRONG), DONE]})
    gone = shutil.move(batch.folder / "repos" / "c-3", batch.folder / "c-3")
    ran = batch.run(*NO_TEST, "--workers", 2, "--set", "batch.retries=0", "--slice", "0:3")
    assert ran.code == 5, ran
    assert ran.json["endings"] == {
        **dict.fromkeys(("model-failed", "interrupted", "missing"), 0),
        "finished": 2,
        "infra-failed": 1,
    }
    assert (ran.json["runs"], ran.json["empty_patches"], ran.json["cost"]) == (3, 1, 0)
    assert "There is no folder" in ran.json["failed"][0]
    assert [bool(patch) for patch in batch.predictions().values()] == [True, False, False]

    shutil.move(gone, batch.folder / "repos" / "c-3")
    batch.write({"a-1": [bash(RIGHT), DONE], "b-2": [DONE], "c-3": [bash(WRONG), DONE], "d-4": [DONE]})
    changed = batch.run(*NO_TEST, "--set", "loop.revisions=1")
    assert (changed.code, "dataset.digest" in changed.sentence()) == (2, True)
    assert "config.loop.revisions: 5 -> 1" in changed.sentence()

    with open(batch.out / "journal.jsonl", "ab") as journal:
        journal.write(b'{"event": "ended", "instance": "b-2", "repe')  # torn
    again = batch.run(*NO_TEST, "--allow-changed-config")
    assert (again.code, again.json["endings"]["finished"], again.json["runs"]) == (0, 4, 4), again
    assert again.json["damaged_lines"] == [7]
    assert "line 7 is damaged" in again.err
    started = [line["instance"] for line in mended(batch) if line["event"] == "started"]
    assert sorted(started) == ["a-1", "b-2", "c-3", "c-3", "d-4"]
    assert [bool(patch) for patch in batch.predictions().values()] == [True, False, True, False]


def mended(batch: Study) -> list[dict[str, object]]:
    """The journal, its torn line taken out."""
    assert journal.read(batch.out / "journal.jsonl").damaged == (7,)
    lines = (batch.out / "journal.jsonl").read_text().splitlines()
    del lines[6]
    (batch.out / "journal.jsonl").write_text("\n".join(lines) + "\n")
    return batch.lines()


class TestNothingIsStarted:
    @pytest.mark.parametrize(
        ("more", "code", "words"),
        [
            (("--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1"), 5, "http://127.0.0.1:9/v1 is unreachable"),
            (("--model", "replay:absent/{instance}.jsonl"), 2, "absent/a-1.jsonl (1 such recordings are missing)"),
            (("--out", "/sys/execcritic/out"), 2, "--out"),
        ],
    )
    def test_what_can_be_known_before(self, study: Studies, more: tuple[str, ...], code: int, words: str) -> None:
        batch = study({"a-1": [DONE]})
        ran = batch.run(*more)
        assert (ran.code, words in ran.sentence()) == (code, True), ran
        assert not batch.out.exists()

    def test_a_key_that_the_endpoint_does_not_know(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "bad-key-value")
        with refusing() as url:
            config = load(sets=[f"model.base_url={url}"], environ={})
            asked = Asked("d", None, "", ("a",), Mode.NO_TEST, 1, {"repair": "openai:m"}, {}, None, None, config)
            order = Order(tmp_path / "out", asked, (), None, Place(), 1, "local", {}, frozenset(), False)  # type: ignore[arg-type]
            with pytest.raises(ModelError, match="HTTP 401") as error:
                start(order, lambda *_: None)
        assert "bad-key-value" not in str(error.value)
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        ("mode", "bundles", "round0", "spec", "words"),
        [
            (Mode.REPAIR, None, None, "openai:m", "--mode repair needs --bundles"),
            (Mode.ORACLE, Path(), None, "openai:m", "--mode repair needs --bundles"),
            (Mode.RESOLVE, None, Path(), "openai:m", "--round0 is where the repair begins"),
            (Mode.NO_TEST, None, None, "human", "A person cannot play a role"),
        ],
    )
    def test_what_does_not_go_together(
        self, mode: Mode, bundles: Path | None, round0: Path | None, spec: str, words: str
    ) -> None:
        with pytest.raises(UsageError, match=words):
            conditions.check(mode, bundles, round0, {"repair": spec})

    def test_another_batch_that_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="is no batch"):
            conditions.Conditions(tmp_path, None)

    def test_no_room_on_the_disk(self, study: Studies) -> None:
        batch = study({"a-1": [DONE], "b-2": [DONE]})
        ran = batch.run("--set", "batch.free_mb=1000000000")
        assert (ran.code, ran.json["endings"]["missing"]) == (5, 2), ran
        assert "less than batch.free_mb" in ran.json["stopped"]
        assert batch.predictions() == {"a-1": "", "b-2": ""}

        poor = ("--set", "batch.cost=5", "--set", "batch.instance_cost=6")
        ran = batch.cli("swebench", "run", "--resume", batch.out, "--json", *poor)
        assert (ran.code, ran.json["endings"]["missing"]) == (5, 2), ran
        assert "of batch.cost=5 are spent" in ran.json["stopped"]

        book = Journal(batch.out / "journal.jsonl")
        ran = batch.run()
        book.close()
        assert (ran.code, "is in use by another process" in ran.sentence()) == (2, True), ran
        assert batch.ends() == []

    @pytest.mark.bubblewrap
    def test_a_full_disk(self, study: Studies, environment: dict[str, str]) -> None:
        batch = study({"a-1": [DONE]})
        (batch.folder / "full").mkdir()
        ran = in_mount_namespace(
            "mount -t tmpfs -o size=16k tmpfs full && { cat /dev/zero >full/filler 2>/dev/null; true; }",
            [
                "sh",
                "-c",
                '"$@"; code=$?; ls -A full >&2; exit $code',
                "sh",
                SCRIPT,
                *batch.arguments,
                "--out",
                "full/b",
            ],
            environment,
            batch.folder,
        )
        assert (ran.code, ran.err.splitlines()[-1]) == (5, "filler"), ran
        assert "disk is full" in ran.err


@pytest.mark.slow
class TestConditions:
    def test_the_same_bundles_and_round_0_under_every_condition(self, study: Studies) -> None:
        """resolve; from its Round 0: no test, its bundles (twice), the official test. One Base gate fails."""
        wrong_first = [bash(WRONG), call("repair", "check"), bash(RIGHT), call("repair", "check")]
        batch = study(
            {
                "a-1": [*GOOD_TEST, *wrong_first],
                "b-2": [call("test", "submit_test", nodes=[NODE], contract=CONTRACT), *wrong_first],
            }
        )
        ran = batch.run("--set", "loop.submissions=1")
        assert ran.code == 0, ran
        assert ran.json["statuses"] == {"RESOLVED": 1, "UNQUALIFIED": 1}
        first = batch.out
        round0 = batch.predictions()["b-2"]
        assert "set(spans)" in round0

        # Round 0 is not in these recordings: it comes from the first batch.
        rest = [bash(RIGHT), call("repair", "check")]
        for name in ("a-1", "b-2"):
            batch.write({**dict.fromkeys(("a-1", "b-2"), rest), name: rest})
        for mode, more, statuses in (
            ("no-test", (), {"UNQUALIFIED": 2}),
            ("repair", ("--bundles", first, "--repeats", 2), {"RESOLVED": 2, "UNQUALIFIED": 2}),
            ("oracle", (), {"RESOLVED": 2}),
        ):
            batch.out = batch.folder / mode
            ran = batch.run("--mode", mode, "--round0", first, *more)
            assert (ran.code, ran.json["statuses"]) == (0, statuses), ran
            fixed = [name for name, patch in batch.predictions().items() if "max(" in patch]
            assert fixed == {"no-test": [], "repair": ["a-1"], "oracle": ["a-1", "b-2"]}[mode]
            kept = [patch for patch in batch.predictions().values() if "max(" not in patch]
            assert all(patch == round0 for patch in kept)
        again = (batch.out / "oracle" / "a-1" / "bundle" / "bundle.json").stat().st_mtime_ns
        ran = batch.run("--mode", "oracle", "--round0", first, "--rerun", "finished")
        assert (ran.code, len(batch.ends())) == (0, 4), ran
        assert (batch.out / "oracle" / "a-1" / "bundle" / "bundle.json").stat().st_mtime_ns == again
        assert len(list((batch.out / "replaced").iterdir())) == 2


@contextmanager
def refusing() -> Iterator[str]:
    """An endpoint that knows nobody's key."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
