"""The environment of a new job: what the user named, else the interpreter in use, else what the files say; checked.

Set-up commands are found where nothing is named (`--setup auto` asks for them in any case), and carried out only where
the interpreter lacks something the repository asks for, or its tests cannot be collected (docs/decisions/0004).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from execcritic.config import Config
from execcritic.places import AUTO, Place
from execcritic_scaffold.base import Base
from execcritic_scaffold.collecting import Collection, collect
from execcritic_scaffold.errors import EnvironmentFailure, UsageError
from execcritic_scaffold.install import needs
from execcritic_scaffold.install.detect import Plan, detect
from execcritic_scaffold.install.imports import distribution
from execcritic_scaffold.install.sources import Sources
from execcritic_scaffold.sandbox.protocol import Command, Limits, Sandbox
from execcritic_scaffold.site import Site, open_site
from execcritic_scaffold.task import EnvironmentSpec

Tell = Callable[[str, Mapping[str, Any]], None]
SHOWN = 3
"""Names that a message lists."""


def spec(place: Place, config: Config, seconds: float) -> EnvironmentSpec:
    """What `place` says, with the time for set-up commands and the package index."""
    return replace(place.spec, setup_seconds=seconds, setup_env=config.environment.variables())


def opened(
    base: Base,
    sandbox: Sandbox,
    place: Place,
    config: Config,
    *,
    cache: Path,
    log: Path | None = None,
    tell: Tell,
    check: bool = True,
) -> tuple[Site, Plan | None]:
    """The site of a new job, and the plan it was built by (None: nothing was built that the user did not say).

    `check`: have the whole test suite collected. `tell` is given "setup.found" before a plan is carried out, and
    "warning". Raises EnvironmentFailure where set-up fails or no test can be collected, UsageError where the
    interpreter does not fit, SandboxError.
    """
    wanted = spec(place, config, config.qualify.setup_seconds)
    site = open_site(base, sandbox, wanted, cache=cache, log=log)
    plan: Plan | None = None
    unsaid = not place.setup and place.python is None and place.image is None
    if place.setup == AUTO or (unsaid and config.environment.detect):
        plan = found(site)
        for note in plan.notes:
            tell("warning", {"text": note})
        why = _why(site, plan, config, asked=place.setup == AUTO)
        clause = needs.unfit(plan, site.description["python"])
        if why is None or not plan.steps:
            if clause or (clause := needs.other_than_named(plan, site.description["python"])):
                tell("warning", {"text": f"{clause}; name another with --python where that matters."})
            if place.setup == AUTO:
                raise UsageError("No file of the repository says how it is installed; give the commands with --setup.")
            plan = None
        elif clause:
            raise UsageError(f"{clause}; name another with --python, and say --setup auto beside it.")
        elif not sandbox.isolates and place.setup != AUTO:
            tell("warning", {"text": f"The interpreter {why}; --setup auto runs what was found, without isolation."})
            plan = None
        else:
            tell("setup.found", {"why": f"the interpreter {why}", "steps": [vars(step) for step in plan.steps]})
            try:
                site = open_site(base, sandbox, replace(wanted, setup=plan.commands), cache=cache, log=log)
            except EnvironmentFailure as error:
                if place.setup == AUTO or not _works(site, config):
                    raise
                tell(
                    "warning",
                    {"text": f"{error} The tests are collected without it, so the interpreter is used as it is."},
                )
                plan = None
    if check and config.environment.check:
        _check(site, config, tell)
    return site, plan


def found(site: Site) -> Plan:
    """The plan that Base's files make, with uv where it can be called inside."""
    return detect(Sources(site.entries.keys(), site.read), uv=_has_uv(site))


def _has_uv(site: Site) -> bool:
    if site.interpreter.image is not None:  # uv would want a virtual environment there
        return False
    done = site.sandbox.run(site.workspace({}), Command(["bash", "-c", "command -v uv"]), Limits(seconds=20))
    return done.exit_code == 0


def _why(site: Site, plan: Plan, config: Config, *, asked: bool) -> str | None:
    """Why set-up is needed, as the predicate of a sentence about the interpreter; None where it is not."""
    if asked:
        return "is to be set up"
    if not plan.steps:
        return None
    lacking = needs.lacking(plan, site.description["python"], site.description["distributions"])
    if lacking:
        return f"lacks {_some(lacking)}"
    seen = collect(site, config.qualify, config.environment.check_seconds)
    absent = (*seen.missing, *seen.own) if seen else ()
    return f"has no module {_some(absent)}" if absent else None


def _works(site: Site, config: Config) -> bool:
    """Whether the suite is collected without anything missing: nobody asked for the set-up that failed."""
    seen = collect(site, config.qualify, config.environment.check_seconds)
    return seen is not None and not (seen.unusable or seen.missing or seen.own or seen.problem)


def _check(site: Site, config: Config, tell: Tell) -> None:
    """Say what of the test suite cannot be collected. Raises EnvironmentFailure where nothing can, for want of a
    module."""
    seen = collect(site, config.qualify, config.environment.check_seconds)
    if seen is None:
        return
    if seen.unusable:
        raise EnvironmentFailure(f"No test can be collected: {_remedy(site, seen)} (see docs/setup.md).")
    if seen.problem:
        tell("warning", {"text": f"The test suite could not be checked: {seen.problem}."})
    elif seen.missing or seen.own:
        many = f"{len(seen.broken)} test modules cannot" if len(seen.broken) > 1 else "One test module cannot"
        tell("warning", {"text": f"{many} be collected: {_remedy(site, seen)}."})
    elif seen.broken:
        path, cause = next(iter(seen.broken.items()))
        more = f" (and {len(seen.broken) - 1} more)" if len(seen.broken) > 1 else ""
        tell("warning", {"text": f"{path}{more} cannot be collected: {cause}"})


def _remedy(site: Site, seen: Collection) -> str:
    if not seen.missing:
        return (
            f"the repository's own {_some(seen.own)} cannot be imported; build it with --setup, "
            "or name its folder with --source-root"
        )
    packages = [distribution(name) for name in seen.missing]
    where = (
        f"add `pip install {' '.join(packages[:SHOWN])}` with --setup"
        if site.spec.setup
        else (f"install {_some(packages)} there, or let --setup do it")
    )
    return f"{site.spec.python or site.spec.image} has no module {_some(seen.missing)}; {where}"


def _some(names: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
