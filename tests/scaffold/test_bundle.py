"""A bundle on disk is exactly what was frozen, or it is refused."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from execcritic_scaffold.bundle import SCHEMA, FrozenBundle
from execcritic_scaffold.errors import BundleError, BundleTampered, ExecCriticError
from tests.scaffold.harness import Lab, frozen

TEST = "from pkg import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"


@pytest.fixture(scope="module")
def bundle(lab: Lab) -> FrozenBundle:
    site = lab.site({"pkg/__init__.py": "def add(a, b):\n    return a - b\n"})
    files = {"tests/test_add.py": TEST, "tests/data.bin": bytes(range(256)), "tests/empty.txt": b""}
    return frozen(site, files, "tests/test_add.py::test_add", k=1, soundness=False)


@pytest.fixture(scope="module")
def saved(bundle: FrozenBundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle on disk; not to be changed."""
    folder = tmp_path_factory.mktemp("bundle") / "saved"
    bundle.save(folder)
    return folder


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    folder = tmp_path / "copy"
    shutil.copytree(saved, folder)
    return folder


def write(path: Path, data: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(data)


def test_round_trip(bundle: FrozenBundle, saved: Path) -> None:
    loaded = FrozenBundle.load(saved)
    assert loaded == bundle and loaded.id == bundle.id
    assert loaded.changes["tests/data.bin"] == bundle.changes["tests/data.bin"]
    assert loaded.reproducing == ("tests/test_add.py::test_add",)


def test_it_is_read_only_and_whole(saved: Path) -> None:
    names = {str(p.relative_to(saved)) for p in saved.rglob("*") if p.is_file()}
    assert {n for n in names if not re.fullmatch(r"files/[0-9a-f]{64}", n)} == {"bundle.json", "test.patch"}
    assert all(p.stat().st_mode & 0o222 == 0 for p in saved.rglob("*") if p.is_file())


def test_every_byte_of_the_record_counts(saved: Path, copy: Path) -> None:
    data = (saved / "bundle.json").read_bytes()
    target = copy / "bundle.json"
    target.chmod(0o644)
    with open(target, "r+b") as out:
        for place, byte in enumerate(data):
            os.pwrite(out.fileno(), bytes([byte ^ 1]), place)
            with pytest.raises(BundleError):
                FrozenBundle.load(copy)
            os.pwrite(out.fileno(), bytes([byte]), place)
    FrozenBundle.load(copy)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_every_byte_of_every_file_counts(
    saved: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damaged") / "copy"
    shutil.copytree(saved, folder)
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.stat().st_size)
    path = data.draw(st.sampled_from(files))
    text = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != text[place]))
    write(path, bytes(text))
    with pytest.raises(BundleError):
        FrozenBundle.load(folder)
    shutil.rmtree(folder)


def first_blob(folder: Path) -> Path:
    return next(p for p in sorted((folder / "files").iterdir()) if p.stat().st_size)


DAMAGE: dict[str, tuple[type[BundleError], Callable[[Path], object]]] = {
    "no record": (BundleError, lambda f: (f / "bundle.json").unlink()),
    "no patch": (BundleError, lambda f: (f / "test.patch").unlink()),
    "no file": (BundleError, lambda f: first_blob(f).unlink()),
    "no files": (BundleError, lambda f: shutil.rmtree(f / "files")),
    "no folder": (BundleError, shutil.rmtree),
    "record cut": (BundleError, lambda f: write(f / "bundle.json", (f / "bundle.json").read_bytes()[:-9])),
    "record empty": (BundleError, lambda f: write(f / "bundle.json", b"")),
    "another record": (BundleError, lambda f: write(f / "bundle.json", b"[1, 2]\n")),
    "patch cut": (BundleTampered, lambda f: write(f / "test.patch", (f / "test.patch").read_bytes()[:-9])),
    "file cut": (BundleTampered, lambda f: write(first_blob(f), b"")),
    "surplus file": (BundleTampered, lambda f: (f / "files" / ("0" * 64)).write_bytes(b"x")),
    "surplus file, rightly named": (
        BundleTampered,
        lambda f: (f / "files" / "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881").write_bytes(b"x"),
    ),
    "surplus beside": (BundleTampered, lambda f: (f / "conftest.py").write_bytes(b"")),
    "a folder among the files": (BundleTampered, lambda f: (f / "files" / "x").mkdir()),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage(copy: Path, name: str) -> None:
    kind, damage = DAMAGE[name]
    damage(copy)
    with pytest.raises(kind) as caught:
        FrozenBundle.load(copy)
    assert (type(caught.value), caught.value.exit_code) == (kind, 2)
    assert re.search(r"(get a|do not trust|name the folder|remove it).*[.]$", str(caught.value))


def test_a_changed_record_is_tampering_even_with_another_id(copy: Path) -> None:
    record = json.loads((copy / "bundle.json").read_bytes())
    record["author"] = "agent"
    write(copy / "bundle.json", (json.dumps(record, indent=1) + "\n").encode())
    with pytest.raises(BundleTampered, match="do not trust"):
        FrozenBundle.load(copy)


@pytest.mark.parametrize("layout", [{"indent": 2}, {"sort_keys": True}, {}])
def test_the_same_content_otherwise_written_is_refused(copy: Path, layout: dict[str, object]) -> None:
    record = json.loads((copy / "bundle.json").read_bytes())
    write(copy / "bundle.json", (json.dumps(record, **layout) + "\n").encode())  # type: ignore[arg-type]
    with pytest.raises(BundleTampered):
        FrozenBundle.load(copy)


@pytest.mark.parametrize("version", [SCHEMA + 1, 99])
def test_a_newer_version_is_refused_with_advice(copy: Path, version: int) -> None:
    record = json.loads((copy / "bundle.json").read_bytes())
    record |= {"schema_version": version, "a field of the future": 1}
    write(copy / "bundle.json", (json.dumps(record, indent=1) + "\n").encode())
    with pytest.raises(BundleError, match=f"format {version}.*upgrade") as caught:
        FrozenBundle.load(copy)
    assert not isinstance(caught.value, BundleTampered) and caught.value.exit_code == 2


@pytest.mark.parametrize("version", [None, "1", 1.0, True, 0, -1])
def test_no_version_of_ours(copy: Path, version: object) -> None:
    record = json.loads((copy / "bundle.json").read_bytes())
    write(copy / "bundle.json", (json.dumps(record | {"schema_version": version}, indent=1) + "\n").encode())
    with pytest.raises(BundleError):
        FrozenBundle.load(copy)


def test_a_file_in_place_of_the_bundle(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(BundleError, match="; "):
        FrozenBundle.load(tmp_path / "file")


def test_it_loads_from_a_folder_that_cannot_be_written(copy: Path, bundle: FrozenBundle) -> None:
    (copy / "files").chmod(0o555)
    copy.chmod(0o555)
    assert FrozenBundle.load(copy).id == bundle.id
    copy.chmod(0o755)
    (copy / "files").chmod(0o755)


def test_a_second_save_to_one_place_is_refused_and_leaves_nothing(bundle: FrozenBundle, tmp_path: Path) -> None:
    bundle.save(tmp_path / "b")
    with pytest.raises(ExecCriticError):
        bundle.save(tmp_path / "b")
    assert [p.name for p in tmp_path.iterdir()] == ["b"]
    assert FrozenBundle.load(tmp_path / "b").id == bundle.id


def test_saves_side_by_side(bundle: FrozenBundle, tmp_path: Path) -> None:
    """Many at once to one place: one wins, each other one is told so, and what is there is whole."""

    def save(_: int) -> str:
        try:
            bundle.save(tmp_path / "b")
        except ExecCriticError:
            return "refused"
        return "saved"

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(save, range(8)))
    assert answers.count("saved") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["b"]
    assert FrozenBundle.load(tmp_path / "b").id == bundle.id


def test_a_place_that_cannot_be_written_is_one_clear_sentence(bundle: FrozenBundle, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ExecCriticError, match=r"[.]$"):
        bundle.save(tmp_path / "file" / "bundle")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_what_is_no_text_comes_through(lab: Lab, tmp_path: Path) -> None:
    """Lone surrogates in a message."""
    site = lab.site({"pkg/__init__.py": "def add(a, b):\n    return a - b\n"})
    files = {"tests/test_add.py": TEST.replace("== 3", "== 3, '\\udcff \\ud800'")}
    odd = frozen(site, files, "tests/test_add.py::test_add", k=1, soundness=False)
    odd.save(tmp_path / "b")
    assert FrozenBundle.load(tmp_path / "b") == odd


class Interrupting(dict[str, bytes]):
    """Blobs of which the second is not reached: Ctrl-C comes first."""

    def items(self) -> Any:
        yield next(iter(super().items()))
        raise KeyboardInterrupt


def test_an_interrupted_save_leaves_nothing(bundle: FrozenBundle, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        FrozenBundle(bundle.record, Interrupting(bundle.blobs)).save(tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.bubblewrap
def test_a_full_disk_is_the_machine_s_fault(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    code = (
        "import os, pathlib; from execcritic_scaffold.bundle import FrozenBundle\n"
        "from execcritic_scaffold.errors import InfrastructureError\n"
        f"try: FrozenBundle.load(pathlib.Path({str(saved)!r})).save(pathlib.Path('small/b'))\n"
        "except InfrastructureError as error: print(error, os.listdir('small'))\n"
    )
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    mounted = 'mount -t tmpfs -o size=8k tmpfs small && exec "$@"'
    done = subprocess.run(
        [*namespace, "sh", "-c", mounted, "sh", sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "The disk is full at small/b; free some space and start again. []\n", done.stderr
