"""pytest's configuration in Base, read as pytest would, and which of its `addopts` may stay.

Options that change which tests run, in which order or how often, and output options, are left out by name: the
harness names every node itself and reports by itself (HARNESS 3.2). All others stay, as a plain run has them.
"""

from __future__ import annotations

import hashlib
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import iniconfig

CONFIG_NAMES = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")

_FLAGS = frozenset(
    """-x --exitfirst --lf --last-failed --ff --failed-first --nf --new-first --sw --stepwise --stepwise-skip
    --sw-skip --sw-reset -v --verbose -vv -vvv -q --quiet -qq --co --collect-only --collectonly --no-header
    --no-summary --cov --cov-reset --no-cov --no-cov-on-fail --cov-branch --cov-append --pdb --trace --cache-clear
    --setup-only --setup-plan --setup-show --force-short-summary --self-contained-html --showlocals -l --fixtures
    --random-order --randomly-dont-reorganize --randomly-dont-reset-seed --forked --boxed --looponfail
    --timeout-func-only --timeout-disable-debugger-detection --no-flaky-report --no-success-flaky-report
    --force-flaky --suppress-no-test-exit-code --suppress-tests-failed-exit-code -f -s --testmon --benchmark-only
    --benchmark-skip --benchmark-disable --force-sugar --deselect-from-file --disable-warnings
    --disable-pytest-warnings""".split()
)
_VALUED = frozenset(
    """-k -m --maxfail --deselect --ignore --ignore-glob --durations --durations-min --tb --color --code-highlight
    --junitxml --junit-xml --junitprefix --junit-prefix --html --css --report-log --resultlog --log-file
    --result-log --cov --cov-report --cov-config --cov-fail-under --cov-context -n --numprocesses --dist --tx
    --maxprocesses --rsyncdir --max-worker-restart --reruns --reruns-delay --only-rerun --rerun-except --timeout
    --timeout-method --session-timeout --count --repeat-scope --random-order-bucket --random-order-seed
    --randomly-seed --basetemp --max-runs --min-passes --retries --retry-delay --workers --tests-per-worker --lfnf
    --show-capture --capture --verbosity --last-failed-no-failures -r --rootdir -c --config-file --allure-dir
    --alluredir --splits --group --json-report-file""".split()
)
_SWITCHED_OFF = frozenset(
    """randomly pytest_randomly random_order rerunfailures pytest_rerunfailures flaky flaky.flaky_pytest_plugin timeout
    pytest_timeout cacheprovider xdist xdist.plugin xdist.looponfail pytest_cov pytest_cov.plugin cov""".split()
)
_OPTIONAL_VALUE = frozenset(("--cov",))


@dataclass(frozen=True)
class PytestConfig:
    """What Base's configuration says that the harness needs. `where` is the configuration file, None without one."""

    where: str | None = None
    addopts: tuple[str, ...] = ()
    python_files: tuple[str, ...] = ("test_*.py", "*_test.py")
    testpaths: tuple[str, ...] = ()
    pythonpath: tuple[str, ...] = ()
    keys: frozenset[str] = field(default_factory=frozenset)


def read(files: Mapping[str, bytes | None], directory: str = "") -> PytestConfig:
    """The configuration pytest finds for tests below `directory`: the nearest file upwards that has its section."""
    parts = [p for p in directory.split("/") if p]
    for depth in range(len(parts), -1, -1):
        prefix = "/".join(parts[:depth])
        for name in CONFIG_NAMES:
            path = f"{prefix}/{name}" if prefix else name
            data = files.get(path)
            section = _section(name, data) if data is not None else None
            if section is not None:
                return _config(path, section)
    return PytestConfig()


def runner_section(name: str, data: bytes | None) -> str | None:
    """The runner's own section of a shared configuration file in one comparable form; None where it has none."""
    if data is None:
        return None
    if not readable(name, data):
        return f"unreadable {hashlib.sha256(data).hexdigest()}"
    section = _section(name, data)
    return None if section is None else repr(sorted((k, repr(v)) for k, v in section.items()))


def readable(name: str, data: bytes) -> bool:
    """Whether a configuration file parses; of one that does not, nobody can say what the runner makes of it."""
    text = data.decode("utf-8", "replace")
    try:
        tomllib.loads(text) if name.endswith(".toml") else iniconfig.IniConfig(name, data=text)
    except (tomllib.TOMLDecodeError, RecursionError, iniconfig.ParseError):
        return False
    return True


def _section(name: str, data: bytes) -> dict[str, object] | None:
    text = data.decode("utf-8", "replace")
    if name.endswith(".toml"):
        try:
            table = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError):
            return None
        if name != "pyproject.toml":
            found = table.get("pytest")
            return found if isinstance(found, dict) else {}
        tool = table.get("tool", {}).get("pytest")
        if not isinstance(tool, dict):
            return None
        legacy = tool.get("ini_options")
        return legacy if isinstance(legacy, dict) else {k: v for k, v in tool.items() if k != "ini_options"} or None
    try:
        sections = iniconfig.IniConfig(name, data=text).sections
    except iniconfig.ParseError:
        return None
    title = "tool:pytest" if name == "setup.cfg" else "pytest"
    if title in sections:
        return dict(sections[title])
    return {} if name in ("pytest.ini", ".pytest.ini") else None


def _config(path: str, section: Mapping[str, object]) -> PytestConfig:
    return PytestConfig(
        where=path,
        addopts=_words(section.get("addopts")),
        python_files=_words(section.get("python_files")) or ("test_*.py", "*_test.py"),
        testpaths=_words(section.get("testpaths")),
        pythonpath=_words(section.get("pythonpath")),
        keys=frozenset(section),
    )


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value, comments=False))
        except ValueError:
            return tuple(value.split())
    if isinstance(value, list):
        return tuple(str(v) for v in value)
    return ()


def kept(addopts: Sequence[str]) -> list[str]:
    """`addopts` without what would change the selection, order, number or judgement of tests."""
    out: list[str] = []
    words = list(addopts)
    while words:
        word = words.pop(0)
        name, has_value, _ = word.partition("=")
        if word == "-p" or (word.startswith("-p") and not word.startswith("--")):
            plugin = words.pop(0) if word == "-p" and words else word[2:]
            if plugin.removeprefix("no:") not in _SWITCHED_OFF:
                out += ["-p", plugin]
            continue
        if name in _FLAGS and name not in _OPTIONAL_VALUE:
            continue
        if name in _VALUED:
            takes_next = not has_value and words and not words[0].startswith("-")
            if takes_next:
                words.pop(0)
            continue
        if _short(word):
            continue
        out.append(word)
    return out


def selection(addopts: Sequence[str]) -> dict[str, object]:
    """What `addopts` leaves out of a plain run: the last `-m` and `-k`, and every `--deselect`."""
    found: dict[str, str] = {}
    deselected: list[str] = []
    words = list(addopts)
    while words:
        word = words.pop(0)
        name, has_value, value = word.partition("=")
        if word[:2] in ("-m", "-k") and len(word) > 2:
            found[word[1]] = word[2:].removeprefix("=")
        elif word in ("-m", "-k") and words:
            found[word[1]] = words.pop(0)
        elif name == "--deselect":
            deselected += [value] if has_value else [words.pop(0)] if words else []
    return {**found, **({"deselect": deselected} if deselected else {})}


def doctest_globs(arguments: Sequence[str]) -> list[str]:
    """The patterns of text files with doctests among `addopts`; a whole kind of files (`*.rst`) is documentation
    first, so that those files are run as tests when they are named, and are no tests to the rules about paths."""
    words = [w.removeprefix("--doctest-glob=") for w in arguments if w.startswith("--doctest-glob=")]
    words += [value for word, value in pairwise(arguments) if word == "--doctest-glob"]
    return [w for w in words if not w.rsplit("/", 1)[-1].startswith("*.")]


def _short(word: str) -> bool:
    """A short option with its value attached (`-n4`, `-kexpr`, `-rA`) or stacked flags (`-vvs`)."""
    if len(word) < 3 or word[0] != "-" or word[1] == "-":
        return False
    return word[1] in "nkmr" or set(word[1:]) <= set("vqxsl")
