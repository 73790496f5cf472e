"""Where code runs: what the user says wins over what a bundle recorded, and the two are never mixed up."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from execcritic.clones import is_url
from execcritic.places import Place
from execcritic.request import Request
from execcritic_scaffold.bundle import BundleRecord, blob_of
from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.runners import registry as runners
from execcritic_scaffold.sandbox import registry as sandboxes

IN_BUBBLEWRAP = {
    "sandbox": "bubblewrap",
    "python": "/opt/py",
    "image": None,
    "setup": ["make"],
    "source_roots": ["src"],
}
IN_DOCKER = {"sandbox": "docker", "python": None, "image": "img:1", "setup": [], "source_roots": ["."]}


def record(environment: dict[str, Any], runner: str = "pytest") -> BundleRecord:
    """A record as a stranger may write it."""
    return BundleRecord(
        harness="0", created="", base_tree="0" * 40, base_commit=None, delta=None, environment_files={},
        issue_sha256="", author="agent", runner=runner, runner_options={}, files={}, readonly=[], nodes={},
        superseded=[], contract=None, environment=environment, guard={}, evidence=[], findings=[],
        test_patch=blob_of(b""),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "recorded", "expected"),
    [
        (Place(), IN_BUBBLEWRAP, Place("bubblewrap", "/opt/py", None, ("make",), ("src",), "pytest")),
        (Place(), IN_DOCKER, Place("docker", None, "img:1", (), (".",), "pytest")),
        (Place(python="/my/py"), IN_BUBBLEWRAP, Place("bubblewrap", "/my/py", None, (), ("src",), "pytest")),
        (Place(python="/my/py"), IN_DOCKER, Place(None, "/my/py", None, (), (".",), "pytest")),
        (Place(image="img:2"), IN_BUBBLEWRAP, Place(None, None, "img:2", (), ("src",), "pytest")),
        (Place(setup=("pip",)), IN_BUBBLEWRAP, Place("bubblewrap", "/opt/py", None, ("pip",), ("src",), "pytest")),
        (
            Place(sandbox="local", setup=("make",)),
            IN_BUBBLEWRAP,
            Place("local", "/opt/py", None, ("make",), ("src",), "pytest"),
        ),
        (Place(runner="my.runner"), IN_DOCKER, Place("docker", None, "img:1", (), (".",), "my.runner")),
    ],
)
def test_what_is_said_wins_over_what_was_recorded(said: Place, recorded: dict[str, Any], expected: Place) -> None:
    assert said.over(record(recorded)) == expected


class TestWhatABundleFromElsewhereMayNotChoose:
    def test_no_isolation(self) -> None:
        with pytest.raises(UsageError, match="frozen without isolation; say --sandbox local"):
            Place().over(record({**IN_BUBBLEWRAP, "sandbox": "local"}))
        assert Place("local", setup=("x",)).over(record({**IN_BUBBLEWRAP, "sandbox": "local"})).sandbox == "local"

    @pytest.mark.parametrize("name", ["os:getcwd", "docker ", "LOCAL", ["local"]])
    def test_a_sandbox_of_its_own(self, name: object) -> None:
        with pytest.raises(UsageError):
            Place().over(record({**IN_BUBBLEWRAP, "sandbox": name}))

    @pytest.mark.parametrize("name", ["some.module", "execcritic_scaffold.runners.pytest", "nose", ""])
    def test_a_runner_of_its_own(self, name: str) -> None:
        with pytest.raises(UsageError, match="--runner"):
            Place().over(record(IN_BUBBLEWRAP, runner=name))

    @pytest.mark.parametrize(
        "python", ["ci/run-me", "./python", "python3", "{repo}/ci/run-me", "{repo}/x/../ci/run-me", "{link}"]
    )
    def test_a_program_of_the_repository(self, tmp_path: Path, python: str) -> None:
        repo, link = tmp_path / "repo", tmp_path / "link"
        (repo / "ci").mkdir(parents=True)
        (repo / "x").mkdir()
        (repo / "ci" / "run-me").touch()
        link.symlink_to(repo / "ci" / "run-me")
        hostile = record({**IN_BUBBLEWRAP, "python": python.format(repo=repo, link=link)})
        with pytest.raises(UsageError, match="--python"):
            Place().over(hostile, repo)
        assert Place(python="/my/py").over(hostile, repo).python == "/my/py"

    def test_a_virtual_environment_elsewhere_is_known_by_its_link(self, tmp_path: Path) -> None:
        (tmp_path / "repo").mkdir()
        (tmp_path / "venv").mkdir()
        (tmp_path / "venv" / "python").symlink_to("/usr/bin/env")
        python = str(tmp_path / "venv" / "python")
        assert Place().over(record({**IN_BUBBLEWRAP, "python": python}), tmp_path / "repo").python == python

    def test_the_active_virtual_environment_is_the_user_s_own_word(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        python = tmp_path / "repo" / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to("/usr/bin/env")
        known = record({**IN_BUBBLEWRAP, "python": str(python)})
        monkeypatch.delenv("VIRTUAL_ENV", raising=False)
        with pytest.raises(UsageError, match="--python"):
            Place().over(known, tmp_path / "repo")
        monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "repo" / ".venv"))
        assert Place().over(known, tmp_path / "repo").python == str(python)

    @pytest.mark.parametrize("chosen", ["local", "my.sandbox:Mine"])
    def test_commands_without_isolation(self, chosen: str) -> None:
        with pytest.raises(UsageError, match="--setup"):
            Place(sandbox=chosen).over(record(IN_BUBBLEWRAP))
        assert Place(sandbox=chosen, python="/my/py").over(record(IN_BUBBLEWRAP)).setup == ()

    @pytest.mark.parametrize("root", ["/etc", "../other", "src/../.."])
    def test_folders_outside_the_repository(self, root: str) -> None:
        with pytest.raises(UsageError, match="do not trust"):
            Place().over(record({**IN_BUBBLEWRAP, "source_roots": [root]}))

    @pytest.mark.parametrize("change", [{"setup": "make"}, {"python": 3}, {"image": ["x"]}, {"source_roots": [1]}])
    def test_what_is_no_text(self, change: dict[str, Any]) -> None:
        with pytest.raises(UsageError, match="complete copy"):
            Place().over(record({**IN_BUBBLEWRAP, **change}))


def test_the_registries_call_nothing_that_is_not_what_they_are_asked_for() -> None:
    for name in ("os:getcwd", "pathlib:Path", "os:absent", "no.such:Class"):
        with pytest.raises(UsageError, match="choose"):
            sandboxes.get(name)
    for name in ("os.path", "no.such", "nose"):
        with pytest.raises(UsageError, match="choose"):
            runners.choose({}, name)


class TestResumingARunFromElsewhere:
    REQUEST = Request("resolve", "/repo", "issue.md", {"test": "human", "repair": "openai:m"}, Place())

    @pytest.mark.parametrize(
        ("place", "words"),
        [
            (Place(sandbox="local"), "--sandbox local"),
            (Place(sandbox="os:getcwd"), "--sandbox"),
            (Place(runner="some.module"), "--runner"),
            (Place(python="ci/run-me"), "--python"),
        ],
    )
    def test_a_manifest_chooses_no_code_of_the_host(self, tmp_path: Path, place: Place, words: str) -> None:
        with pytest.raises(UsageError, match=words):
            replace(self.REQUEST, place=place).again(Place(), {}, tmp_path)

    def test_nor_an_interpreter_in_its_own_folder(self, tmp_path: Path) -> None:
        hostile = replace(self.REQUEST, place=Place(python=str(tmp_path / "python")))
        with pytest.raises(UsageError, match="--python"):
            hostile.again(Place(), {}, tmp_path)

    def test_nor_set_up_commands_without_isolation(self, tmp_path: Path) -> None:
        hostile = replace(self.REQUEST, place=Place(sandbox="local", setup=("make",)))
        with pytest.raises(UsageError, match="--setup"):
            hostile.again(Place(sandbox="local"), {}, tmp_path)
        said = Place(sandbox="local", setup=("make",))
        assert hostile.again(said, {}, tmp_path).place == said

    def test_nor_a_model_that_is_code(self, tmp_path: Path) -> None:
        hostile = replace(self.REQUEST, models={"test": "subprocess.getoutput:id", "repair": "human"})
        with pytest.raises(UsageError, match="--model"):
            hostile.again(Place(), {}, tmp_path)
        assert hostile.again(Place(), {"test": "human"}, tmp_path).models == {"test": "human", "repair": "human"}

    def test_what_is_harmless_needs_no_word(self, tmp_path: Path) -> None:
        own = replace(self.REQUEST, place=Place("bubblewrap", "/opt/py", setup=("make",), runner="pytest"))
        assert own.again(Place(), {}, tmp_path) == own


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
