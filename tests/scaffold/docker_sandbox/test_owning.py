"""Containers carry their owner's name, and those of a dead owner go at the next start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from execcritic_scaffold.sandbox import docker_engine
from execcritic_scaffold.sandbox.docker import Docker
from execcritic_scaffold.sandbox.protocol import Command, Limits, Prepared, Workspace

pytestmark = pytest.mark.docker
ENGINE = Path(__file__).parents[3] / ".ci" / "engine.sh"

HARNESS = """
import sys
from pathlib import Path
from execcritic_scaffold.sandbox.docker import Docker
from execcritic_scaffold.sandbox.protocol import Command, Limits, Workspace

run, image, source = sys.argv[1:]
sandbox = Docker(run=run)
prepared = sandbox.prepare("docker-tests-1", Path(source), sandbox.inspect(None, image))
"""
RUNNING = HARNESS + 'sandbox.run(Workspace(prepared), Command(["sleep", "300"]), Limits(seconds=300))'
IN_SESSION = (
    HARNESS
    + """
session = sandbox.open(Workspace(prepared), Limits())
session.act("sleep 300 & echo", 10)
print("open", flush=True)
sys.stdin.read()
"""
)


def test_container_is_confined_and_labelled(
    sandbox: Docker, prepared: Prepared, containers: Callable[[str], list[Any]], run_name: str, limits: Limits
) -> None:
    with sandbox.open(Workspace(prepared), limits):
        (found,) = containers(run_name)
        host = found.attrs["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"] and not host["Privileged"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["LogConfig"]["Type"] == "none" and host["IpcMode"] == "private"
    assert host["Memory"] == host["MemorySwap"] == limits.memory and host["PidsLimit"] == limits.processes
    assert not host["Binds"] and found.attrs["Mounts"] == []
    assert found.attrs["Config"]["User"] == "65534:65534"
    assert found.labels[docker_engine.LABEL] == "1"
    assert f" {os.getpid()} " in found.labels[docker_engine.OWNER]
    assert containers(run_name) == []


def test_docker_configuration_of_the_user_stays_out(prepared: Prepared, run_name: str, limits: Limits) -> None:
    # The SDK would hand proxies of this file, which may hold a password, to every container.
    folder = Path(os.environ["HOME"], ".docker")
    folder.mkdir()
    proxies = {"default": {"httpProxy": "http://user:secret@proxy.invalid:1"}}
    folder.joinpath("config.json").write_text(json.dumps({"proxies": proxies}))
    fresh = Docker(run=run_name)
    done = fresh.run(Workspace(prepared), Command(["env"]), limits)
    fresh.close()
    assert b"secret" not in done.stdout and b"PATH=" in done.stdout


def test_next_start_removes_what_a_killed_harness_left_behind(
    prepared: Prepared, source: Path, image: str, containers: Callable[[str], list[Any]], run_name: str
) -> None:
    run = run_name + "-killed"
    with subprocess.Popen([sys.executable, "-c", RUNNING, run, image, str(source)]) as child:
        try:
            deadline = time.monotonic() + 60
            while not any(c.status == "running" and "sleep" in c.attrs["Config"]["Cmd"] for c in containers(run)):
                assert child.poll() is None and time.monotonic() < deadline
                time.sleep(0.05)
            assert Docker().probe() is None
            assert len(containers(run)) == 1, "the container of a living owner was removed"
        finally:
            child.kill()
    assert len(containers(run)) == 1
    assert Docker().probe() is None
    assert containers(run) == []


def test_session_ends_with_its_harness(
    prepared: Prepared, source: Path, image: str, containers: Callable[[str], list[Any]], run_name: str
) -> None:
    run = run_name + "-killed"
    command = [sys.executable, "-c", IN_SESSION, run, image, str(source)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == b"open\n"
        finally:
            child.kill()
    (found,) = containers(run)
    found.wait(timeout=30)
    assert Docker().probe() is None
    assert containers(run) == []


def test_owners_that_are_not_judged() -> None:
    assert not docker_engine.owner_is_dead({docker_engine.OWNER: "elsewhere 1 1"})
    assert not docker_engine.owner_is_dead({})
    mine = docker_engine.labels("")
    assert not docker_engine.owner_is_dead(mine)
    host, pid, started = mine[docker_engine.OWNER].rsplit(" ", 2)
    assert docker_engine.owner_is_dead({docker_engine.OWNER: f"{host} {pid} {int(started) - 1}"}), "a reused pid"


@pytest.fixture
def own_engine(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[docker.DockerClient]:
    """A second engine: what removes everything of ours must not run on the one that other tests use."""
    if os.geteuid() != 0:
        pytest.skip("starting an engine needs root")
    folder = tmp_path_factory.mktemp("e")
    done = subprocess.run(["bash", ENGINE, "start", folder], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        pytest.skip("no second engine can be started here")
    client = docker.DockerClient(done.stdout.strip())
    yield client
    client.close()
    subprocess.run(["bash", ENGINE, "stop", folder], check=True)


@pytest.mark.slow
def test_clean_removes_all_of_ours_and_nothing_else(own_engine: docker.DockerClient) -> None:
    empty = bytes(1024)  # a tar archive without members
    own_engine.api.import_image_from_data(empty, repository="theirs")
    own_engine.api.import_image_from_data(empty, repository="ours", changes=docker_engine.image_labels("base"))
    kept = own_engine.containers.create("theirs", "x")
    own_engine.containers.create("ours", "x", labels=docker_engine.labels("some run"))
    assert docker_engine.clean(own_engine) == (1, 1)
    assert [c.id for c in own_engine.containers.list(all=True)] == [kept.id]
    assert [i.tags for i in own_engine.images.list()] == [["theirs:latest"]]


def test_no_engine_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    problem = Docker().probe()
    assert problem is not None and str(tmp_path) in problem and problem.endswith("start Docker or set DOCKER_HOST.")
