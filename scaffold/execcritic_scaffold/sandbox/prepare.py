"""Base directories made once, cached by content: copied, freed of foreign byte code, compiled in the sandbox."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

from execcritic_scaffold.errors import SandboxError
from execcritic_scaffold.sandbox import rundir
from execcritic_scaffold.sandbox.overlay import give_to
from execcritic_scaffold.sandbox.protocol import WORKDIR, Interpreter


def cache_root() -> Path:
    """Where caches live: EXECCRITIC_CACHE, else XDG_CACHE_HOME/execcritic, else ~/.cache/execcritic."""
    if chosen := os.environ.get("EXECCRITIC_CACHE"):
        return Path(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "execcritic"


def key(tree: str, interpreter: Interpreter) -> str:
    """Names a prepared Base: its content and the interpreter that its byte code is for."""
    return f"{tree}-{hashlib.sha256(interpreter.digest.encode()).hexdigest()[:16]}"


def compile_command(python: str, directory: str = WORKDIR) -> list[str]:
    """Compile every module below `directory`, so that an edit can never meet stale byte code (SANDBOX.md 2, 9).

    It exits with 1 for sources that do not compile (templates, tests of syntax errors), which is no failure.
    """
    return [python, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "checked-hash", directory]


def cached(name: str, key: str) -> Path | None:
    """The directory `directory_for` made under this key, None where there is none."""
    final = _place(name, key)
    return final if final.is_dir() else None


def _place(name: str, key: str) -> Path:
    return cache_root() / name / "base" / key


def directory_for(name: str, source: Path, key: str, owner: int | None, compile_in: Callable[[Path], None]) -> Path:
    """The cached copy of `source` under `key`, made now if there is none.

    It appears whole or not at all, and of two processes that make it at once the first one wins.
    Raises SandboxError when it cannot be written.
    """
    if found := cached(name, key):
        return found
    final = _place(name, key)
    partial = final.with_name(f".{key}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    try:
        final.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        copy_tree(source, partial)
        if owner is not None:
            give_to(partial, owner)
        compile_in(partial)
        try:
            partial.rename(final)
        except OSError:
            if not final.is_dir():
                raise
    except OSError as error:
        raise SandboxError(
            f"Base cannot be stored below {final.parent} ({error}); free space there or set EXECCRITIC_CACHE."
        ) from None
    finally:
        if partial.exists():
            rundir.remove(partial)
    return final


def copy_tree(source: Path, target: Path) -> None:
    """Copy files and symbolic links with their modes, without `.git` and without byte code, whoever made it:
    only what the harness itself compiled may ever be loaded (HARNESS 3.2)."""

    def skipped(directory: str, names: list[str]) -> set[str]:
        return {name for name in names if name in (".git", "__pycache__") or name.endswith(".pyc")}

    shutil.copytree(source, target, symlinks=True, ignore=skipped)
