"""How a repository is installed, found from its files: real layouts, hostile ones, and what an environment lacks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from execcritic_scaffold.install import needs
from execcritic_scaffold.install.detect import Plan, detect
from execcritic_scaffold.install.sources import MAX_BYTES, Sources

PIP = "python3 -m pip install"
BUILT = '[build-system]\nrequires = ["setuptools"]\n[project]\nname = "x"\n'
EXTRAS, HATCH = "[project.optional-dependencies]\n", "[tool.hatch.envs.hatch-test]\n"
PDM = "[tool.pdm.dev-dependencies]\n"
POETRY = '[tool.poetry]\nname = "x"\n[tool.poetry.dependencies]\npython = "^3.8"\nattrs = "*"\n'


def plan(files: Mapping[str, str | bytes], uv: bool = False) -> Plan:
    data = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    return detect(Sources(data.keys(), data.get), uv=uv)


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"pyproject.toml": BUILT}, f"{PIP} -e . pytest"),
        (
            {"pyproject.toml": f"{BUILT}[project.optional-dependencies]\ntest = ['pytest>=7']\ndocs = ['sphinx']\n"},
            f"{PIP} -e '.[test]' pytest",
        ),
        (
            {
                "pyproject.toml": f"{BUILT}[dependency-groups]\ntests = ['a', {{include-group = 'b'}}, 'x[socks]']\n"
                "b = ['c<2', {include-group = 'tests'}]\nlint = ['ruff']\n"
            },
            f"{PIP} -e '.[socks]' a 'c<2' pytest",
        ),
        ({"pyproject.toml": f"{BUILT}{EXTRAS}dev = ['black']\n", "requirements-test.txt": "a\n"},
         f"{PIP} -e . -r requirements-test.txt pytest"),
        ({"pyproject.toml": f"{BUILT}{HATCH}extra-dependencies = ['a']\n"}, f"{PIP} -e . a pytest"),
        ({"pyproject.toml": f"{BUILT}{PDM}test = ['a', '-e file:///y']\n"}, f"{PIP} -e . a pytest"),
        ({"pyproject.toml": '[project]\nname = "x"\ndependencies = ["a"]\n'}, f"{PIP} a pytest"),
        ({"pyproject.toml": BUILT, "uv.lock": ""}, "uv sync --frozen"),
        ({"pyproject.toml": f"{BUILT}[dependency-groups]\ntest = ['a']\n", "uv.lock": ""}, "--group test"),
        ({"pyproject.toml": POETRY, "poetry.lock": ""}, "/tmp/poetry/bin/poetry install --no-interaction"),
        ({"pyproject.toml": f"{POETRY}[tool.poetry.group.test.dependencies]\npytest = '^7'\n"},
         "/tmp/poetry/bin/poetry install --no-interaction --with test && rm poetry.lock"),
        ({"pyproject.toml": f"{POETRY}[tool.poetry.extras]\n"}, f"{PIP} -e . pytest"),
        ({"setup.cfg": "[metadata]\nname = x\n[options.extras_require]\ntesting =\n  a\n  b\n"},
         f"{PIP} -e '.[testing]' pytest"),
        ({"setup.py": "from setuptools import setup\nE = {'test': ['a']}\nsetup(name='x', extras_require=E)\n"},
         f"{PIP} -e '.[test]' pytest"),
        ({"setup.py": "raise SystemExit(1)\n"}, f"{PIP} -e . pytest"),
        ({"setup.py": "", "requirements.txt": "a\n"}, f"{PIP} -e . -r requirements.txt pytest"),
        ({"requirements.txt": "a\n", "requirements/test.in": "b\n", "requirements/test.txt": "b==1\n"},
         f"{PIP} -r requirements.txt -r requirements/test.txt pytest"),
        ({"dev-requirements.txt": "a\n"}, f"{PIP} -r dev-requirements.txt pytest"),
        ({"tests/requirements.txt": "a\n"}, f"{PIP} -r tests/requirements.txt pytest"),
        (
            {
                "setup.py": "",
                "tox.ini": "[testenv]\ndeps =\n  a>=1 # why\n  -r{toxinidir}/req.txt\n  py38: b\n  {X}\nextras = x\n",
            },
            f"{PIP} -e '.[x]' 'a>=1' -r req.txt pytest",
        ),
        ({"setup.py": "", "pyproject.toml": "[tool.tox]\nlegacy_tox_ini = '''\n[testenv]\ndeps = a\n'''\n"},
         f"{PIP} -e . a pytest"),
        (
            {
                "setup.py": "",
                "noxfile.py": "import nox\n@nox.session(python='3.11')\ndef tests(session):\n"
                "    session.install('.[test]', 'a')\n    session.install(*more)\n"
                "@nox.session\ndef docs(session):\n    session.install('sphinx')\n",
            },
            f"{PIP} -e '.[test]' a pytest",
        ),
    ],
)  # fmt: skip
def test_what_is_found(files: Mapping[str, str], command: str) -> None:
    found = plan(files)
    assert any(command in step.command if "lock" in str(files) else command == step.command for step in found.steps), (
        found.commands
    )
    assert all(step.reason for step in found.steps)


def test_a_plain_repository_has_no_plan() -> None:
    assert plan({"mod.py": "", "tests/test_mod.py": "", "pyproject.toml": "[tool.ruff]\n"}).steps == ()


def test_uv_is_used_where_it_is_there() -> None:
    assert plan({"pyproject.toml": BUILT}, uv=True).commands == ("uv pip install -e . pytest",)
    assert plan({"pyproject.toml": BUILT, "uv.lock": ""}, uv=True).commands[0].startswith("UV_PROJECT_ENVIRONMENT")
    assert plan({"pyproject.toml": BUILT, "uv.lock": ""}).commands[0] == f"{PIP} uv"


@pytest.mark.parametrize(
    ("more", "prefix"),
    [
        ({}, "SETUPTOOLS_SCM_PRETEND_VERSION=999.0 "),
        (
            {"src/x/_version.py": "_v = version = '1.2.dev3+gabc'\n"},
            "SETUPTOOLS_SCM_PRETEND_VERSION=1.2.dev3 ",
        ),
        ({"src/x/_version.py": "version = '; rm -rf /'\n"}, "SETUPTOOLS_SCM_PRETEND_VERSION=999.0 "),
        ({"PKG-INFO": "Version: 1.0\n"}, ""),
    ],
)
def test_a_version_that_comes_from_history(more: Mapping[str, str], prefix: str) -> None:
    files = {"pyproject.toml": '[build-system]\nrequires = ["hatch-vcs"]\n', **more}
    assert plan(files).commands == (f"{prefix}{PIP} -e . pytest",)


class TestHostileFiles:
    @pytest.mark.parametrize(
        ("file", "data", "note"),
        [
            ("pyproject.toml", b"[project\n", "not TOML"),
            ("pyproject.toml", b"a = " + b"[" * 100_000, "not TOML"),
            ("pyproject.toml", b"# " * MAX_BYTES, "larger than 1 MB"),
            ("setup.cfg", b"no section\n", "not an INI file"),
            ("setup.py", b"def (\n", "not Python"),
            ("setup.py", b"\x00", "not Python"),
            ("noxfile.py", b"x = " + b"(" * 50_000, "not Python"),
        ],
    )
    def test_a_broken_one_is_passed_over_and_named(self, file: str, data: bytes, note: str) -> None:
        found = plan({"requirements.txt": "a\n", file: data})
        assert any(said.startswith(file) and note in said for said in found.notes), found.notes
        assert any("-r requirements.txt" in command for command in found.commands)

    @pytest.mark.parametrize(
        "text",
        [
            "project = 3\ntool = []\n",
            "[project]\nname = ['x']\ndependencies = 'a'\noptional-dependencies = 1\n",
            "[project]\nname = 'x'\n[project.optional-dependencies]\ntest = {a = 1}\n",
            "dependency-groups = {test = [1, {include-group = 2}, {include-group = 'test'}]}\n",
            "[tool.poetry]\nname = 1\ndependencies = []\n",
            "[tool.poetry.group]\ntest = 1\n",
            "[tool.hatch]\nenvs = {test = 1, default = {dependencies = 'x'}}\n",
            "[tool.tox]\nlegacy_tox_ini = 3\n",
        ],
    )
    def test_values_of_other_kinds_say_nothing(self, text: str) -> None:
        plan({"pyproject.toml": text})

    def test_bytes_that_are_no_text(self) -> None:
        assert plan({"requirements.txt": b"\xff\xfe\x00a\n"}).commands == (f"{PIP} -r requirements.txt pytest",)

    def test_what_files_say_cannot_become_a_command_of_its_own(self, tmp_path: Path) -> None:
        mark = tmp_path / "mark"
        evil = f"a; touch {mark} $(touch {mark}) ' \" `touch {mark}`"
        found = plan(
            {
                "pyproject.toml": f'{BUILT}[dependency-groups]\ntest = ["""{evil}"""]\n',
                "noxfile.py": "",
                "tox.ini": f"[testenv]\ndeps = {evil}\nextras = $(touch {mark}), `id`\n",
            }
        )
        import shlex

        (words,) = [shlex.split(command) for command in found.commands]
        assert words == ["python3", "-m", "pip", "install", "-e", ".", evil, "pytest"]

    @pytest.mark.parametrize(
        "line", ["-r ../../etc/passwd", "--index-url https://u:p@h/", "-e git+https://h/x.git#egg=x", "./evil", "/etc"]
    )
    def test_options_of_requirement_files_are_for_pip_alone(self, line: str) -> None:
        found = plan({"requirements.txt": f"{line}\nplain>=1  # why\n"})
        assert found.commands == (f"{PIP} -r requirements.txt pytest",)
        assert found.wanted == ("plain>=1",)

    def test_many_groups_that_include_each_other(self) -> None:
        includes = ", ".join("{include-group = 'test'}" for _ in range(50))
        plan({"pyproject.toml": f"[dependency-groups]\ntest = ['a', {includes}]\n"})
        chain = "".join(f"g{n} = ['a', {{include-group = 'g{n + 1}'}}]\n" for n in range(3000))
        plan({"pyproject.toml": f"[dependency-groups]\ntest = [{{include-group = 'g0'}}]\n{chain}"})


@pytest.mark.parametrize(
    ("wanted", "lacking"),
    [
        ("pytest>=7", False),
        ("PyTest", False),
        ("pytest<7", True),
        ("absent", True),
        ("absent; python_version < '3'", False),
        ("absent; extra == 'x'", False),
        ("not a requirement !!", False),
    ],
)
def test_what_an_environment_lacks(wanted: str, lacking: bool) -> None:
    found = needs.lacking(Plan((), (wanted,)), "3.11.7", {"pytest": "8.0"})
    assert found == ([wanted] if lacking else [])


@pytest.mark.parametrize(
    ("said", "unfit"), [(">=3.12", True), (">=3.8", False), ("<3.11", True), ("nonsense", False), (">=3.8,<4", False)]
)
def test_the_interpreter_s_version(said: str, unfit: bool) -> None:
    clause = needs.unfit(Plan((), python=(said, "setup.cfg")), "3.11.7")
    assert (clause == f"The interpreter is Python 3.11.7 and setup.cfg asks for {said}") if unfit else clause is None


@pytest.mark.parametrize(
    ("named", "other"), [("3.12", True), ("3.11", False), ("3.11.7", False), ("3.1", True), ("pypy3", False)]
)
def test_the_version_that_a_file_names(named: str, other: bool) -> None:
    assert (needs.other_than_named(Plan((), named_python=named), "3.11.7") is not None) is other
