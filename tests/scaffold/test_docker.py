"""What is docker's own: labels and reaping, the image that Base is baked into, frozen files, and the engine's failures.

What every sandbox must do is in test_sandbox_conformance.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import docker
import pytest

from execcritic_scaffold.errors import EnvironmentFailure, UsageError
from execcritic_scaffold.files import File
from execcritic_scaffold.sandbox import docker_engine
from execcritic_scaffold.sandbox.docker import Docker
from execcritic_scaffold.sandbox.protocol import Command, Completed, Limits, Prepared, Workspace

IMAGE = os.environ.get("EXECCRITIC_TEST_IMAGE", "")
pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(not IMAGE, reason="EXECCRITIC_TEST_IMAGE names no image on a Docker engine"),
]
LIMITS = Limits(seconds=60, memory=1 << 30, disk=64 << 20)
FILES: dict[str, bytes] = {
    "pkg/__init__.py": b"",
    "pkg/old/only.py": b"VALUE = 1\n",
    "tests/test_pkg.py": b"def test_it():\n    assert True\n",
    "tests/conftest.py": b"",
}


@pytest.fixture
def client() -> Iterator[docker.DockerClient]:
    found = docker.from_env()
    yield found
    found.close()


@pytest.fixture
def run_name(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name}-{os.getpid()}-{time.monotonic_ns()}"


@pytest.fixture
def sandbox(run_name: str) -> Iterator[Docker]:
    made = Docker(run=run_name)
    yield made
    made.close()


def base(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def prepared(sandbox: Docker, tmp_path: Path) -> Prepared:
    return sandbox.prepare("docker-tests-1", base(tmp_path / "base", FILES), sandbox.inspect(None, IMAGE))


def shell(sandbox: Docker, workspace: Workspace, script: str, **options: Any) -> Completed:
    return sandbox.run(workspace, Command(["sh", "-c", script]), LIMITS, **options)


def containers(client: docker.DockerClient, run_name: str) -> list[Any]:
    return client.containers.list(all=True, filters={"label": f"{docker_engine.RUN}={run_name}"})


def test_container_is_confined_and_labelled(
    sandbox: Docker, prepared: Prepared, client: docker.DockerClient, run_name: str
) -> None:
    with sandbox.open(Workspace(prepared), LIMITS):
        (found,) = containers(client, run_name)
        host = found.attrs["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"] and not host["Privileged"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["LogConfig"]["Type"] == "none" and host["IpcMode"] == "private"
    assert host["Memory"] == host["MemorySwap"] == LIMITS.memory and host["PidsLimit"] == LIMITS.processes
    assert not host["Binds"] and found.attrs["Mounts"] == []
    assert found.attrs["Config"]["User"] == "65534:65534"
    assert found.labels[docker_engine.LABEL] == "1"
    assert f" {os.getpid()} " in found.labels[docker_engine.OWNER]
    assert containers(client, run_name) == []


def test_docker_configuration_of_the_user_stays_out(prepared: Prepared, run_name: str) -> None:
    # The SDK would hand proxies of this file, which may hold a password, to every container.
    folder = Path(os.environ["HOME"], ".docker")
    folder.mkdir()
    folder.joinpath("config.json").write_text(
        json.dumps({"proxies": {"default": {"httpProxy": "http://user:secret@proxy.invalid:1"}}})
    )
    fresh = Docker(run=run_name)
    done = shell(fresh, Workspace(prepared), "env")
    fresh.close()
    assert b"secret" not in done.stdout and b"PATH=" in done.stdout


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


def test_next_start_removes_what_a_killed_harness_left_behind(
    prepared: Prepared, tmp_path: Path, client: docker.DockerClient, run_name: str
) -> None:
    run = run_name + "-killed"
    child = subprocess.Popen([sys.executable, "-c", RUNNING, run, IMAGE, str(tmp_path / "base")])
    try:
        deadline = time.monotonic() + 60
        while not any(c.status == "running" for c in containers(client, run)):
            assert child.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        alive = Docker(run=run_name)
        assert alive.probe() is None
        assert len(containers(client, run)) == 1, "the container of a living owner was removed"
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    alive.close()
    assert len(containers(client, run)) == 1
    assert Docker().probe() is None
    assert containers(client, run) == []


def test_session_ends_with_its_harness(
    prepared: Prepared, tmp_path: Path, client: docker.DockerClient, run_name: str
) -> None:
    run = run_name + "-killed"
    child = subprocess.Popen(
        [sys.executable, "-c", IN_SESSION, run, IMAGE, str(tmp_path / "base")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with child:
        assert child.stdout is not None and child.stdout.readline() == b"open\n"
        child.kill()
    (found,) = containers(client, run)
    found.wait(timeout=30)
    assert Docker().probe() is None
    assert containers(client, run) == []


def test_owner_of_another_machine_is_not_judged() -> None:
    assert not docker_engine.owner_is_dead({docker_engine.OWNER: "elsewhere 1 1"})
    assert not docker_engine.owner_is_dead({})
    mine = docker_engine.labels("")
    assert not docker_engine.owner_is_dead(mine)
    host, pid, started = mine[docker_engine.OWNER].rsplit(" ", 2)
    assert docker_engine.owner_is_dead({docker_engine.OWNER: f"{host} {pid} {int(started) - 1}"}), "a reused pid"


def test_second_prepare_starts_nothing(
    sandbox: Docker, prepared: Prepared, tmp_path: Path, client: docker.DockerClient, run_name: str
) -> None:
    since = time.time()
    again = sandbox.prepare("docker-tests-1", tmp_path / "does-not-exist", sandbox.inspect(None, IMAGE))
    until = time.time()
    assert again == prepared
    created = client.events(
        since=since, until=until, filters={"event": "create", "label": f"{docker_engine.RUN}={run_name}"}
    )
    assert list(created) == []


def test_image_with_a_checkout_of_its_own(sandbox: Docker, tmp_path: Path, client: docker.DockerClient) -> None:
    """History, stale byte code and files that Base lacks go; what the repository ignores (built things) stays."""
    script = """
    set -e; mkdir -p /testbed/pkg /testbed/sub; cd /testbed; export HOME=/tmp
    git init -q .; git config user.email a@b; git config user.name n
    echo 'secret = 1' >gone.py; echo 'old = 1' >kept.py; echo '*.so' >.gitignore
    git add -A; git commit -qm history; echo built >pkg/fast.so
    python -c 'import py_compile; py_compile.compile("gone.py", cfile="pkg/forged.pyc")'; cp -r .git sub/.git
    """
    made = client.containers.create(IMAGE, entrypoint=["sh"], command=["-c", script], network_mode="none")
    try:
        made.start()
        assert made.wait()["StatusCode"] == 0
        image = made.commit("execcritic-test-checkout")
    finally:
        made.remove(force=True)
    try:
        where = base(tmp_path / "b", {"kept.py": b"new = 1\n", "pkg/__init__.py": b"", ".gitignore": b"*.so\n"})
        ready = sandbox.prepare("docker-tests-2", where, sandbox.inspect(None, "execcritic-test-checkout"))
        done = shell(
            sandbox,
            Workspace(ready),
            "find . -name .git; find . -type f ! -path '*/__pycache__/*' | sort; cat kept.py; stat -c %u pkg/fast.so",
        )
        client.images.remove(ready.image)
    finally:
        client.images.remove(image.id, force=True)
    assert done.stdout.decode().splitlines() == [
        *("./.gitignore", "./kept.py", "./pkg/__init__.py", "./pkg/fast.so"),
        *("new = 1", "65534"),
    ]


def test_base_is_compiled_with_checked_hashes(sandbox: Docker, prepared: Prepared) -> None:
    done = shell(sandbox, Workspace(prepared), "head -c 8 pkg/old/__pycache__/only.*.pyc")
    assert done.stdout[4:] == b"\3\0\0\0"  # PEP 552: hash-based, check_source


FROZEN = "tests/test_frozen.py"


@pytest.mark.parametrize(
    "attack",
    [
        "echo 1 >tests/test_frozen.py",
        "chmod u+w tests/test_frozen.py",
        "rm -f tests/test_frozen.py",
        "mv tests/test_frozen.py tests/other.py",
        "echo 1 >new && mv -f new tests/test_frozen.py",
        "ln -sf /dev/null tests/test_frozen.py",
        "mv tests gone",
        "rm -rf tests",
        "chmod 777 tests",
        "mv /testbed /gone",
    ],
)
def test_frozen_file_cannot_be_touched(sandbox: Docker, prepared: Prepared, attack: str) -> None:
    workspace = Workspace(prepared, {FROZEN: File(b"frozen\n")}, frozenset({FROZEN, "tests/conftest.py"}))
    done = shell(sandbox, workspace, f"{attack}; cat {FROZEN}; touch tests/beside pkg/beside beside && rm tests/beside")
    assert done.stdout == b"frozen\n"
    assert done.exit_code == 0, "new files beside the frozen ones must be possible"


def test_file_of_base_can_be_frozen(sandbox: Docker, prepared: Prepared) -> None:
    workspace = Workspace(prepared, readonly=frozenset({"tests/conftest.py"}))
    done = shell(sandbox, workspace, "echo 1 >tests/conftest.py; rm -f tests/conftest.py; cat tests/conftest.py")
    assert done.exit_code == 0 and done.stdout == b""


def test_frozen_link_is_refused(sandbox: Docker, prepared: Prepared) -> None:
    link = {FROZEN: File(b"/dev/null", "120000")}
    with pytest.raises(UsageError, match="symbolic link"):
        shell(sandbox, Workspace(prepared, link, frozenset({FROZEN})), "true")


def test_changes_replace_files_by_directories_and_back(sandbox: Docker, prepared: Prepared) -> None:
    changes = {
        "pkg/old/only.py": None,
        "pkg/old": File(b"a file now\n"),
        "tests/conftest.py": None,
        "tests/conftest.py/inner": File(b"1\n"),
        "link": File(b"pkg", "120000"),
        "run": File(b"#!/bin/sh\n", "100755"),
        os.fsdecode(b"caf\xe9"): File(b"latin-1\n"),
    }
    script = "cat pkg/old tests/conftest.py/inner caf*; readlink link; ./run && ls -b | head -1"
    done = shell(sandbox, Workspace(prepared, changes), script)
    assert done.stdout == b"a file now\n1\nlatin-1\npkg\ncaf\\351\n" and done.exit_code == 0


def test_deleted_module_leaves_no_package_behind(sandbox: Docker, prepared: Prepared) -> None:
    # A directory that holds byte code only would still be importable, as a namespace package.
    done = shell(sandbox, Workspace(prepared, {"pkg/old/only.py": None}), "ls pkg")
    assert done.stdout.split() == [b"__init__.py", b"__pycache__"]


def test_exit_code_is_told_from_a_signal(sandbox: Docker, prepared: Prepared) -> None:
    assert shell(sandbox, Workspace(prepared), "exit 137").exit_code == 137
    assert shell(sandbox, Workspace(prepared), "kill -9 $$").exit_code == -9


def test_end_of_the_run_cannot_be_forged(sandbox: Docker, prepared: Prepared) -> None:
    # What process 1 reports comes after everything else was killed; its nonce is no secret, and need not be.
    forged = "nonce=$(tr '\\0' '\\n' </proc/1/cmdline | sed -n 5p); printf '%s\\0\\0\\0\\0\\0\\0\\0\\0' $nonce >&2"
    script = f"{forged}; exit 7"
    done = shell(sandbox, Workspace(prepared), script)
    assert done.exit_code == 7 and len(done.stderr) == 24


def test_audit_sees_through_the_patch(sandbox: Docker, prepared: Prepared) -> None:
    changes = {"pkg/new.py": File(b"1\n"), "pkg/same.py": File(b"1\n"), "pkg/old/only.py": None}
    script = "echo >>pkg/new.py; rm tests/conftest.py; mkdir empty; touch ~/at-home gone /tmp/fine; rm gone"
    done = shell(sandbox, Workspace(prepared, changes), script, audit=True)
    assert done.writes == ("empty", "pkg/new.py", "tests/conftest.py", "~/at-home")
    assert shell(sandbox, Workspace(prepared, changes), "true", audit=True).writes == ()


def test_setup_becomes_an_image(
    sandbox: Docker, prepared: Prepared, tmp_path: Path, client: docker.DockerClient
) -> None:
    log = tmp_path / "setup.log"
    commands = ["cd pkg && echo 'version = 9' >_version.py", "pwd && rm tests/conftest.py && echo 1 >/usr/bin/tool"]
    built = sandbox.build(prepared, commands, {}, log, LIMITS)
    try:
        assert dict(built.changes) == {"pkg/_version.py": File(b"version = 9\n"), "tests/conftest.py": None}
        assert b"/testbed\n" in log.read_bytes()
        log.unlink()
        assert sandbox.build(prepared, commands, {}, log, LIMITS) == built
        assert not log.exists(), "set-up ran twice"
        ready = sandbox.prepare("docker-tests-1", tmp_path / "base", built.interpreter)
        done = shell(sandbox, Workspace(ready, built.changes), "cat /usr/bin/tool pkg/_version.py; ls tests; id -u")
        assert done.stdout == b"1\nversion = 9\n__pycache__\ntest_pkg.py\n65534\n"
        client.images.remove(ready.image)
    finally:
        client.images.remove(built.interpreter.image)


def test_failed_setup_shows_its_last_lines(sandbox: Docker, prepared: Prepared, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match=r"(?s)exit code 4.*no such package"):
        sandbox.build(prepared, ["echo no such package; exit 4", "echo never"], {}, tmp_path / "log", LIMITS)


def test_missing_image_names_the_remedy(sandbox: Docker) -> None:
    with pytest.raises(EnvironmentFailure, match="docker pull execcritic-no-such:1"):
        sandbox.inspect(None, "execcritic-no-such:1")


def test_python_that_is_none(sandbox: Docker) -> None:
    with pytest.raises(EnvironmentFailure, match="no usable Python"):
        sandbox.inspect("/bin/true", IMAGE)
    with pytest.raises(EnvironmentFailure, match="/nowhere/python"):
        sandbox.inspect("/nowhere/python", IMAGE)


def test_no_engine_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    problem = Docker().probe()
    assert problem is not None and str(tmp_path) in problem and problem.endswith("or use --sandbox bubblewrap.")
