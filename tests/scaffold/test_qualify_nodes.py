"""Nodes and the contract (A4, A6): what is declared, what is added, and what nobody wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from execcritic_scaffold.site import Site
from tests.scaffold.harness import Lab, codes
from tests.scaffold.qualified import AGENT, CONTRACT, FILE, GOOD, PKG, ask


@pytest.fixture(scope="module")
def bare(lab: Lab) -> Site:
    """A Base without a test: no control run, so one start tells."""
    return lab.site({"pkg/__init__.py": PKG})


TWO = GOOD + "\ndef test_more():\n    assert add(2, 2) == 4\n\ndef test_passes():\n    assert add(2, 0) == 2\n"


@dataclass(frozen=True)
class Offer:
    """A test and what it is answered: a code, and findings that must be among those of a qualified one."""

    name: str
    text: str
    code: str
    findings: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


OFFERS = [
    Offer("an agent's test with its contract", GOOD, "QUALIFIED", more=AGENT),
    Offer("an agent gives none", GOOD, "NO_CONTRACT", more={**AGENT, "contract": None}),
    Offer("a person gives none", GOOD, "QUALIFIED", ("NO_CONTRACT",)),
    Offer("a quote that nobody wrote", GOOD, "CONTRACT",
          more={**AGENT, "contract": {**CONTRACT, "issue_evidence": ["it is 4"]}}),
    Offer("a quote from the repository", GOOD, "QUALIFIED",
          more={**AGENT, "contract": {**CONTRACT, "issue_evidence": ["return a - b"]}}),
    Offer("other nodes", GOOD, "CONTRACT", more={**AGENT, "contract": {**CONTRACT, "test_nodes": ["x"]}}),
    Offer("nodes that are none", GOOD, "CONTRACT", more={**AGENT, "contract": {**CONTRACT, "test_nodes": 5}}),
    Offer("nodes of another kind", GOOD, "CONTRACT", more={**AGENT, "contract": {**CONTRACT, "test_nodes": [{}]}}),
    Offer("an issue that is no text", GOOD, "QUALIFIED", more={"issue": "\ud800"}),
    Offer("superseded is no text", GOOD, "SUPERSEDED",
          more={"superseded": ({"node": "x", "issue_quote": ["x"], "reason": "x"},)}),
    Offer("superseded node is null", GOOD, "SUPERSEDED",
          more={"superseded": ({"node": None, "issue_quote": "x", "reason": "x"},)}),
    Offer("an agent does not declare one that fails", TWO, "UNDECLARED_NODE", more=AGENT),
    Offer("a person does not", TWO, "QUALIFIED", ("UNDECLARED_NODE",)),
    Offer("a companion that fails", TWO, "COMPANION_FAILS", more={"companions": (f"{FILE}::test_more",)}),
    Offer("a companion that is not there", TWO, "COMPANION_FAILS", more={"companions": (f"{FILE}::test_x",)}),
    Offer("a companion that passes", TWO, "QUALIFIED", more={"companions": (f"{FILE}::test_passes",)}),
]  # fmt: skip


@pytest.mark.parametrize("row", OFFERS, ids=lambda row: row.name)
def test_offers(bare: Site, row: Offer) -> None:
    answer = ask(bare, row.text, **row.more)
    assert answer.code == row.code, answer.detail
    assert set(row.findings) <= codes(answer)
    if answer.bundle and row.text == TWO:
        assert answer.bundle.companions == (f"{FILE}::test_passes",)
