"""The environment of a new job: set up only where something lacks, checked before any model is asked."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from execcritic import config, environments, places
from execcritic.places import AUTO, NONE, Place
from execcritic_scaffold import base as bases
from execcritic_scaffold.errors import EnvironmentFailure, UsageError
from execcritic_scaffold.install.detect import Plan
from execcritic_scaffold.site import Site
from execcritic_scaffold.store import Store

from .conftest import Cli, call, git, recording

Opened = Callable[..., tuple[Site, Plan | None, list[tuple[str, Mapping[str, Any]]]]]
PACKAGE = {"pkg/__init__.py": "def one():\n    return 1\n"}
GOOD = {**PACKAGE, "tests/test_pkg.py": "from pkg import one\n\n\ndef test_one():\n    assert one() == 1\n"}
NEEDY = {**GOOD, "tests/test_thing.py": "import absent_thing\n\n\ndef test_it():\n    assert absent_thing.X\n"}
ONLY_NEEDY = {**PACKAGE, "tests/test_thing.py": NEEDY["tests/test_thing.py"]}


def wheel(folder: Path) -> str:
    """A distribution that no index has; its path in the repository."""
    path = folder / "wheels" / "absent_thing-1.0-py3-none-any.whl"
    path.parent.mkdir(parents=True)
    info = "absent_thing-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("absent_thing.py", "X = 1\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: absent-thing\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return f"./wheels/{path.name}"


def checkout(folder: Path, files: Mapping[str, str]) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=start")
    return folder


@pytest.fixture
def opened(tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Open the site of a checkout; with it the plan that was carried out, and what was told."""
    if engine != "bubblewrap":
        pytest.skip("needs bubblewrap: docker has no interpreter of this machine, local sets nothing up unasked")
    monkeypatch.setenv("EXECCRITIC_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)

    def run(files: Mapping[str, str], setup: tuple[str, ...] = (), sets: tuple[str, ...] = (), **said: Any) -> Any:
        repo = tmp_path / "repo" if (tmp_path / "repo" / ".git").exists() else checkout(tmp_path / "repo", files)
        told: list[tuple[str, Mapping[str, Any]]] = []
        base = bases.snapshot(repo, Store(tmp_path / "store"))
        place = Place(said.pop("sandbox", engine), setup=setup, **said)
        with places.sandbox(place) as sandbox:
            site, plan = environments.opened(
                base, sandbox, place, config.load(sets=sets, environ={}),
                cache=tmp_path / "cache", log=tmp_path / "setup.log", tell=lambda *event: told.append(event),
            )  # fmt: skip
        return site, plan, told

    return run


def test_what_runs_as_it_is_is_left_alone(opened: Opened, tmp_path: Path) -> None:
    """Files that say how to install are no reason to: nothing lacks."""
    project = '[build-system]\nrequires = ["setuptools"]\n[project]\nname = "pkg"\ndependencies = ["pytest"]\n'
    site, plan, told = opened({**GOOD, "pyproject.toml": project})
    assert (plan, told, site.spec.setup) == (None, [], ())
    assert not (tmp_path / "setup.log").exists()


@pytest.mark.slow
def test_what_lacks_is_set_up_once_and_recorded(opened: Opened, tmp_path: Path) -> None:
    thing = wheel(tmp_path / "repo")
    site, plan, told = opened({**NEEDY, "requirements.txt": f"{thing}\n"})
    assert plan is not None and [kind for kind, _ in told] == ["setup.found"]
    assert told[0][1]["why"] == "the interpreter has no module absent_thing"
    assert site.certificate()["setup"] == list(plan.commands) == ["python3 -m pip install -r requirements.txt pytest"]
    assert "absent-thing" in site.certificate()["distributions"]
    log = (tmp_path / "setup.log").read_bytes()
    (tmp_path / "setup.log").unlink()
    again, _, _ = opened({})
    assert again.digest == site.digest and (tmp_path / "setup.log").read_bytes() == log
    assert len(list((tmp_path / "cache" / "bubblewrap" / "environments").iterdir())) == 1
    off, plan, told = opened({}, setup=NONE)
    assert plan is None and off.spec.setup == () and told[0][0] == "warning"
    off, plan, _ = opened({}, sets=("environment.detect=false",))
    assert plan is None and off.spec.setup == ()


def test_some_broken_modules_are_a_warning(opened: Opened) -> None:
    _, _, told = opened({**NEEDY, "tests/test_bad.py": "def (\n"})
    assert len(told) == 1
    text = told[0][1]["text"]
    assert "2 test modules cannot be collected" in text and "no module absent_thing" in text and "absent-thing" in text


def test_a_suite_of_which_nothing_is_collected_is_an_error(opened: Opened) -> None:
    with pytest.raises(EnvironmentFailure, match=r"No test can be collected: .* no module yaml_absent; .*--setup"):
        opened({**PACKAGE, "tests/test_x.py": "import yaml_absent\n"})
    assert opened({}, sets=("environment.check=false",))[2] == []


def test_a_conftest_that_lacks_a_module_is_the_environment_s_fault_too(opened: Opened) -> None:
    with pytest.raises(EnvironmentFailure, match=r"no module absent_thing"):
        opened({**GOOD, "conftest.py": "import absent_thing\n"})


def test_code_that_breaks_every_test_is_no_matter_of_the_environment(opened: Opened) -> None:
    """It may be what the issue is about."""
    _, _, told = opened({**GOOD, "pkg/__init__.py": "from pkg import nothing\n"})
    assert [kind for kind, _ in told] == ["warning"] and "ImportError" in told[0][1]["text"]


def test_a_repository_without_tests_is_fine(opened: Opened) -> None:
    assert opened(PACKAGE)[2] == []


def test_an_interpreter_that_does_not_fit(opened: Opened) -> None:
    files = {**NEEDY, "setup.cfg": "[metadata]\nname = pkg\n[options]\npython_requires = >=3.99\n"}
    with pytest.raises(UsageError, match=r"The interpreter is Python 3\S+ and setup.cfg asks for >=3.99; .*--python"):
        opened(files)


def test_nothing_runs_unasked_without_isolation(opened: Opened, tmp_path: Path) -> None:
    files = {**NEEDY, "setup.py": f"open({str(tmp_path / 'mark')!r}, 'w')\n"}
    _, plan, told = opened(files, sandbox="local")
    assert plan is None and "--setup auto runs what was found, without isolation" in told[0][1]["text"]
    assert not (tmp_path / "mark").exists()


def test_asked_for_where_nothing_is_found(opened: Opened) -> None:
    with pytest.raises(UsageError, match="No file of the repository says"):
        opened(GOOD, setup=AUTO)
    with pytest.raises(UsageError, match="stand for all commands"):
        Place(setup=("auto", "pip install x"))


def test_an_index_with_credentials_is_refused_and_not_repeated(cli: Cli) -> None:
    ran = cli("test", "--repo", ".", "--issue", "-", "--set", "environment.index=https://me:hunter22@h/simple")
    assert ran.code == 2 and "environment.index" in ran.sentence() and "hunter22" not in ran.err


FAILING = {**GOOD, "requirements.txt": "absent_thing\n-r ../../etc/absent\n"}


def test_a_set_up_nobody_asked_for_may_fail_where_the_tests_are_collected_without_it(
    opened: Opened, tmp_path: Path
) -> None:
    """Offline, or a requirement that only some code needs: what works is used, and the failure is said."""
    site, plan, told = opened(FAILING)
    assert (plan, site.spec.setup) == (None, ())
    assert [kind for kind, _ in told] == ["setup.found", "warning"]
    assert "The set-up ended with 1" in told[1][1]["text"] and "the interpreter is used as it is" in told[1][1]["text"]


@pytest.mark.slow
def test_a_set_up_that_was_asked_for_must_not_fail(opened: Opened, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="ended with 1"):
        opened(FAILING, setup=("auto",))


def test_a_failed_set_up_ends_in_one_sentence_before_any_model_is_asked(
    cli: Cli, tmp_path: Path, engine: str, issue: Path
) -> None:
    if engine != "bubblewrap":
        pytest.skip("needs bubblewrap")
    repo = checkout(tmp_path / "needy", {**ONLY_NEEDY, "requirements.txt": "-r ../../etc/absent\n"})
    model = recording(tmp_path / "none.jsonl", call("test", "submit_test", nodes=["x"]))
    ran = cli("test", "--repo", repo, "--issue", issue, "--model", model, "--out", tmp_path / "run")
    assert ran.code == 5, ran
    sentence = ran.sentence()
    assert sentence.startswith("The set-up ended with 1 at `python3 -m pip install -r requirements.txt pytest`")
    assert "No such file" in sentence and "--setup" in sentence and "--python" in sentence
    kept = Path(sentence.split("whole output is in ")[1].split(". ")[0])
    assert b"No such file" in kept.read_bytes()
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_keeps_the_plan_and_the_log(cli: Cli, tmp_path: Path, engine: str, issue: Path) -> None:
    if engine != "bubblewrap":
        pytest.skip("needs bubblewrap")
    thing = wheel(tmp_path / "needy")
    repo = checkout(tmp_path / "needy", {**NEEDY, "requirements.txt": f"{thing}\n"})
    run = tmp_path / "run"
    ran = cli(
        "test",
        "--repo",
        repo,
        "--issue",
        issue,
        "--model",
        recording(tmp_path / "none.jsonl", call("test", "submit_test", nodes=["x"])),
        "--out",
        run,
    )
    assert "found, as the interpreter has no module absent_thing" in ran.err
    manifest = json.loads((run / "manifest.json").read_bytes())
    assert manifest["setup_found"][0]["command"] == manifest["environment"]["setup"][0]
    assert b"absent" in (run / "setup.log").read_bytes()
    assert '"event": "setup.found"' in (run / "journal.jsonl").read_text()


def test_doctor_shows_the_plan_and_runs_nothing(cli: Cli, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    repo = checkout(tmp_path / "repo", {**GOOD, "setup.py": f"open({str(mark)!r}, 'w')\n"})
    ran = cli("doctor", "--repo", repo)
    assert "python3 -m pip install -e . pytest  # setup.py: the project" in ran.out
    assert not mark.exists()


@pytest.mark.slow
def test_a_real_build_from_the_index(opened: Opened) -> None:
    project = '[build-system]\nrequires = ["flit_core"]\nbuild-backend = "flit_core.buildapi"\n'
    project += '[project]\nname = "pkg"\nversion = "1"\ndescription = "x"\n[dependency-groups]\ntest = ["ply"]\n'
    test = "import ply\nfrom importlib.metadata import version\n\n\ndef test_it():\n    assert version('pkg') == '1'\n"
    site, plan, _ = opened({**PACKAGE, "pyproject.toml": project, "tests/test_ply.py": test})
    assert plan is not None and {"ply", "pkg"} <= set(site.certificate()["distributions"])
