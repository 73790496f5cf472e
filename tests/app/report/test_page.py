"""The page as a whole: what it shows, that it is well-formed, loads nothing, and lets no text out of its place."""

from __future__ import annotations

import base64
import hashlib
import html
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from execcritic.perform import _leave_report
from execcritic.report import page

HOSTILE = (
    "</script><script>alert(1)</script></style><img src=x onerror=alert(1)>\"'`{{ 7 * 7 }}<!--"
    "\u202e\u2066\u200b\x00\x07\x1b[31mred\x1b[0m\x1b]8;;http://example.org\x07\ud800 &lt; ]]>"
)


def hidden(text: str) -> set[str]:
    """Characters that are not simply visible."""
    return {c for c in set(text) - {"\n", "\t"} if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}


def test_the_page_loads_nothing_and_its_policy_allows_only_its_own(make: Any, taken_apart: Any) -> None:
    found = taken_apart(page.make(make()))
    (policy,) = [a["content"] for t, a in found.tags if t == "meta" and "Policy" in (a.get("http-equiv") or "")]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for kind, text in found.own.items():
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[f"{kind}-src"] == f"'sha256-{digest}'"
    assert [tag for tag, _ in found.tags].count("script") == [tag for tag, _ in found.tags].count("style") == 1
    assert not [a for _, a in found.tags if any(k in ("src", "style", "action") or k.startswith("on") for k in a)]
    assert "url(" not in found.own["style"] and "@import" not in found.own["style"]
    assert "://" not in found.own["script"]


def test_links_lead_to_places_of_the_page(make: Any, taken_apart: Any) -> None:
    found = taken_apart(page.make(make()))
    ids = found.values("id")
    assert len(ids) == len(set(ids))
    assert {link.removeprefix("#") for link in found.values("href")} <= set(ids)
    assert {"quote-1", "quoted-1", "quote-2"} <= set(ids)
    assert "quoted-2" not in ids  # not in the issue


@pytest.mark.parametrize(
    "words",
    [
        "Resolved: the frozen test passes with the patch.",
        "assert f(1) == 2",
        "turn 3 the sum",
        "FAILED_ASSERT",
        "What changed since check 1",
        "execcritic verify --bundle",
        "they are what the certificate names",
        "6,000 in, 120 out",
        "3,000 tokens in",
        "$0.03",
        "newly failing",
        "exit code 1",
        "disputes the test",
        hashlib.sha256(b"def test_f():\n    assert f(1) == 2\n").hexdigest(),
    ],
)
def test_it_shows(make: Any, taken_apart: Any, words: str) -> None:
    assert words in taken_apart(page.make(make())).text


def test_hostile_text_stays_text_and_is_visible(make: Any, taken_apart: Any) -> None:
    calm, found = (taken_apart(page.make(make(said, name=name))) for said, name in (("calm", "a"), (HOSTILE, "b")))
    assert {tag for tag, _ in found.tags} == {tag for tag, _ in calm.tags}
    assert [t for t, _ in found.tags].count("script") == 1
    assert found.own == calm.own
    assert not hidden(found.source)
    assert r"\u202e" in found.text and r"\x00" in found.text and "{{ 7 * 7 }}" in found.text
    assert "alert(1)</script></style><img" in found.text


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet=st.characters(), max_size=60))
def test_any_text_is_escaped(tmp_path_factory: pytest.TempPathFactory, taken_apart: Any, said: str) -> None:
    folder = tmp_path_factory.mktemp("run")
    (folder / "manifest.json").write_text("{}")
    (folder / "issue.md").write_bytes(said.encode("utf-8", "replace"))
    found = taken_apart(page.make(folder))
    assert not hidden(found.source)
    shown = html.unescape(found.source.partition('<div class="issue">')[2].partition("</div>")[0])
    clean = "".join(c for c in said if not hidden(c) and c.isprintable() and c not in "<>&")
    if said.strip() and clean == said:
        assert said in shown


def test_terminal_commands_are_left_out_of_outputs(make: Any, taken_apart: Any) -> None:
    text = taken_apart(page.make(make("\x1b[1;31mE   assert\x1b[0m\r\nnext"))).source
    assert "<pre>E   assert\nnext</pre>" in text


def test_a_report_that_cannot_be_written_is_a_warning(make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make()
    (folder / "report.html").mkdir()
    _leave_report(folder)
    assert capsys.readouterr().err.startswith("Warning: no report is written: ")


def test_a_link_in_the_place_of_the_report_is_not_followed(make: Callable[..., Path], tmp_path: Path) -> None:
    folder, precious = make(), tmp_path / "precious"
    precious.write_text("mine")
    (folder / "report.html").symlink_to(precious)
    page.leave(folder)
    assert precious.read_text() == "mine" and (folder / "report.html").read_bytes().startswith(b"<!doctype html>")


def test_a_typical_run_is_small(make: Any) -> None:
    assert len(page.make(make("x" * 10_000, count=60))) < 2_000_000
