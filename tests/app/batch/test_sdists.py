"""Source distributions: what an archive may not do, one commit that is the same everywhere, base_patch."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from execcritic.batch import checkouts, sdists
from execcritic.batch.instance import Sdist
from execcritic.batch.kept import once
from execcritic_scaffold.errors import EnvironmentFailure, PatchError
from execcritic_scaffold.store import EMPTY_TREE, Store


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True)
    return done.stdout.decode().strip()


def archive(path: Path, files: dict[str, bytes], link: tuple[str, str] | None = None) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        if link:
            info = tarfile.TarInfo(link[0])
            info.type, info.linkname = tarfile.SYMTYPE, link[1]
            tar.addfile(info)
    return path


def test_the_same_files_are_the_same_commit_and_bytes_are_kept(tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / ".gitattributes").write_text("* text eol=lf\n*.x filter=evil\n")
        (folder / ".gitignore").write_text("made.py\n")
        (folder / "made.py").write_bytes(b"a\r\nb\r\n")
        (folder / "run").write_text("#!/bin/sh\n")
        (folder / "run").chmod(0o755)
        checkouts.commit(folder)
        found.append(git(folder, "rev-parse", "HEAD"))
        assert git(folder, "log", "--all", "--format=%s") == "base"
        assert git(folder, "status", "--porcelain") == ""
        blob = subprocess.run(["git", "-C", folder, "show", "HEAD:made.py"], check=True, capture_output=True).stdout
        assert blob == b"a\r\nb\r\n"
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("files", "link"),
    [
        ({"x-1/../../escaped": b""}, None),
        ({"/tmp/escaped": b""}, ("x-1/link", "/etc/passwd")),
        ({"x-1/a": b""}, ("x-1/link", "../../../etc/passwd")),
    ],
)
def test_an_archive_that_reaches_outside(tmp_path: Path, files: dict[str, bytes], link: tuple[str, str] | None) -> None:
    folder = tmp_path / "in" / "tree"
    with pytest.raises(EnvironmentFailure, match="cannot be unpacked"):
        sdists.unpack(archive(tmp_path / "x-1.tar.gz", files, link), folder)
    assert not (tmp_path / "escaped").exists() and not (tmp_path / "in" / "escaped").exists()


def test_an_archive_that_is_none(tmp_path: Path) -> None:
    for name, data in (("x.tar.gz", b"no"), ("x.zip", b"no"), ("y.tar.gz", b"\x1f\x8b" + b"\0" * 20)):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(EnvironmentFailure, match=name):
            sdists.unpack(tmp_path / name, tmp_path / "tree")


def test_git_directories_that_an_archive_brings_are_left_out(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    config = f"[core]\n\tfsmonitor = touch {marker}\n".encode()
    names = ("x-1/.git/config", "x-1/sub/.git/config", "x-1/odd/.GIT/config")
    sdists.unpack(archive(tmp_path / "x.tar.gz", {**dict.fromkeys(names, config), "x-1/a": b""}), tmp_path / "tree")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as zipped:
        for name in names:
            zipped.writestr(name, config)
    sdists.unpack(tmp_path / "x.zip", tmp_path / "zipped")
    checkouts.commit(tmp_path / "tree" / "x-1")
    assert not marker.exists()
    assert git(tmp_path / "tree" / "x-1", "ls-tree", "-r", "--name-only", "HEAD") == "a"
    assert [path.name for path in (tmp_path / "zipped").rglob("*") if path.is_file()] == []


def test_an_entry_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def broken(directory: Path) -> None:
        directory.mkdir()
        (directory / "half").touch()
        raise EnvironmentFailure("no")

    with pytest.raises(EnvironmentFailure):
        once(tmp_path / "entry", broken)
    made = once(tmp_path / "entry", Path.mkdir)
    assert list(made.iterdir()) == []
    assert once(tmp_path / "entry", broken) == made


@pytest.mark.slow
def test_a_release_with_a_base_patch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a real pip, whose index is a folder; the package's own build code sees no key of ours."""
    backend = (
        "import os\n"
        f"open({str(tmp_path / 'seen')!r}, 'w').write(' '.join(os.environ))\n"
        "def prepare_metadata_for_build_wheel(folder, settings=None):\n"
        "    os.mkdir(folder + '/x-1.dist-info')\n"
        "    open(folder + '/x-1.dist-info/METADATA', 'w').write('Metadata-Version: 2.1\\nName: x\\nVersion: 1\\n')\n"
        "    return 'x-1.dist-info'\n"
        "def build_wheel(*a, **k): raise SystemError\n"
    )
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    files = {"pyproject.toml": project, "backend.py": backend, "PKG-INFO": "Name: x\n", "x.py": "good = 1\n"}
    archive(tmp_path / "x-1.tar.gz", {f"x-1/{name}": text.encode() for name, text in files.items()})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setattr(sdists, "BUILD_TOOLS", ())
    store, root = Store(tmp_path / "store"), tmp_path / "root"
    plain = sdists.checkout(Sdist("x==1", ()), store, root)
    assert (plain / "x.py").read_text() == "good = 1\n"
    assert "OPENAI_API_KEY" not in (tmp_path / "seen").read_text()

    tree = store.apply(EMPTY_TREE, _new("x.py", "good = 1\n"))
    bug = store.diff(tree, store.apply(EMPTY_TREE, _new("x.py", "bad = 1\n")))
    broken = sdists.checkout(Sdist("x==1", (), base_patch=bug), store, root)
    assert (broken / "x.py").read_text() == "bad = 1\n"
    assert (plain / "x.py").read_text() == "good = 1\n"
    assert git(broken, "log", "--all", "--format=%s") == "base"
    assert "good" not in git(broken, "log", "--all", "-p", "--", "x.py")
    with pytest.raises(PatchError, match="base_patch of x==1 cannot be used"):
        sdists.checkout(Sdist("x==1", (), base_patch=bug.replace(b"good = 1", b"else = 1")), store, root)
    with pytest.raises(EnvironmentFailure, match="No matching distribution"):
        sdists.checkout(Sdist("nothing==1", ()), store, root)
    assert not os.path.lexists(root / "checkouts" / "nothing-1")


def _new(name: str, text: str) -> bytes:
    head = f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n"
    return f"{head}@@ -0,0 +1 @@\n+{text}".encode()
