"""Rows and counts of batch folders in every state, and the report on them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execcritic.batch import report, results, tables
from execcritic.batch.counts import count
from execcritic.batch.results import Grade, Row
from execcritic_scaffold.errors import UsageError

from .batches import Batch

IDS = ("a__r-1", "a__r-2", "b__s-1", "b__s-2")


def rows(batch: Batch) -> dict[str, Row]:
    return {row.instance: row for row in results.load(batch.folder.root).rows}


class TestRows:
    def test_one_for_each_requested_run_whatever_is_there(self, tmp_path: Path) -> None:
        """A crash, a start without an end, and one that never began are all in the denominator (R-E01)."""
        batch = Batch(tmp_path / "b", IDS, repeats=2)
        batch.ended(IDS[0])
        batch.ended(IDS[1], ending="infra-failed", status="INFRASTRUCTURE", bundle_id=None, verdict=None)
        batch.journal("started", IDS[2])
        batch.folder.run(IDS[2], 0).mkdir(parents=True)
        found = results.load(batch.folder.root)
        assert [(row.instance, row.repeat) for row in found.rows] == [(name, n) for n in (0, 1) for name in IDS]
        assert [row.ending for row in found.rows[:4]] == ["finished", "infra-failed", "unfinished", "not-started"]
        counts = count(found.rows)
        assert (counts.requested, counts.instances, counts.incomplete) == (8, 4, 7)
        assert (counts.resolved, counts.unresolved, counts.not_graded) == (0, 0, 8)

    def test_a_lost_end_is_made_up_for_by_the_run_directory(self, tmp_path: Path) -> None:
        batch = Batch(tmp_path / "b", IDS[:1])
        batch.journal("started", IDS[0])
        run = batch.folder.run(IDS[0], 0)
        run.mkdir(parents=True)
        (run / "verdict.json").write_text(json.dumps({"status": "NOT_FIXED", "verdict": "FAIL", "bundle_id": "x"}))
        (row,) = results.load(batch.folder.root).rows
        assert (row.ending, row.decision, row.qualified, row.empty) == ("finished", "FAIL", True, True)

    def test_damaged_files_cost_what_they_said_and_are_named(self, tmp_path: Path) -> None:
        batch = Batch(tmp_path / "b", IDS[:2])
        batch.ended(IDS[0])
        with batch.folder.journal.open("ab") as out:
            out.write(b"\xff\xfe{not json\n[1]\n" + b'{"event": "ended", "instance": 3, "repeat": 0}\n{"torn')
        (batch.folder.run(IDS[0], 0) / "verdict.json").write_bytes(b"\xff{")
        batch.folder.evaluation.write_text("[]")
        batch.folder.audit.write_bytes(b'{"kind": "bundle"}\n' + b"[" * 100_000)
        found = results.load(batch.folder.root)
        assert [row.ending for row in found.rows] == ["finished", "not-started"]
        assert len([note for note in found.notes if "damaged" in note]) == 8, found.notes

    def test_a_stranger_in_the_journal_does_not_count(self, tmp_path: Path) -> None:
        batch = Batch(tmp_path / "b", IDS[:2])
        for name in IDS:
            batch.ended(name)
        found = results.load(batch.folder.root)
        assert count(found.rows).requested == 2
        assert any("not asked for" in note for note in found.notes)

    def test_base_gate_failures_and_empty_patches_stay_in_the_denominator(self, tmp_path: Path) -> None:
        batch = Batch(tmp_path / "b", IDS)
        batch.ended(IDS[0], status="UNQUALIFIED", bundle_id=None, verdict=None)
        batch.ended(IDS[1], patch="")
        for name in IDS[2:]:
            batch.ended(name)
        batch.graded({IDS[0]: "resolved", IDS[1]: "empty", IDS[2]: "error", IDS[3]: "unresolved"})
        found = results.load(batch.folder.root)
        counts = count(found.rows)
        assert (counts.resolved, counts.unresolved, counts.not_graded, counts.requested) == (1, 2, 1, 4)
        assert (counts.qualified, counts.unqualified, counts.empty) == (3, 1, 1)
        assert found.rows[0].base_to_gold is False, "without a test nothing is Base-to-Gold"
        assert any("1 of 4 patches are empty" in text for text in counts.warnings)

    @pytest.mark.parametrize(
        "manifest",
        [
            None,
            b"{",
            b"[]",
            b'{"ids": 3, "repeats": 1}',
            b'{"ids": ["a"]}',
            b'{"ids": ["../../x"], "repeats": 1}',
            b'{"ids": ["a"], "repeats": 1000000000}',
        ],
    )
    def test_a_folder_that_is_no_batch_is_refused(self, tmp_path: Path, manifest: bytes | None) -> None:
        if manifest is not None:
            (tmp_path / "batch.json").write_bytes(manifest)
        with pytest.raises(UsageError):
            results.load(tmp_path)

    @pytest.mark.parametrize(
        ("round0", "final", "base_to_gold", "damaged"),
        [
            ("resolved", "unresolved", False, True),
            ("resolved", "unresolved", True, False),
            ("resolved", "unresolved", None, None),
            ("resolved", "resolved", False, False),
            ("unresolved", "unresolved", False, False),
            ("error", "unresolved", False, None),
        ],
    )
    def test_wrong_test_damage(
        self, tmp_path: Path, round0: str, final: str, base_to_gold: bool | None, damaged: bool | None
    ) -> None:
        batch = Batch(tmp_path / "b", IDS[:1])
        batch.ended(IDS[0], round0="first", patch="last")
        batch.graded({IDS[0]: final})
        batch.graded({IDS[0]: round0}, "round0")
        batch.audited(IDS[0], base_to_gold)
        assert rows(batch)[IDS[0]].damaged is damaged

    def test_round0_has_the_grade_of_the_same_patch_and_no_other(self, tmp_path: Path) -> None:
        batch = Batch(tmp_path / "b", IDS[:2])
        batch.ended(IDS[0], round0="diff")
        batch.ended(IDS[1], round0="another")
        batch.graded(dict.fromkeys(IDS[:2], "resolved"))
        found = rows(batch)
        assert (found[IDS[0]].round0, found[IDS[1]].round0) == (Grade.RESOLVED, None)

    def test_instances_whose_gold_fails_are_marked(self, tmp_path: Path) -> None:
        batch = Batch(tmp_path / "b", IDS[:2])
        for name in IDS[:2]:
            batch.ended(name)
        batch.line({"kind": "control", "instance": IDS[0], "passes": False})
        batch.line({"kind": "control", "instance": IDS[1], "passes": True})
        made = report.build([results.load(batch.folder.root)])
        marked = next(table for table in made.tables if table.title.endswith("marked"))
        assert [row[0] for row in marked.rows] == [f"{IDS[0]} (0)"]
        assert made.counts[0].gold_fails == 1

    def test_repository_of_an_id(self) -> None:
        assert results.repository("psf__requests-6028") == "psf/requests"
        assert results.repository("scikit-learn__scikit-learn-10297") == "scikit-learn/scikit-learn"
        assert results.repository("oauthlib__oauthlib.1fd52536.combine_file__09vlzwgc") == "oauthlib/oauthlib"


@given(
    st.lists(
        st.builds(
            lambda **values: values,
            ending=st.sampled_from(["finished", "model-failed", "infra-failed", "interrupted", "not-started"]),
            grade=st.sampled_from(list(Grade)),
            qualified=st.sampled_from([True, False, None]),
            empty=st.sampled_from([True, False, None]),
            decision=st.sampled_from(["PASS", "FAIL", "INCONCLUSIVE", "FORBIDDEN", None]),
            base_to_gold=st.sampled_from([True, False, None]),
            cost=st.none() | st.floats(0, 10),
        ),
        max_size=30,
    )
)
def test_every_sum_is_the_number_asked_for(values: list[dict[str, Any]]) -> None:
    found = count(Row(f"i-{number}", "r", 0, **one) for number, one in enumerate(values))
    assert found.requested == len(values)
    assert found.incomplete <= found.requested
    assert sum(found.decisions.values()) == found.requested


class TestReport:
    def test_an_empty_set_is_a_report_with_zeros_and_an_exit_code(self, tmp_path: Path) -> None:
        made = report.build([results.load(Batch(tmp_path / "b", ()).folder.root)], ["repo", "round"])
        assert made.exit_code == 5
        assert made.counts[0].requested == 0 and "EMPTY" in made.notes[0]
        assert "| b | 0 | 0 |" in tables.markdown(made.tables)
        json.dumps(made.body)

    def two(self, tmp_path: Path) -> list[results.Results]:
        ids = [f"a__r-{n}" for n in range(10)]
        none = Batch(tmp_path / "none", ids, "no-test", models={"repair": "openai:m"})
        generated = Batch(tmp_path / "gen", ids, "resolve", models={"test": "openai:t", "repair": "openai:m"})
        for name in ids:
            none.ended(name, bundle_id=None, verdict=None, turns=5)
            generated.ended(name, turns=15)
            generated.audited(name, True, balanced_accuracy=0.5)
        none.graded({name: "resolved" if n < 4 else "unresolved" for n, name in enumerate(ids)})
        generated.graded({name: "resolved" if n < 9 else "unresolved" for n, name in enumerate(ids)})
        return [results.load(one.folder.root) for one in (none, generated)]

    def test_pairs_and_the_table_of_conditions(self, tmp_path: Path) -> None:
        made = report.build(self.two(tmp_path), ["repo", "round"])
        assert made.exit_code == 0
        titles = {table.title: table for table in made.tables}
        pair = next(row for row in titles["Paired on the same instances"].rows if row[1] == "resolved")
        assert pair[2:5] == (10, 0, 5) and pair[6] == pytest.approx(2 / 2**5)
        method = titles["Resolved in % by test source and repair agent"]
        assert method.head == ("test source", "openai:m")
        assert [(row[0], row[1].count) for row in method.rows if isinstance(row[1], tables.Rate)] == [
            ("none", 4),
            ("openai:t", 9),
        ]
        assert {"none, by repository", "gen, by revision rounds begun"} <= titles.keys()

    def test_three_forms_of_the_same_numbers(self, tmp_path: Path) -> None:
        made = report.build(self.two(tmp_path))
        assert "40.0 [16.8, 68.7] (4/10)" in tables.markdown(made.tables)
        assert "Rates in % [95 % interval],none,resolved,0.4,0.168" in tables.comma_separated(made.tables)
        (rates,) = [table for table in made.body["tables"] if table["title"].startswith("Rates")]
        assert rates["rows"][0]["resolved"]["count"] == 4

    def test_what_nobody_judged_has_no_rate(self, tmp_path: Path) -> None:
        """Neither the official evaluator nor the audit was asked, and one condition has no test."""
        for mode in ("resolve", "no-test"):
            batch = Batch(tmp_path / mode, IDS[:1], mode)
            batch.ended(IDS[0], **({"bundle_id": None, "verdict": None} if mode == "no-test" else {}))
        made = report.build([results.load(tmp_path / mode) for mode in ("resolve", "no-test")])
        (rates,) = [table for table in made.tables if table.title.startswith("Rates")]
        resolve, without = (dict(zip(rates.head, row, strict=True)) for row in rates.rows)
        assert resolve["resolved"] is resolve["Base-to-Gold"] is None
        assert isinstance(resolve["qualified"], tables.Rate)
        assert without["qualified"] is without["frozen test passes"] is None

    @pytest.mark.slow
    def test_plots_are_svg_and_the_same_twice(self, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        from execcritic.batch import plots

        made = report.build(self.two(tmp_path))
        first = {path.name: path.read_bytes() for path in plots.draw(made, tmp_path / "one")}
        assert {path.name: path.read_bytes() for path in plots.draw(made, tmp_path / "two")} == first
        assert all(b"<svg" in data for data in first.values())

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_plots_where_nothing_can_be_written(self, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        from execcritic.batch import plots

        tmp_path.chmod(0o500)
        with pytest.raises(UsageError):
            plots.draw(report.build([]), tmp_path / "p")
