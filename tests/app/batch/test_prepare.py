"""Sources made ready: the repository inside an image without its history, and what an agent finds of it there."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from execcritic import places
from execcritic.batch.instance import Checkout, Gold, Image
from execcritic.batch.prepare import Prepared, prepared, with_tests
from execcritic.places import Place
from execcritic_scaffold import base as bases
from execcritic_scaffold.errors import EnvironmentFailure, PatchError
from execcritic_scaffold.sandbox import docker_engine, registry
from execcritic_scaffold.sandbox.protocol import Limits
from execcritic_scaffold.site import open_site
from execcritic_scaffold.store import Store
from execcritic_scaffold.task import EnvironmentSpec

IMAGE = os.environ.get("EXECCRITIC_TEST_IMAGE", "")
docker = pytest.mark.skipif(not IMAGE, reason="EXECCRITIC_TEST_IMAGE names no image")
SECRET = "the fix of tomorrow"
BUG = b"diff --git a/pkg/a.py b/pkg/a.py\n--- a/pkg/a.py\n+++ b/pkg/a.py\n@@ -1 +1 @@\n-good = 1\n+bad = 1\n"
LOOK = (
    "find / . -xdev -name .git -prune -print 2>/dev/null; git log --all 2>&1; git rev-list --all --objects 2>&1; "
    f"grep -rl '{SECRET}' . 2>/dev/null; cat pkg/a.py; ls -a . vendor; cat pkg/_built.py"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EXECCRITIC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image as they are published: a checkout with a history, later commits too, a submodule, build products."""
    repo = tmp_path_factory.mktemp("image") / "testbed"
    for name, text in {
        "pkg/a.py": "good = 1\n",
        "tests/test_a.py": "def test_a():\n    import pkg.a\n",
        ".gitignore": "_built.py\nkept.log\n",
        "kept.log": "tracked in spite of .gitignore\n",
        "gone.py": "removed before the image was made\n",
        "vendor/lib.py": "of a submodule\n",
    }.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)

    def git(folder: Path, *arguments: str) -> None:
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True)

    git(repo / "vendor", "init", "--quiet")
    git(repo / "vendor", "add", "--all")
    git(repo / "vendor", "commit", "--quiet", "--message=vendor")
    git(repo, "init", "--quiet")
    git(repo, "add", "--all", "--force")
    git(repo, "commit", "--quiet", "--message=base")
    (repo / "pkg/a.py").write_text(f"good = 2  # {SECRET}\n")
    git(repo, "commit", "--quiet", "--all", f"--message={SECRET}")
    git(repo, "checkout", "--quiet", "HEAD~1")
    (repo / "gone.py").unlink()
    (repo / "pkg/_built.py").write_text("built = True\n")
    (repo / "untracked.txt").write_text("left by whoever made the image\n")
    (repo / "pkg/link").symlink_to("/etc/hostname")
    with (repo / ".git" / "config").open("a") as config:
        config.write("[core]\n\tfsmonitor = touch /tmp/execcritic-rows-ran\n")

    holder = io.BytesIO()
    with tarfile.open(fileobj=holder, mode="w") as tar:
        tar.add(repo, "testbed")
    name = f"execcritic-rows-test:{uuid.uuid4().hex[:12]}"
    client = docker_engine.connect()
    container = client.containers.create(IMAGE, ["-"])
    container.put_archive("/", holder.getvalue())
    container.commit(*name.split(":"))
    docker_engine.remove(container)
    yield name
    for made in client.images.list(filters={"label": "execcritic=1"}):
        if made.attrs.get("Parent") == client.images.get(name).id:
            client.images.remove(str(made.id), force=True)
    client.images.remove(name)
    client.close()


@docker
@pytest.mark.docker
def test_the_repository_of_an_image_without_its_history(image: str) -> None:
    ready = prepared(Image(image), "pytest")
    assert ready.place == Place(image=image, runner="pytest")
    repo = Path(ready.repo)
    files = {str(path.relative_to(repo)) for path in repo.rglob("*") if ".git" not in path.parts and not path.is_dir()}
    assert files == {
        ".gitignore", "kept.log", "pkg/a.py", "pkg/link", "tests/test_a.py", "untracked.txt", "vendor/lib.py",
    }  # fmt: skip
    log = subprocess.run(
        ["git", "-C", repo, "log", "--all", "--format=%s", "-p"], capture_output=True, check=True
    ).stdout
    assert log.startswith(b"base\n") and SECRET.encode() not in log
    assert not Path("/tmp/execcritic-rows-ran").exists()
    assert prepared(Image(image)).repo == ready.repo


@docker
@pytest.mark.docker
@pytest.mark.slow
def test_an_agent_finds_no_history_in_its_workspace(image: str, cache: Path) -> None:
    ready = prepared(Image(image))
    with places.sandbox(ready.place) as sandbox:
        base = bases.snapshot(Path(ready.repo), places.store())
        site = open_site(base, sandbox, EnvironmentSpec(image=image), cache=cache)
        with sandbox.open(site.workspace({}), Limits(seconds=60)) as session:
            said = session.act(LOOK, 60).output.decode()
    assert "good = 1" in said and "built = True" in said and "lib.py" in said
    assert "gone.py" not in said
    history_free(said)


def test_an_agent_finds_no_history_of_a_checkout(tmp_path: Path, cache: Path) -> None:
    """The user's checkout has one, and the sandbox on this machine has it too."""
    repo = tmp_path / "repo"
    (repo / "pkg").mkdir(parents=True)
    (repo / "vendor").mkdir()
    for text in (f"good = 2  # {SECRET}\n", "good = 1\n"):
        (repo / "pkg/a.py").write_text(text)
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        for arguments in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", f"--message={SECRET}"]):
            subprocess.run(["git", "-C", repo, *who, *arguments], check=True, capture_output=True)
    ready = prepared(Checkout(str(repo)))
    assert ready == Prepared(str(repo), Place())
    best, _ = registry.best()
    if best is None or best.name != "bubblewrap":
        pytest.skip("bubblewrap does not work here")
    base = bases.snapshot(repo, Store(tmp_path / "store"))
    site = open_site(base, best, EnvironmentSpec(), cache=cache)
    with best.open(site.workspace({}), Limits(seconds=60)) as session:
        said = session.act(LOOK, 60).output.decode()
    assert "good = 1" in said
    history_free(said)


def history_free(said: str) -> None:
    """No git directory anywhere, so git has nothing to say of any commit; and no file with what comes later."""
    assert SECRET not in said
    assert not [line for line in said.splitlines() if line.endswith("/.git") or line.startswith("commit ")]


@docker
@pytest.mark.docker
@pytest.mark.slow
def test_what_the_instance_changes_and_hides(image: str) -> None:
    source = Image(image, base_patch=BUG, hidden=("tests/test_a.py",))
    repo = Path(prepared(source).repo)
    assert (repo / "pkg/a.py").read_text() == "bad = 1\n"
    assert not (repo / "tests").exists()
    gold = with_tests(Gold("x", b"", b"", ("tests/test_a.py::test_a",)), source)
    assert b"+++ b/tests/test_a.py\n" in gold.test_patch and b"a.py b/pkg" not in gold.test_patch
    assert with_tests(gold, Image(image)) == gold
    with pytest.raises(PatchError, match=f"What the instance changes in image {image} cannot be applied"):
        prepared(Image(image, base_patch=BUG.replace(b"good", b"else")))
    with pytest.raises(EnvironmentFailure, match=r"has no tests/none\.py"):
        prepared(Image(image, hidden=("tests/none.py",)))


@docker
@pytest.mark.docker
def test_images_that_cannot_be_used() -> None:
    with pytest.raises(EnvironmentFailure, match="The engine has no image execcritic/nowhere:1"):
        prepared(Image("execcritic/nowhere:1"))
    with pytest.raises(EnvironmentFailure, match=r"Image .* has no /testbed"):
        prepared(Image(IMAGE))
    with pytest.raises(EnvironmentFailure, match=r"lies in /app; only one in /testbed"):
        prepared(Image(IMAGE, "/app"))


def test_a_folder_that_is_not_there() -> None:
    with pytest.raises(EnvironmentFailure, match="There is no folder /nowhere"):
        prepared(Checkout("/nowhere"))
    assert prepared(Checkout("https://example.org/r.git", "v1"), "pytest").ref == "v1"
