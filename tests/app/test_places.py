"""Where code runs: what the user says wins over what a bundle recorded, and the two are never mixed up."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from execcritic.places import Place, is_url
from execcritic.request import Request
from execcritic_scaffold.bundle import BundleRecord, FrozenBundle
from execcritic_scaffold.errors import UsageError

IN_BUBBLEWRAP = {
    "sandbox": "bubblewrap",
    "python": "/opt/py",
    "image": None,
    "setup": ["make"],
    "source_roots": ["src"],
}
IN_DOCKER = {"sandbox": "docker", "python": None, "image": "img:1", "setup": [], "source_roots": ["."]}


@pytest.fixture
def record(frozen: Path) -> BundleRecord:
    return FrozenBundle.load(frozen).record


@pytest.mark.parametrize(
    ("said", "recorded", "expected"),
    [
        (Place(), IN_BUBBLEWRAP, Place("bubblewrap", "/opt/py", None, ("make",), ("src",), "pytest")),
        (Place(), IN_DOCKER, Place("docker", None, "img:1", (), (".",), "pytest")),
        (Place(python="/my/py"), IN_BUBBLEWRAP, Place("bubblewrap", "/my/py", None, (), ("src",), "pytest")),
        (Place(python="/my/py"), IN_DOCKER, Place(None, "/my/py", None, (), (".",), "pytest")),
        (Place(image="img:2"), IN_BUBBLEWRAP, Place(None, None, "img:2", (), ("src",), "pytest")),
        (Place(setup=("pip",)), IN_BUBBLEWRAP, Place("bubblewrap", "/opt/py", None, ("pip",), ("src",), "pytest")),
        (Place(sandbox="local"), IN_BUBBLEWRAP, Place("local", "/opt/py", None, ("make",), ("src",), "pytest")),
    ],
)
def test_what_is_said_wins_over_what_was_recorded(
    record: BundleRecord, said: Place, recorded: dict[str, Any], expected: Place
) -> None:
    assert said.over(record.model_copy(update={"environment": recorded})) == expected


def test_an_interpreter_and_an_image_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        Place(python="/opt/py", image="img:1")


def test_a_request_survives_the_manifest() -> None:
    request = Request("resolve", "/repo", "issue.md", {"test": "human", "repair": None}, Place(setup=("a", "b")))
    assert Request.of(json.loads(json.dumps(asdict(request)))) == request
    rooted = replace(request, place=Place(source_roots=("src",)))
    assert Request.of(json.loads(json.dumps(asdict(rooted)))) == rooted


@pytest.mark.parametrize(
    ("repo", "url"),
    [("https://h/r.git", True), ("git@h:o/r.git", True), (".", False), ("/a/b:c", False), ("a@b", False)],
)
def test_urls_and_folders(repo: str, url: bool) -> None:
    assert is_url(repo) is url
