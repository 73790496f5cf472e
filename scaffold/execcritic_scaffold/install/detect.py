"""From Base's files to a plan: the commands that build an environment for the tests, and why each (docs/setup.md).

The commands are what a person could have given with --setup. They run in the sandbox; here nothing is executed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from execcritic_scaffold.install import automation, requirements
from execcritic_scaffold.install.project import Project, read
from execcritic_scaffold.install.sources import Sources
from execcritic_scaffold.install.version import pretended

PIP = "python3 -m pip install"
_PREFIX = "\"$(python3 -c 'import sys; print(sys.prefix)')\""


@dataclass(frozen=True)
class Step:
    """One set-up command and the reason for it."""

    command: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """`wanted` are the requirements that the files name, as far as they are literals; `python` is what is said about
    its version, and by which file; `named_python` what `.python-version` names; `notes` are sentences about files that
    could not be read."""

    steps: tuple[Step, ...]
    wanted: tuple[str, ...] = ()
    python: tuple[str, str] | None = None
    named_python: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def commands(self) -> tuple[str, ...]:
        return tuple(step.command for step in self.steps)


@dataclass
class _Found:
    """What to install for the tests: extras and groups by name, arguments of pip, and where they were found."""

    where: str = ""
    extras: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.extras or self.groups or self.arguments or self.files)


def detect(sources: Sources, *, uv: bool = False) -> Plan:
    """The plan for a repository; one without steps where no file says how it is installed. `uv`: it can be used."""
    project = read(sources)
    found = _for_tests(sources, project)
    if "uv.lock" in sources.paths and "pyproject.toml" in sources.paths:
        steps = _locked(found, pretended(sources), uv)
    elif project.poetry and (project.groups or "poetry.lock" in sources.paths):
        steps = _poetry(sources, project, found)
    else:
        steps = _plain(sources, project, found, uv)
    named = sources.text(".python-version").strip().splitlines()
    return Plan(
        tuple(steps),
        tuple(_wanted(sources, project, found)) if steps else (),
        project.python,
        named[0].strip()[:40] if named else None,
        tuple(sources.notes),
    )


def _for_tests(sources: Sources, project: Project) -> _Found:
    """The first that says something: names for tests, what tox and nox install, names for development."""
    for chosen, word in ((requirements.is_test, "test"), (requirements.is_dev, "dev")):
        extras = [name for name in project.extras if chosen(name)]
        groups = [name for name in project.groups if chosen(name)]
        if extras or groups:
            return _Found(project.file, extras=extras, groups=groups)
        if files := requirements.files(sources, word):
            return _Found(files[0], files=files[:1])
        if word == "test":
            arguments, extras, file = automation.tox(sources)
            if arguments or extras:
                return _Found(f"[testenv] in {file}", extras=extras, arguments=arguments)
            if arguments := automation.nox(sources):
                return _Found("noxfile.py", arguments=arguments)
    return _Found()


def _locked(found: _Found, version: str, uv: bool) -> list[Step]:
    steps = [] if uv else [Step(f"{PIP} uv", "uv.lock is read by uv, which is not in the environment")]
    names = [*_options("--extra", found.extras), *_options("--group", found.groups)]
    # Not exactly: what the interpreter in use brings along may stay.
    command = f"{version}UV_PROJECT_ENVIRONMENT={_PREFIX} uv sync --frozen --inexact --python {_PREFIX}"
    steps.append(Step(" ".join([command, *names]), f"uv.lock pins the environment{_with(found)}"))
    return [*steps, *_beside(found)]


def _poetry(sources: Sources, project: Project, found: _Found) -> list[Step]:
    lock = "poetry.lock" in sources.paths
    names = [*_options("--with", found.groups), *_options("--extras", found.extras)]
    root = [] if project.name else ["--no-root"]
    install = " ".join([f"{pretended(sources)}/tmp/poetry/bin/poetry install --no-interaction", *root, *names])
    reason = "poetry.lock pins the environment" if lock else "pyproject.toml has groups of poetry's"
    steps = [
        Step(f"python3 -m venv /tmp/poetry && /tmp/poetry/bin/{PIP} poetry", "poetry itself, beside the environment"),
        Step(install if lock else f"{install} && rm poetry.lock", f"{reason}{_with(found)}"),
    ]
    return [*steps, *_beside(found)]


def _beside(found: _Found) -> list[Step]:
    """What a lock file does not hold: requirements of the tests from elsewhere, and a runner."""
    arguments = [*found.arguments, *_options("-r", found.files), "pytest"]
    reason = f"{found.where}: what the tests need" if len(arguments) > 1 else "a runner, where the lock file has none"
    return _plain_step(arguments, reason, uv=False)


def _plain(sources: Sources, project: Project, found: _Found, uv: bool) -> list[Step]:
    runs = requirements.files(sources, "run")[:1]
    files = [*(runs if not project.name or not found else []), *found.files]
    needs = [need for group in found.groups for need in project.groups[group]]
    reasons: list[str] = []
    if project.name is not None:
        # The project's own extras, asked for by its name: pip would look for them in the index.
        own = [_own_extras(need, project.name) for need in needs]
        extras = [*found.extras, *(extra for names in own for extra in names or ())]
        needs = [need for need, names in zip(needs, own, strict=True) if names is None]
        itself = [] if any(map(_is_itself, found.arguments)) else ["-e", f".[{','.join(extras)}]" if extras else "."]
        reasons.append(f"{project.file}: the project")
    else:
        itself = [*project.dependencies, *(need for extra in found.extras for need in project.extras[extra])]
        reasons += [f"{project.file}: what the project needs"] if project.dependencies else []
    if found:
        reasons.append(f"{found.where}: what the tests need{_with(found)}")
    reasons += [f"{path}: what it needs" for path in files if path not in found.files]
    if not reasons:
        return []
    version = pretended(sources) if project.name else ""
    arguments = [*itself, *needs, *found.arguments, *_options("-r", files), "pytest"]
    return _plain_step(arguments, "; ".join(reasons), uv, version)


def _own_extras(need: str, name: str) -> list[str] | None:
    """The extras of a requirement of the project itself; None for one of another."""
    try:
        wanted = Requirement(need)
    except InvalidRequirement:
        return None
    return sorted(wanted.extras) if canonicalize_name(wanted.name) == canonicalize_name(name) else None


def _is_itself(argument: str) -> bool:
    return argument == "." or argument.startswith(".[")


def _plain_step(arguments: Iterable[str], reason: str, uv: bool, version: str = "") -> list[Step]:
    installer = "uv pip install" if uv else PIP
    words = dict.fromkeys(_words(arguments))
    return [Step(f"{version}{installer} {' '.join(words)}", reason)]


def _words(arguments: Iterable[str]) -> list[str]:
    """The words of a command, quoted: each option with its value; the project's own folder as editable, as what is
    edited later must be what is imported."""
    words: list[str] = []
    rest = iter(arguments)
    for word in rest:
        if word in ("-e", "--editable", "-r", "-c", "--requirement", "--constraint"):
            words.append(f"{word} {shlex.quote(next(rest, '.'))}")
        else:
            words.append(f"-e {shlex.quote(word)}" if _is_itself(word) else shlex.quote(word))
    return words


def _options(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _with(found: _Found) -> str:
    kinds = (("extra", found.extras), ("group", found.groups))
    parts = [f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names)}" for kind, names in kinds if names]
    return f" ({'; '.join(parts)})" if parts else ""


def _wanted(sources: Sources, project: Project, found: _Found) -> list[str]:
    wanted = [*project.dependencies]
    wanted += [need for extra in found.extras for need in project.extras.get(extra, ())]
    wanted += [need for group in found.groups for need in project.groups.get(group, ())]
    files = [*found.files, *(requirements.files(sources, "run")[:1] if not found or not project.name else [])]
    wanted += requirements.named(sources, files)
    wanted += [a for a in found.arguments if not a.startswith(("-", ".", "/"))]
    return list(dict.fromkeys(wanted))
