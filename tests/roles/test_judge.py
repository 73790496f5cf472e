"""The judge over a real endpoint: one question, a fresh conversation, a bounded number of replies."""

from __future__ import annotations

import json

import pytest

from execcritic_roles.judge import judge
from execcritic_roles.models.openai import OpenAIModel
from execcritic_roles.models.options import ModelOptions
from execcritic_scaffold.bundle import BundleRecord, FrozenBundle, NodeRecord, blob_of
from execcritic_scaffold.disputes import Dispute, Ruling
from tests.openai_server import Server
from tests.roles.episodes import check_protocol

ISSUE = "merge() loses spans. It should keep the longer one."
QUOTE = "It should keep the longer one."
RULING = {"supported": False, "quote": QUOTE, "reason": "it asks for an order"}


def _bundle(patch: bytes) -> FrozenBundle:
    blob = blob_of(patch)
    node = NodeRecord(kind="reproducing", tier="assertion", base_outcome="FAILED_ASSERT", signature="")
    record = BundleRecord(
        harness="0", created="", base_tree="0" * 40, base_commit=None, delta=None, environment_files={},
        issue_sha256="", author="agent", runner="pytest", runner_options={}, files={}, readonly=[],
        nodes={"tests/t.py::test_a": node}, superseded=[], contract={"entrypoint": "merge"}, environment={}, guard={},
        evidence=[], findings=[], test_patch=blob,
    )  # fmt: skip
    return FrozenBundle(record, {blob.sha256: patch})


BUNDLE = _bundle(b"+def test_a():\n+    assert merge(x) == [\xff]\n")
DISPUTE = Dispute("tests/t.py::test_a", QUOTE, "the order is free")


def model(server: Server) -> OpenAIModel:
    return OpenAIModel("m", ModelOptions(base_url=server.url, backoff_seconds=0.01, patience_seconds=5))


def test_it_sees_the_issue_the_contract_the_test_and_the_claim(server: Server) -> None:
    server.call(("rule", RULING))
    found = judge(model(server), ISSUE, BUNDLE, DISPUTE, 60)
    assert found.ruling == Ruling(False, QUOTE, "it asks for an order")
    assert (found.usage.turns, found.usage.input_tokens) == (1, 100)
    asked = server.requests[0]["messages"][1]["content"]
    for text in (ISSUE, '"entrypoint": "merge"', "assert merge(x)", "tests/t.py::test_a", "the order is free"):
        assert text in asked


def test_without_a_dispute_the_whole_test_is_asked_about(server: Server) -> None:
    server.call(("rule", {**RULING, "supported": True}))
    assert judge(model(server), ISSUE, BUNDLE, None, 60).ruling.supported is True
    assert "<claim>" not in server.requests[0]["messages"][1]["content"]


def test_what_is_no_ruling_is_asked_again(server: Server) -> None:
    server.say("It is complicated.").call(("rule", {"supported": "perhaps", "quote": "x", "reason": "y"}))
    server.call(("rule", RULING))
    found = judge(model(server), ISSUE, BUNDLE, DISPUTE, 60)
    assert found.ruling.supported is False
    assert found.usage.turns == 3
    assert "it called no tool" in server.requests[1]["messages"][-1]["content"]
    assert "supported" in server.requests[2]["messages"][-1]["content"]
    check_protocol(server.requests)


@pytest.mark.parametrize("broken", ["prose", "refusal", "overflow"])
def test_a_judge_that_comes_to_none(server: Server, broken: str) -> None:
    if broken == "prose":
        server.say("Well.").say("Well.").say("Well.")
    elif broken == "refusal":
        server.status(401, {"error": {"message": "bad key"}})
    else:
        server.overflow("vllm")
    found = judge(model(server), ISSUE, BUNDLE, DISPUTE, 60)
    assert found.ruling.supported is None
    assert found.ruling.reason
    json.dumps(list(found.messages))


def test_a_test_of_any_length_is_shown_in_part(server: Server) -> None:
    server.call(("rule", RULING))
    judge(model(server), ISSUE, _bundle(b"+x = 1\n" * 200_000), None, 60)
    assert len(server.requests[0]["messages"][1]["content"]) < 40_000
