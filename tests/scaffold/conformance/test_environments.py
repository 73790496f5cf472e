"""Interpreters, prepared Bases and set-up commands."""

from __future__ import annotations

import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from execcritic_scaffold.errors import EnvironmentFailure, UsageError
from execcritic_scaffold.files import SYMLINK, File
from execcritic_scaffold.sandbox.registry import get
from tests.scaffold.conformance.boxes import (
    LIMITS,
    Box,
    lay,
)

LINK = File(b"pkg/only", SYMLINK)


@pytest.mark.parametrize("name", ["/nonexistent/python", "no-such-python", "/etc/passwd", "/bin/true", "/bin/sh"])
def test_what_is_no_python(name: str) -> None:
    with pytest.raises(UsageError, match="--python"):
        get("local").inspect(name, None)


def test_images_are_for_docker() -> None:
    for name in ("local", "bubblewrap"):
        with pytest.raises(UsageError, match="docker"):
            get(name).inspect(None, "image")


def test_a_link_elsewhere_and_an_editable_install(box: Box, tmp_path: Path) -> None:
    """A link in a folder that is not mounted runs; a folder that a .pth file names is not mounted."""
    if box.prepared.image:
        pytest.skip("concerns interpreters on the host")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "leaked.py").write_text("")
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (packages / "editable.pth").write_text(f"{checkout}\n")
    (tmp_path / "python").symlink_to(tmp_path / "venv" / "bin" / "python")
    plain = box.sandbox.inspect(str(tmp_path / "venv" / "bin" / "python"), None)
    assert str(tmp_path / "venv") in plain.binds and str(checkout) not in plain.binds
    linked = box.sandbox.inspect(str(tmp_path / "python"), None)
    for made in (plain, linked):
        used = Box(box.sandbox, box.sandbox.prepare(uuid.uuid4().hex, lay(tmp_path / uuid.uuid4().hex), made))
        assert used.python("import sys; print(sys.executable)").stdout.decode().strip() == made.python
        if box.sandbox.isolates:
            assert b"ModuleNotFoundError" in used.python("import leaked").stderr


@pytest.mark.bubblewrap
@pytest.mark.parametrize("what", [".git", ".ssh", "the home", "above the home", "below a repository"])
def test_no_home_and_no_repository_is_shown(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual environment made in place would show a sandbox all that lies beside it."""
    folder = tmp_path / "checkout" / (".venv" if what == "below a repository" else "")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    if what == "below a repository":
        what = ".git"
    if what.startswith("."):
        (tmp_path / "checkout" / what).mkdir()
    else:
        monkeypatch.setenv("HOME", str(folder / "someone") if what.startswith("above") else str(folder))
    python = str(folder / "bin" / "python")
    if folder.name == ".venv":
        assert str(folder) in get("bubblewrap").inspect(python, None).binds
    else:
        with pytest.raises(EnvironmentFailure, match="name its Python with --python"):
            get("bubblewrap").inspect(python, None)


@pytest.mark.bubblewrap
def test_pip_s_configuration_beside_an_interpreter_is_shown_empty(box: Box, tmp_path: Path) -> None:
    if box.sandbox.name != "bubblewrap":
        pytest.skip("concerns what bubblewrap mounts")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (tmp_path / "venv" / "pip.conf").write_text("[global]\nindex-url = https://me:hunter22@h/simple\n")
    made = box.sandbox.inspect(str(tmp_path / "venv" / "bin" / "python"), None)
    used = Box(box.sandbox, box.sandbox.prepare(uuid.uuid4().hex, lay(tmp_path / "source"), made))
    done = used.sh(f"cat {tmp_path}/venv/pip.conf; echo read")
    assert done.stdout == b"read\n"


def test_digest_names_no_paths(tmp_path: Path) -> None:
    digests = set()
    for name in ("one", "two"):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / name], check=True)
        digests.add(get("local").inspect(str(tmp_path / name / "bin" / "python"), None).digest)
    assert len(digests) == 1


def test_prepare_is_cached_and_safe_at_once(box: Box, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    if box.prepared.image:
        pytest.skip("the tests of docker and remote cover what they keep")
    tree, source = uuid.uuid4().hex, lay(tmp_path / "s")
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: box.sandbox.prepare(tree, source, box.prepared.interpreter), range(4)))
    assert len(set(made)) == 1
    assert not list(Path(str(made[0].directory)).parent.glob(".*"))
    (source / "run.sh").unlink()
    again = box.sandbox.prepare(tree, source, box.prepared.interpreter)
    assert again == made[0] and (Path(str(again.directory)) / "run.sh").exists()


def test_result_is_used_read_only_and_cached(box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXECCRITIC_CANARY", "secret-canary")
    log = tmp_path / "logs" / "setup.log"
    install = "import sysconfig as s; open(s.get_path('purelib') + '/built.py', 'w').write('value = 5')"
    commands = [
        "echo generated > made.txt; rm pkg/only/one.txt; mkdir -p .git; echo > .git/config; ln -s pkg/only to-a-folder",
        f'python3 -c "{install}"; env; echo "given: $GIVEN"; id -u',
    ]
    built = box.sandbox.build(box.prepared, commands, {"GIVEN": "yes"}, log, replace(LIMITS, seconds=120))
    assert built.changes == {"made.txt": File(b"generated\n"), "pkg/only/one.txt": None, "to-a-folder": LINK}
    said = log.read_bytes()
    assert b"given: yes" in said and b"secret-canary" not in said
    log.unlink()
    again = box.sandbox.build(box.prepared, commands, {"GIVEN": "yes"}, log, replace(LIMITS, seconds=120))
    assert again == built
    assert log.read_bytes() == said, "the log of what is taken from the cache is kept too"
    assert built.interpreter.digest != box.prepared.interpreter.digest
    prepared = replace(box.prepared, interpreter=built.interpreter)
    if built.interpreter.image:
        prepared = box.sandbox.prepare(uuid.uuid4().hex, lay(tmp_path / "source"), built.interpreter)
    used = Box(box.sandbox, prepared)
    assert used.python("import built; print(built.value)").stdout == b"5\n"
    if box.sandbox.isolates:
        done = used.python("import built; open(built.__file__, 'w')")
        assert done.exit_code == 1 and b"Error: [Errno" in done.stderr


def test_failure_quotes_the_output(box: Box, tmp_path: Path) -> None:
    commands = ["echo before", "echo the reason >&2; false; echo not reached"]
    with pytest.raises(EnvironmentFailure, match=r"ended with 1 at .*: .*the reason; the whole output is in .*--setup"):
        box.sandbox.build(box.prepared, commands, {}, tmp_path / "log", replace(LIMITS, seconds=120))
    assert b"not reached" not in (tmp_path / "log").read_bytes().replace(b"echo not reached", b"")
