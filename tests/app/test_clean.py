"""`clean`: removes what the program made, says so, and touches nothing else."""

from __future__ import annotations

from pathlib import Path

from .conftest import Cli


def test_it_removes_its_caches_and_nothing_else(cli: Cli, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for name in ("store/objects", "bubblewrap/base", "environments", "mine"):
        (cache / name).mkdir(parents=True)
        (cache / name / "file").touch()
    (cache / "bubblewrap" / "base").chmod(0o500)
    env = {"EXECCRITIC_CACHE": str(cache), "DOCKER_HOST": f"unix://{tmp_path}/absent.sock", "TMPDIR": str(tmp_path)}
    caches = {str(cache / name) for name in ("store", "bubblewrap", "environments")}
    would = cli("clean", "--dry-run", "--json", env=env)
    assert (would.code, would.json["dry_run"]) == (0, True)
    assert caches <= set(would.json["removed"])
    assert len(list(cache.iterdir())) == 4
    done = cli("clean", env=env)
    assert done.code == 0
    assert all(f"Removed {path}" in done.out for path in caches)
    assert "Docker was passed over" in done.err
    assert [path.name for path in cache.iterdir()] == ["mine"]
    assert not [path for path in cli("clean", "--json", env=env).json["removed"] if path.startswith(str(cache))]
