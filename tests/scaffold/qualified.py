"""A small package, its test, and how a new test is offered on it: what is qualified here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from execcritic_scaffold.qualification import Qualification
from execcritic_scaffold.site import Site
from tests.scaffold.harness import Files, offer

PKG = """import json


class Reply:
    def __init__(self, text):
        self.text = text


def add(a, b):
    return a - b


def find(name):
    return None


def strict(text):
    if not text:
        raise KeyError(text)
    return text


def wrong_key():
    return {"b": 1}


def reply():
    return Reply("x")
"""
OLD = """from pkg import add


def test_zero():
    assert add(1, 0) == 1


def test_negative():
    assert add(0, 1) == -1
"""
HEAD = "import asyncio, os, random, subprocess, sys, time, unittest\nimport pytest\nimport pkg\n"
HEAD += "from pkg import add, find, reply, strict, wrong_key\n\n\n"
FILE = "tests/test_new.py"
NODE = f"{FILE}::test_new"
GOOD = "def test_new():\n    assert add(1, 2) == 3\n"
CONTRACT: Mapping[str, Any] = {
    "entrypoint": "pkg.add",
    "trigger": "add(1, 2)",
    "expected_output": "3",
    "issue_evidence": ["add(1, 2) is -1"],
    "alternative_hypotheses": [],
    "non_assertions": [],
    "test_nodes": [NODE],
}
AGENT: Mapping[str, Any] = {"author": "agent", "contract": CONTRACT, "issue": "add(1, 2) is\n-1 and not 3"}


def ask(site: Site, text: str, *nodes: str, k: int = 1, **more: Any) -> Qualification:
    files: Files = {FILE: HEAD + text, **more.pop("files", {})}
    return offer(site, files, *(nodes or (NODE,)), k=k, **{"soundness": False, **more})
