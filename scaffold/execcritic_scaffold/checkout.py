"""A user's checkout, read without being trusted and without being touched.

Git never opens the user's git directory. It opens a temporary one of ours in which HEAD, refs and index are copies
and the user's objects are an alternate, so the user's configuration (hooks, filters, fsmonitor, promisor remotes,
includes) is never read, locks and index refreshes stay in the copy, and a checkout of another owner works.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.plumbing import Git, GitFailure, create

_COPIED = ("HEAD", "index", "logs/HEAD")
"""Files that belong to one work tree; the rest is shared between work trees."""
_COPIED_COMMON = ("refs", "packed-refs", "shallow", "info/exclude", "logs/refs")
"""Loose refs before packed ones: packing moves them that way, so none can be missed in between."""


@dataclass(frozen=True)
class Checkout:
    """A folder with, where it is the top of a git checkout, a private view of its git directory.

    `git` always exists (a plain folder gets an empty one); `versioned` says which of the two it is.
    """

    root: Path
    git: Git
    versioned: bool

    def commit(self, revision: str) -> str | None:
        """The commit id of a revision (any `git rev-parse` expression), None where there is none."""
        # In two steps, because `:/text^{commit}` would search for that text.
        found = self._object(revision)
        return found and self._object(f"{found}^{{commit}}")

    def _object(self, name: str) -> str | None:
        try:
            answer = self.git.run("rev-parse", "--verify", "--quiet", "--end-of-options", name).decode().strip()
        except GitFailure:
            return None
        return answer if re.fullmatch("[0-9a-f]{40}", answer) else None


@contextmanager
def open_checkout(repo: Path) -> Iterator[Checkout]:
    """The checkout at `repo`, for the time of a `with` block.

    A folder without a `.git` of its own is a plain folder, even where it lies inside a larger repository.
    Raises UsageError where `repo` is missing, not a folder, a bare repository, or in a form git here cannot read.
    """
    root = _folder(repo)
    git_dir = _git_dir(root)
    with tempfile.TemporaryDirectory(prefix="execcritic-view-") as temporary:
        view = Path(temporary) / "git"
        create(view)
        git = Git(view, index=view / "index", work_tree=root)
        if git_dir is not None:
            try:
                _copy(git_dir, view, git)
            except OSError as error:
                raise UsageError(f"{git_dir} cannot be read ({error}); make it readable or give a copy.") from None
        yield Checkout(root, git, git_dir is not None)


def configured(repo: Path, key: str) -> str | None:
    """What the checkout's own configuration file says of a key; None where it says nothing, or is none.

    Only that file is read: no include is followed, and nothing it says takes effect.
    """
    git_dir = _git_dir(_folder(repo))
    file = _common(git_dir) / "config" if git_dir else None
    if file is None or not file.is_file():
        return None
    try:
        # A git directory that does not exist: git is not to look for one.
        answer = Git(Path("/nonexistent")).run("config", "--file", str(file.resolve()), "-z", "--get", key)
    except GitFailure:
        return None
    return answer.rstrip(b"\0").decode("utf-8", "replace").strip() or None


def _folder(repo: Path) -> Path:
    if not repo.exists():
        raise UsageError(f"There is no {repo}; give the folder of the repository.")
    if not repo.is_dir():
        raise UsageError(f"{repo} is not a folder; give the folder of the repository.")
    if not (repo / ".git").exists() and (repo / "objects").is_dir() and (repo / "HEAD").is_file():
        raise UsageError(f"{repo} is a bare repository; give a checkout of it (`git clone {repo} FOLDER`).")
    return repo.resolve()


def _git_dir(root: Path) -> Path | None:
    """The git directory of a checkout; `.git` is a file in linked work trees and submodules."""
    dot = root / ".git"
    if dot.is_file():
        target = dot.read_bytes().strip()
        if not target.startswith(b"gitdir: "):
            raise UsageError(f"{dot} names no git directory; repair it with `git worktree repair` or remove it.")
        git_dir = root / os.fsdecode(target.removeprefix(b"gitdir: "))
    elif dot.is_dir():
        git_dir = dot
    else:
        return None
    if not (git_dir / "HEAD").is_file():
        if dot.is_dir() and not any(dot.iterdir()):
            return None
        raise UsageError(f"{git_dir} is not a git directory; repair it with `git worktree repair` or remove {dot}.")
    return git_dir


def _copy(git_dir: Path, view: Path, git: Git) -> None:
    common = _common(git_dir)
    _check_format(common, git)
    for name in _COPIED:
        _copy_files(git_dir / name, view / name)
    for shared_index in git_dir.glob("sharedindex.*"):
        _copy_files(shared_index, view / shared_index.name)
    for name in _COPIED_COMMON:
        _copy_files(common / name, view / name)
    objects = str((common / "objects").resolve())
    quoted = objects.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    (view / "objects" / "info" / "alternates").write_bytes(os.fsencode(f'"{quoted}"\n'))


def _common(git_dir: Path) -> Path:
    """The git directory that a linked work tree shares with others; else its own."""
    pointer = git_dir / "commondir"
    return git_dir / os.fsdecode(pointer.read_bytes().strip()) if pointer.is_file() else git_dir


def _check_format(common: Path, git: Git) -> None:
    """Refuse what this git cannot read through a view. `config --file` follows no include."""

    def extension(name: str) -> str:
        try:
            return git.run("config", "--file", str(common / "config"), "--get", f"extensions.{name}").decode().strip()
        except GitFailure:
            return ""

    if not (common / "config").is_file():
        return
    if extension("objectformat").lower() not in ("", "sha1"):
        raise UsageError(f"{common} uses SHA-256 objects, which are not supported; give a SHA-1 clone or a plain copy.")
    if extension("refstorage").lower() not in ("", "files"):
        raise UsageError(f"{common} keeps its refs in another form; run `git refs migrate --ref-format=files` in it.")


def _copy_files(source: Path, target: Path) -> None:
    """Copy a regular file, or the regular files below a folder; special files and links are left out.

    Only the name itself may be a link, to its like in another git directory (as `repo` and git-new-workdir do).
    """
    real = source.resolve()
    if source.is_symlink() and not (real.name == source.name and (real.parent / "objects").is_dir()):
        return
    if source.is_dir():
        shutil.copytree(source, target, ignore=_irregular, copy_function=_copy_file, dirs_exist_ok=True)
    elif source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy_file(source, target)


def _copy_file(source: str | Path, target: str | Path) -> None:
    with suppress(FileNotFoundError):  # a ref that was packed or deleted meanwhile
        shutil.copyfile(source, target)


def _irregular(folder: str, names: list[str]) -> list[str]:
    def regular(path: Path) -> bool:
        return not path.is_symlink() and (path.is_file() or path.is_dir())

    return [name for name in names if not regular(Path(folder) / name)]
