"""What a plan asks for, held against an environment as `inject/describe.py` describes it."""

from __future__ import annotations

from collections.abc import Mapping

from packaging.markers import UndefinedEnvironmentName, default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from execcritic_scaffold.install.detect import Plan


def lacking(plan: Plan, python: str, distributions: Mapping[str, str]) -> list[str]:
    """The requirements that the environment does not meet, as written. What is no requirement says nothing."""
    here = {canonicalize_name(name): version for name, version in distributions.items()}
    found = []
    for text in plan.wanted:
        try:
            need = Requirement(text)
            applies = need.marker is None or need.marker.evaluate({**_environment(python), "extra": ""})
        except (InvalidRequirement, UndefinedEnvironmentName):
            continue
        version = here.get(canonicalize_name(need.name))
        if applies and (version is None or not need.specifier.contains(version, prereleases=True)):
            found.append(text)
    return found


def unfit(plan: Plan, python: str) -> str | None:
    """What stands against this version of Python, as the start of a sentence; None where nothing does."""
    if plan.python is None:
        return None
    text, file = plan.python
    try:
        fits = SpecifierSet(text).contains(python, prereleases=True)
    except InvalidSpecifier:
        return None
    return None if fits else f"The interpreter is Python {python} and {file} asks for {text}"


def other_than_named(plan: Plan, python: str) -> str | None:
    """A clause where `.python-version` names another Python than this one."""
    named = (plan.named_python or "").removeprefix("cpython-").removeprefix("python-").removesuffix("-dev")
    if not named[:1].isdigit() or f"{python}.".startswith(f"{named}."):
        return None
    return f"The interpreter is Python {python} and .python-version names {named}"


def _environment(python: str) -> dict[str, str]:
    known = {key: str(value) for key, value in default_environment().items()}
    short = ".".join(python.split(".")[:2])
    return {**known, "python_version": short, "python_full_version": python, "implementation_version": python}
