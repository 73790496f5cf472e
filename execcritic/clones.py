"""Repositories by URL: cloned once, whole or not at all, without anything of theirs being executed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from execcritic import credentials
from execcritic_scaffold import programs
from execcritic_scaffold.errors import InfrastructureError
from execcritic_scaffold.plumbing import executable

CLONE_SECONDS = 1800
KEPT = ("HOME", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "https_proxy", "http_proxy", "no_proxy", "all_proxy")
"""Variables of the caller that git and its transports get to see."""


def is_url(repo: str) -> bool:
    """A URL, or `git@host:path` unless a folder of that name exists."""
    host, colon, path = repo.partition(":")
    scp_like = bool(colon and path and "@" in host and "/" not in host) and not Path(repo).exists()
    return "://" in repo or scp_like


def clone(url: str, directory: Path) -> None:
    """Clone without a work tree: no hook, filter or attribute of the repository has anything to act on.

    The clone appears at `directory` whole or not at all, and keeps no password of the URL. Raises InfrastructureError.
    """
    partial = directory.with_name(f"{directory.name}.partial").absolute()
    shutil.rmtree(partial, ignore_errors=True)  # of an attempt that was killed
    shown = credentials.masked_url(url)
    try:
        _git("clone", "--quiet", "--no-checkout", "--template=", "--", url, os.fspath(partial), url=url)
        if shown != url:
            _git("config", "--file", os.fspath(partial / ".git" / "config"), "remote.origin.url", shown, url=url)
        partial.rename(directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _git(*arguments: str, url: str) -> None:
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment |= {"PATH": programs.search_path(), "GIT_TERMINAL_PROMPT": "0"}
    environment |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    options = ["-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never"]
    shown = credentials.masked_url(url)
    try:
        done = subprocess.run(
            [executable(), *options, *arguments],
            env=environment,
            cwd="/",
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=CLONE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise InfrastructureError(
            f"Cloning {shown} took over {CLONE_SECONDS} s; clone it yourself, give the folder."
        ) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").replace(url, shown)
        reason = (said.strip().splitlines() or ["git said nothing"])[-1]
        raise InfrastructureError(f"{shown} cannot be cloned ({reason}); check the address, or clone it yourself.")
