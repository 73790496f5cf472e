"""What this machine offers: git, sandboxes, user namespaces, an interpreter, a model endpoint; and what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from execcritic import credentials
from execcritic_scaffold import programs
from execcritic_scaffold.sandbox.registry import ISOLATING

OLDEST_GIT = (2, 30)
TIMEOUT = 10.0
"""Seconds each question to another program may take."""


@dataclass(frozen=True)
class Check:
    """One thing looked at. `ok` None: not needed or not configured. `remedy` is what to do where it is not ok."""

    name: str
    ok: bool | None
    detail: str
    remedy: str = ""


def checks(base_url: str | None = None) -> Iterator[Check]:
    """All checks, each answered by really trying."""
    yield _python()
    yield _git()
    yield _namespaces()
    yield from _sandboxes()
    yield _model(base_url or os.environ.get("OPENAI_BASE_URL"))


def usable(found: list[Check]) -> bool:
    """True where the main job can be done in isolation: git and at least one isolating sandbox."""
    ok = {check.name for check in found if check.ok}
    return "git" in ok and bool(ok & set(ISOLATING))


def setup_of(repo: Path) -> Check:
    """How a checkout would be set up, read from its files; nothing is executed. Raises UsageError for no folder."""
    from execcritic import places
    from execcritic_scaffold import base as bases
    from execcritic_scaffold.files import GITLINK, SYMLINK
    from execcritic_scaffold.install.detect import detect
    from execcritic_scaffold.install.sources import Sources

    base = bases.snapshot(repo, places.store())
    entries = base.store.read_tree(base.tree)

    def read(path: str) -> bytes | None:
        entry = entries[path]
        return None if entry.mode in (SYMLINK, GITLINK) else base.store.read_blob(entry.oid)

    plan = detect(Sources({*entries}, read))
    lines = [f"{step.command}  # {step.reason}" for step in plan.steps] + list(plan.notes)
    if plan.python:
        lines.append(f"{plan.python[1]} asks for Python {plan.python[0]}")
    return Check("set-up", None, "\n    ".join(lines) or "no file says how it is installed; the interpreter is used")


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("python", True, f"{version} at {sys.executable}")


def _git() -> Check:
    path = programs.find("git")
    if path is None:
        return Check("git", False, "not found", "Install git.")
    answer = _ask(path, "version")
    number = answer.removeprefix("git version ").split()[0] if answer else "unknown"
    try:
        found = tuple(int(part) for part in number.split(".")[:2])
    except ValueError:
        return Check("git", False, f"{path} answers {answer!r}", "Install git anew.")
    if found < OLDEST_GIT:
        return Check("git", False, f"{number} at {path}", f"Install git {'.'.join(map(str, OLDEST_GIT))} or newer.")
    return Check("git", True, f"{number} at {path}")


def _namespaces() -> Check:
    """Whether an unprivileged process can make a user namespace, which bubblewrap needs."""
    name = "user namespaces"
    if not sys.platform.startswith("linux"):
        return Check(name, None, f"there are none on {sys.platform}", "Use docker.")
    if programs.find("unshare") is None:
        return Check(name, False, "unshare is missing, so this cannot be tried", "Install util-linux.")
    if _ask("unshare", "--user", "--map-root-user", "true") is not None:
        return Check(name, True, "can be made")
    proc = Path("/proc/sys")
    if _read(proc / "kernel/apparmor_restrict_unprivileged_userns") == "1":
        return Check(
            name,
            False,
            "restricted by AppArmor (the default of Ubuntu since 23.10)",
            "Run `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or give bwrap an AppArmor profile "
            "with the rule `userns,`.",
        )
    if _read(proc / "kernel/unprivileged_userns_clone") == "0":
        return Check(name, False, "switched off", "Run `sudo sysctl -w kernel.unprivileged_userns_clone=1`.")
    if _read(proc / "user/max_user_namespaces") == "0":
        return Check(name, False, "limited to 0", "Run `sudo sysctl -w user.max_user_namespaces=15000`.")
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return Check(
            name,
            False,
            "refused inside this container",
            "Start the container with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined "
            "--cap-add SYS_ADMIN`, or give it a Docker engine through DOCKER_HOST.",
        )
    return Check(name, False, "refused by the kernel", "Ask the administrator to allow them, or use docker.")


def _sandboxes() -> Iterator[Check]:
    from execcritic_scaffold.sandbox import registry

    for name in ISOLATING:
        sandbox = registry.get(name)
        problem = sandbox.probe()
        sandbox.close()
        if problem is None:
            yield Check(name, True, _ask("bwrap", "--version") or "works" if name == "bubblewrap" else "works")
        else:
            yield Check(name, False, problem)


def _model(base_url: str | None) -> Check:
    key = os.environ.get("OPENAI_API_KEY")
    if base_url is None and not key:
        return Check("model", None, "none configured", "Set OPENAI_BASE_URL and OPENAI_API_KEY, or pass --base-url.")
    import httpx

    address = f"{(base_url or 'https://api.openai.com/v1').rstrip('/')}/models"
    shown = credentials.masked_url(address)
    try:
        answer = httpx.get(address, headers={"Authorization": f"Bearer {key}"} if key else {}, timeout=TIMEOUT)
    except (httpx.TransportError, httpx.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        return Check("model", False, f"{shown} is unreachable ({reason})", "Start the server or correct the URL.")
    if answer.status_code in (401, 403):
        return Check("model", False, f"{shown} refuses us ({answer.status_code})", "Set OPENAI_API_KEY.")
    if answer.is_error:
        return Check("model", False, f"{shown} answers {answer.status_code}", "Check the base URL; it ends in /v1.")
    return Check("model", True, f"{shown} answers")


def _ask(*argv: str) -> str | None:
    """Standard output of a program; None where it is missing, fails or hangs."""
    program = programs.find(argv[0])
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *argv[1:]],
            env={**os.environ, "PATH": programs.search_path()},
            capture_output=True,
            timeout=TIMEOUT,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
