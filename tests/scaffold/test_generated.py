"""Ignored files that a repository needs to run are taken along; caches, environments and secrets are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from execcritic_scaffold.base import snapshot
from execcritic_scaffold.files import File
from execcritic_scaffold.store import Store

Git = Callable[..., str]
Repo = Callable[..., Path]


def test_environment_files(repo: Repo, store: Store) -> None:
    taken = {"pkg/_version.py", "pkg/fast.so", "pkg.egg-info/PKG-INFO", "generated/deep/parser.py"}
    left = {
        ".env", "pkg/data.bin", "pkg/local_settings.py", "secrets.py", "pkg/__pycache__/x.py", "build/lib/x.py",
        ".tox/x.py", "venv/pyvenv.cfg", "venv/lib/x.py", "node_modules/x.py", "dist/x.py", "generated/.hidden.py",
        "ssh/credentials.py", "generated/clone/.git/HEAD", "generated/clone/x.py",
    }  # fmt: skip
    rules = (
        ".env\n*.bin\n_version.py\n*.so\n*.egg-info\n/generated/\n*settings.py\nsecrets.py\nbuild\ndist\n.tox\nvenv\n"
    )
    checkout = repo({"pkg/a.py": "1\n", ".gitignore": rules + "node_modules\nssh\n__pycache__\n"})
    for path in taken | left:
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        (checkout / path).write_text(path)
    (checkout / "generated" / "link.py").symlink_to("/etc/passwd")
    base = snapshot(checkout, store)
    assert base.environment_files == {path: File(path.encode()) for path in taken}
    assert base.delta == b""
    assert base.ignored(["x.so", "pkg/b.py", ":x.bin", "generated/new.py"]) == {"x.so", ":x.bin", "generated/new.py"}


def test_environment_files_are_bounded(repo: Repo, store: Store) -> None:
    checkout = repo({".gitignore": "gen\n"})
    (checkout / "gen").mkdir()
    for number in range(2001):
        (checkout / "gen" / f"m{number:04}.py").touch()
    base = snapshot(checkout, store)
    assert len(base.environment_files) == 2000
    assert "gen/m2000.py" in base.warnings[0]


def test_environment_files_need_no_gitignore(repo: Repo, store: Store) -> None:
    checkout = repo({"a.py": "1\n"})
    (checkout / ".git" / "info" / "exclude").write_text("local.py\n")
    (checkout / "local.py").write_text("1\n")
    base = snapshot(checkout, store)
    assert base.environment_files.keys() == {"local.py"}
    assert base.ignored(["local.py", "other.py"]) == {"local.py"}
