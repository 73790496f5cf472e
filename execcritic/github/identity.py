"""Whose commits they are: the user's git identity, read without running git in a repository."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from execcritic_scaffold.checkout import configured
from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.plumbing import executable

_AUTHOR = re.compile(r"(?P<name>[^<>\x00-\x1f\x7f]*[^<>\x00-\x20\x7f]) ?<(?P<email>[^<>\x00-\x20\x7f]+)>")


def author(said: str | None, repo: Path | None, environ: Mapping[str, str]) -> str:
    """`NAME <EMAIL>`: as said, else as git would take it: GIT_AUTHOR_NAME and GIT_AUTHOR_EMAIL, the checkout's own
    configuration (`repo`), the user's. Raises UsageError where there is none.
    """
    if said is not None:
        text, where = said, "--author"
    else:
        name = environ.get("GIT_AUTHOR_NAME") or _setting("user.name", repo, environ)
        email = environ.get("GIT_AUTHOR_EMAIL") or _setting("user.email", repo, environ)
        if not name or not email:
            raise UsageError(
                "The commits need an author; set user.name and user.email with `git config --global`, "
                "or give --author 'NAME <EMAIL>'."
            )
        text, where = f"{name} <{email}>", "git's user.name and user.email"
    found = _AUTHOR.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"The author {text!r} is not NAME <EMAIL>; correct {where}.")
    return f"{found['name'].strip()} <{found['email']}>".encode("utf-8", "backslashreplace").decode()


def _setting(key: str, repo: Path | None, environ: Mapping[str, str]) -> str | None:
    own = configured(repo, key) if repo is not None else None
    return own or _global(key, environ)


def _global(key: str, environ: Mapping[str, str]) -> str | None:
    """The user's own configuration, which is asked for one value; nothing in it takes effect."""
    kept = {name: environ[name] for name in ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL") if name in environ}
    done = subprocess.run(
        [executable(), "config", "--global", "--includes", "-z", "--get", key],
        env={**kept, "PATH": "/usr/bin:/bin", "GIT_DIR": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"},
        cwd=os.sep,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    value = done.stdout.rstrip(b"\0").decode("utf-8", "replace").strip()
    return value if not done.returncode and value else None
