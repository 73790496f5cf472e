"""Ignored files that a repository needs to run: generated modules, built extensions, package metadata.

They belong to the environment, not to Base (HARNESS 2C). Taken are only kinds of files that Python imports or
reads at import, never caches, environments or build folders, never what looks like a secret, and only so many.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from execcritic_scaffold.checkout import Checkout
from execcritic_scaffold.disk import Disk
from execcritic_scaffold.files import SYMLINK, File
from execcritic_scaffold.leftovers import CACHE_FOLDERS

MAX_FILES = 2000
MAX_BYTES = 64 << 20

_NEEDED = re.compile(r"\.(py|so|pyd)$|(^|/)[^/]+\.egg-info(/|$)")
_SKIPPED_FOLDERS = frozenset({*CACHE_FOLDERS, "build", "dist", "site-packages", "bower_components", "htmlcov"})
_SECRET = re.compile(
    r"(^|[._-])(secrets?|credentials?|passwords?|passwd|api_?keys?|token|private|"
    r"local_?settings|settings_?local|local_?config|config_?local)([._-]|$)",
    re.IGNORECASE,
)


def environment_files(checkout: Checkout) -> tuple[dict[str, File], tuple[str, ...]]:
    """The files by path, and warnings. At most `MAX_FILES` files and `MAX_BYTES` bytes, in order of path."""
    disk = Disk(checkout.root)
    files: dict[str, File] = {}
    size = 0
    for path in sorted(filter(_is_needed, _ignored(checkout))):
        file = disk.file(path)
        if file is None or file.mode == SYMLINK:
            continue
        size += len(file.data)
        if len(files) == MAX_FILES or size > MAX_BYTES:
            return files, (
                f"More ignored files look needed than are taken along ({MAX_FILES} files, {MAX_BYTES >> 20} MB); "
                f"those from {path} on are left out, so let --setup make them.",
            )
        files[path] = file
    return files, ()


def _is_needed(path: str) -> bool:
    *folders, name = path.split("/")
    if any(folder.startswith(".") or folder in _SKIPPED_FOLDERS for folder in folders):
        return False
    return bool(_NEEDED.search(path)) and not name.startswith(".") and not any(map(_SECRET.search, path.split("/")))


def _ignored(checkout: Checkout) -> Iterator[str]:
    """Ignored files. Git names a wholly ignored folder once; it is walked here, so that big ones can be passed by."""
    listing = checkout.git.need("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    for path in map(os.fsdecode, listing.split(b"\0")):
        if path.endswith("/"):
            yield from _walk(os.fspath(checkout.root), path)
        elif path:
            yield path


def _walk(root: str, folder: str) -> Iterator[str]:
    for above, folders, names in os.walk(f"{root}/{folder}"):
        relative = os.path.relpath(above, root)
        name = relative.rsplit("/", 1)[-1]
        # A nested repository's files are its own; an environment's are found through the interpreter.
        if name in _SKIPPED_FOLDERS or name.startswith(".") or _MARKS.intersection(names + folders):
            folders.clear()
            continue
        yield from (f"{relative}/{name}" for name in names)


_MARKS = frozenset({"pyvenv.cfg", "conda-meta", ".git"})
