"""Base and set-up as images: made once, without history, stale byte code or leftovers of the image's own checkout."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import docker
import pytest

from execcritic_scaffold.errors import EnvironmentFailure, UsageError
from execcritic_scaffold.files import File
from execcritic_scaffold.sandbox import docker_engine
from execcritic_scaffold.sandbox.docker import Docker
from execcritic_scaffold.sandbox.protocol import Command, Completed, Limits, Prepared, Workspace

pytestmark = pytest.mark.docker


def test_second_prepare_starts_nothing(
    sandbox: Docker, prepared: Prepared, image: str, tmp_path: Path, client: docker.DockerClient, run_name: str
) -> None:
    since = time.time()
    again = sandbox.prepare("docker-tests-1", tmp_path / "does-not-exist", sandbox.inspect(None, image))
    until = time.time()
    assert again == prepared
    mine = {"event": "create", "label": f"{docker_engine.RUN}={run_name}"}
    assert list(client.events(since=since, until=until, filters=mine)) == []


CHECKOUT = """
set -e; mkdir -p /testbed/pkg /testbed/sub; cd /testbed; export HOME=/tmp
git init -q .; git config user.email a@b; git config user.name n
echo 'secret = 1' >gone.py; echo 'old = 1' >kept.py; echo '*.so' >.gitignore
git add -A; git commit -qm history; echo built >pkg/fast.so
python -c 'import py_compile; py_compile.compile("gone.py", cfile="pkg/forged.pyc")'; cp -r .git sub/.git
"""


@pytest.fixture
def with_checkout(client: docker.DockerClient, image: str) -> Iterator[str]:
    """An image like SWE-bench's: the repository lies in /testbed, with history and built files."""
    name = "execcritic-test-checkout"
    made = client.containers.create(image, entrypoint=["sh"], command=["-c", CHECKOUT], network_mode="none")
    try:
        made.start()
        assert made.wait()["StatusCode"] == 0
        made.commit(name)
    finally:
        made.remove(force=True)
    yield name
    client.images.remove(name, force=True)


def test_image_with_a_checkout_of_its_own(
    sandbox: Docker,
    with_checkout: str,
    client: docker.DockerClient,
    lay: Callable[[Mapping[str, bytes]], Path],
    limits: Limits,
) -> None:
    """History, stale byte code and files that Base lacks go; what the repository ignores (built things) stays."""
    base = lay({"kept.py": b"new = 1\n", "pkg/__init__.py": b"", ".gitignore": b"*.so\n"})
    ready = sandbox.prepare("docker-tests-2", base, sandbox.inspect(None, with_checkout))
    show = "find . -name .git; find . -type f ! -path '*/__pycache__/*' | sort; cat kept.py; stat -c %u pkg/fast.so"
    done = sandbox.run(Workspace(ready), Command(["sh", "-c", show]), limits)
    client.images.remove(ready.image)
    assert done.stdout.decode().splitlines() == [
        *("./.gitignore", "./kept.py", "./pkg/__init__.py", "./pkg/fast.so"),
        *("new = 1", "65534"),
    ]


def test_base_is_compiled_with_checked_hashes(shell: Callable[..., Completed]) -> None:
    done = shell("head -c 8 pkg/old/__pycache__/only.*.pyc")
    assert done.stdout[4:] == b"\3\0\0\0"  # PEP 552: hash-based, check_source


def test_setup_becomes_an_image(
    sandbox: Docker, prepared: Prepared, source: Path, tmp_path: Path, client: docker.DockerClient, limits: Limits
) -> None:
    log = tmp_path / "setup.log"
    commands = ["cd pkg && echo 'version = 9' >_version.py", "pwd && rm tests/conftest.py && echo 1 >/usr/bin/tool"]
    built = sandbox.build(prepared, commands, {}, log, limits)
    try:
        assert dict(built.changes) == {"pkg/_version.py": File(b"version = 9\n"), "tests/conftest.py": None}
        assert b"/testbed\n" in log.read_bytes(), "each command starts in the workspace"
        said = log.read_bytes()
        log.unlink()
        assert sandbox.build(prepared, commands, {}, log, limits) == built
        assert log.read_bytes() == said, "set-up ran twice, or its log is lost"
        ready = sandbox.prepare("docker-tests-1", source, built.interpreter)
        show = "cat /usr/bin/tool pkg/_version.py; ls tests; id -u"
        done = sandbox.run(Workspace(ready, built.changes), Command(["sh", "-c", show]), limits)
        client.images.remove(ready.image)
    finally:
        client.images.remove(built.interpreter.image)
    assert done.stdout == b"1\nversion = 9\n__pycache__\ntest_pkg.py\n65534\n"


def test_failed_setup_shows_its_last_lines(sandbox: Docker, prepared: Prepared, tmp_path: Path, limits: Limits) -> None:
    commands = ["echo no such package; exit 4", "echo never"]
    with pytest.raises(EnvironmentFailure, match=r"ended with 4 at `.*`: .*no such package; .*--setup"):
        sandbox.build(prepared, commands, {}, tmp_path / "log", limits)
    assert b"never" not in (tmp_path / "log").read_bytes()


def test_missing_image_names_the_remedy(sandbox: Docker) -> None:
    with pytest.raises(EnvironmentFailure, match="docker pull execcritic-no-such:1"):
        sandbox.inspect(None, "execcritic-no-such:1")
    with pytest.raises(UsageError, match="--image"):
        sandbox.inspect(None, None)


def test_python_that_is_none(sandbox: Docker, image: str) -> None:
    with pytest.raises(EnvironmentFailure, match="no usable Python"):
        sandbox.inspect("/bin/true", image)
    with pytest.raises(EnvironmentFailure, match="/nowhere/python"):
        sandbox.inspect("/nowhere/python", image)


@pytest.fixture
def with_variables(client: docker.DockerClient, image: str) -> Iterator[str]:
    """An image whose own variables would have a say in what is run and how it is judged."""
    name = "execcritic-test-variables"
    made = client.containers.create(image, entrypoint=["true"])
    odd = ["PYTEST_ADDOPTS=--collect-only", "PYTEST_PLUGINS=none", "PYTHONPATH=/tmp/none", "PYTHONSTARTUP=/tmp/x",
           "PYTHONPYCACHEPREFIX=/tmp/p", "PYTHONOPTIMIZE=2", "LD_PRELOAD=/tmp/none.so", "COVERAGE_PROCESS_START=/tmp/c",
           "PYTHON_VERSION=3.11", "PYTHONUTF8=1", "LD_LIBRARY_PATH=/tmp/lib", "TOOL=kept"]  # fmt: skip
    try:
        made.commit(name, changes=[f"ENV {pair}" for pair in odd])
    finally:
        made.remove(force=True)
    yield name
    client.images.remove(name, force=True)


def test_variables_of_an_image_that_change_judgement_are_left_out(
    sandbox: Docker, with_variables: str, lay: Callable[[Mapping[str, bytes]], Path]
) -> None:
    prepared = sandbox.prepare("docker-tests-env", lay({"a.py": b""}), sandbox.inspect(None, with_variables))
    done = sandbox.run(Workspace(prepared), Command(["sh", "-c", "export -p"]), Limits(seconds=60))
    names = {line.split("=")[0].removeprefix("export ") for line in done.stdout.decode().splitlines()}
    assert names >= {"PYTHON_VERSION", "PYTHONUTF8", "LD_LIBRARY_PATH", "TOOL"}
    odd = {name for name in names if name.startswith(("PYTEST", "COVERAGE", "PYTHON")) or name == "LD_PRELOAD"}
    assert odd == {"PYTHON_VERSION", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE"}
