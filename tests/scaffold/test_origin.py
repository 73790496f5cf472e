"""Which failures on Base are admitted, and as what: an absent symbol has to be the repository's own (B2, B3)."""

from __future__ import annotations

import pytest

from execcritic_scaffold.origin import Context, judge, judge_collection
from execcritic_scaffold.outcome import Failure, Frame, NodeResult, Outcome
from execcritic_scaffold.paths import Discovery

FILE = "tests/test_x.py"
ISSUE = "safe_add is missing, add has no keyword called strict, and elsewhere there is one"
HEAD = "import json\nimport pkg\nfrom pkg import add\n\n\ndef test_it(client):\n    "


@pytest.fixture(scope="module")
def discovery() -> Discovery:
    return Discovery()


def failed(kind: str, message: str) -> Failure:
    kinds = (f"builtins.{kind}", *(["builtins.ImportError"] if kind == "ModuleNotFoundError" else []))
    return Failure(kinds, message, (Frame(FILE, 7, "test_it", True),), "")


def tier(discovery: Discovery, body: str, kind: str, message: str) -> str:
    context = Context(discovery, frozenset({"pkg"}), ISSUE, lambda path: (HEAD + body + "\n").encode())
    judged = judge(NodeResult("n", Outcome.FAILED_EXCEPTION, failed(kind, message)), context)
    return judged.tier or judged.code


@pytest.mark.parametrize(
    ("body", "kind", "message", "expected"),
    [
        ("pkg.safe_add(1)", "AttributeError", "module 'pkg' has no attribute 'safe_add'", "api-absent"),
        ("add(1, 2).safe_add", "AttributeError", "'int' object has no attribute 'safe_add'", "api-absent"),
        ("client.safe_add()", "AttributeError", "'Client' object has no attribute 'safe_add'", "api-absent"),
        ("from pkg import safe_add", "ImportError", "cannot import name 'safe_add' from 'pkg' (x.py)", "api-absent"),
        ("import pkg.safe_add", "ModuleNotFoundError", "No module named 'pkg.safe_add'", "api-absent"),
        ("add(1, strict=1)", "TypeError", "add() got an unexpected keyword argument 'strict'", "api-absent"),
        ("json.safe_add(1)", "AttributeError", "module 'json' has no attribute 'safe_add'", "WRONG_REASON"),
        ("json.dumps(1, strict=1)", "TypeError", "got an unexpected keyword argument 'strict'", "WRONG_REASON"),
        ("import elsewhere", "ModuleNotFoundError", "No module named 'elsewhere'", "WRONG_REASON"),
        ("from json import safe_add", "ImportError", "cannot import name 'safe_add' from 'json' (x)", "WRONG_REASON"),
        ("''.safe_add", "AttributeError", "'str' object has no attribute 'safe_add'", "WRONG_REASON"),
        ("pkg.other(1)", "AttributeError", "module 'pkg' has no attribute 'other'", "WRONG_REASON"),
        ("add(1)", "TypeError", "add() missing 1 required positional argument: 'b'", "WRONG_REASON"),
        ("add(1, 2, 3)", "TypeError", "add() takes 2 positional arguments but 3 were given", "WRONG_REASON"),
        ("add(1, 2).name", "AttributeError", "'NoneType' object has no attribute 'name'", "value-shape"),
    ],
)  # fmt: skip
def test_judge(discovery: Discovery, body: str, kind: str, message: str, expected: str) -> None:
    assert tier(discovery, body, kind, message) == expected


@pytest.mark.parametrize(
    ("text", "kind", "message", "tier"),
    [
        ("from pkg import safe_add\n", "ImportError", "cannot import name 'safe_add' from 'pkg' (x)", "api-absent"),
        ("from pkg import safe_add\n", "ImportError", "cannot import name 'safe_add'", "api-absent"),
        ("from json import safe_add\n", "ImportError", "cannot import name 'safe_add'", None),
        ("import elsewhere\n", "ModuleNotFoundError", "No module named 'elsewhere'", None),
    ],
)
def test_judge_collection(discovery: Discovery, text: str, kind: str, message: str, tier: str | None) -> None:
    context = Context(discovery, frozenset({"pkg"}), ISSUE, lambda path: text.encode())
    kinds = (f"builtins.{kind}", "builtins.ImportError")
    failure = Failure(kinds, message, (Frame(FILE, 1, "<module>", True),), "")
    assert judge_collection(FILE, failure, context).tier == tier
