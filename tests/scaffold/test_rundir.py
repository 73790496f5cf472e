"""Run directories are removed whatever is in them, by several at once, and nothing outside is touched."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from execcritic_scaffold.sandbox import rundir


def test_locked_folders_go_too(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "a" / "b").mkdir(parents=True)
    (run / "a" / "b" / "file").touch()
    (run / "a" / "b").chmod(0)
    (run / "a").chmod(0o500)
    rundir.remove(run)
    assert not run.exists()


def test_what_is_above_keeps_its_mode_when_another_was_quicker(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    rundir.remove(tmp_path / "gone")
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777


def test_several_at_once(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    for number in range(200):
        (tmp_path / f"run{number}" / "d").mkdir(parents=True)
    names = [tmp_path / f"run{number}" for number in range(200)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(rundir.remove, names * 3))
    assert list(tmp_path.iterdir()) == []
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777


def test_a_link_to_elsewhere_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "kept").touch()
    run = tmp_path / "run"
    run.mkdir()
    (run / "link").symlink_to(outside)
    rundir.remove(run)
    assert (outside / "kept").exists()
    assert stat.S_IMODE(outside.stat().st_mode) == 0o755
