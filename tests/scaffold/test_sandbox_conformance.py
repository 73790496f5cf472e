"""What every sandbox must do, tried on all of them with real commands (docs: sandbox/protocol.py).

docker runs where EXECCRITIC_TEST_IMAGE names an image of a reachable engine that has Python, bash and coreutils.
`test_as_an_ordinary_user` runs this file again under another user id when the tests run as root.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from execcritic_scaffold.errors import EnvironmentFailure, SandboxError, UsageError
from execcritic_scaffold.files import EXECUTABLE, SYMLINK, Entry, File
from execcritic_scaffold.sandbox.protocol import ActionResult, Command, Completed, Limits, Prepared, Sandbox, Workspace
from execcritic_scaffold.sandbox.registry import best, get

BASE: Mapping[str, File] = {
    "pkg/__init__.py": File(b"value = 1\n"),
    "pkg/only/one.txt": File(b"alone\n"),
    "run.sh": File(b"#!/bin/sh\necho ran\n", EXECUTABLE),
    "link": File(b"pkg/__init__.py", SYMLINK),
    "data/latin-\udce9.bin": File(b"\x00\xff\r\n"),
    "tests/test_it.py": File(b"def test_it(): pass\n"),
}
LIMITS = Limits(seconds=30, output=1 << 20, memory=512 << 20, processes=128, disk=64 << 20)
ENGINES = [
    pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    "local",
    pytest.param("docker", marks=pytest.mark.docker),
]


@dataclass(frozen=True)
class Box:
    """A sandbox with BASE prepared in it."""

    sandbox: Sandbox
    prepared: Prepared

    def sh(self, script: str, limits: Limits = LIMITS, *, audit: bool = False, **more: object) -> Completed:
        """Run a bash script; `more` are fields of Workspace and Command."""
        workspace = Workspace(self.prepared, **{k: more.pop(k) for k in ("changes", "readonly") if k in more})  # type: ignore[arg-type]
        network = bool(more.pop("network", False))
        command = Command(["bash", "-c", script], **more)  # type: ignore[arg-type]
        return self.sandbox.run(workspace, command, limits, network=network, audit=audit)

    def python(self, script: str, limits: Limits = LIMITS, **more: object) -> Completed:
        workspace = Workspace(self.prepared)
        argv = [self.prepared.interpreter.python, "-c", script]
        return self.sandbox.run(workspace, Command(argv, **more), limits)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=ENGINES)
def box(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    name, image = request.param, None
    if name == "docker":
        image = os.environ.get("EXECCRITIC_TEST_IMAGE")
        if not image:
            pytest.skip("EXECCRITIC_TEST_IMAGE names no image")
    sandbox = get(name)
    if problem := sandbox.probe():
        pytest.skip(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXECCRITIC_CACHE", str(tmp_path_factory.mktemp("cache")))
        interpreter = sandbox.inspect(None if image else sys.executable, image)
        yield Box(sandbox, sandbox.prepare(uuid.uuid4().hex, lay(tmp_path_factory.mktemp("source")), interpreter))
        sandbox.close()


@pytest.fixture
def isolating(box: Box) -> Box:
    if not box.sandbox.isolates:
        pytest.skip("the local sandbox isolates nothing, and says so")
    return box


def lay(root: Path) -> Path:
    for path, file in BASE.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.mode == SYMLINK:
            target.symlink_to(os.fsdecode(file.data))
        else:
            target.write_bytes(file.data)
            target.chmod(0o755 if file.mode == EXECUTABLE else 0o644)
    (root / "pkg" / "__pycache__").mkdir()
    (root / "pkg" / "__pycache__" / "forged.cpython-311.pyc").write_bytes(b"not ours")
    return root


def marker() -> str:
    """An argument for `sleep` by which its process can be found."""
    return f"{10**6 + uuid.uuid4().int % 10**9}"


def pids(mark: str, *, sleeping: bool = False) -> list[int]:
    """Processes of this machine that have `mark` among their arguments, or those only that are `sleep MARK`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")[:-1]
        except OSError:
            continue
        if words == [b"sleep", mark.encode()] or (mark.encode() in words and not sleeping):
            found.append(int(path.parent.name))
    return found


def gone(mark: str) -> bool:
    """True as soon as no process with `mark` is left; False when one still is after 5 s."""
    deadline = time.monotonic() + 5
    while pids(mark):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def appeared(mark: str, count: int) -> bool:
    """True as soon as `count` times `sleep MARK` runs; False when they do not within 5 s."""
    deadline = time.monotonic() + 5
    while len(pids(mark, sleeping=True)) != count:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def git_id(data: bytes) -> str:
    done = subprocess.run(
        ["git", "hash-object", "--no-filters", "--stdin"], input=data, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def as_git(files: Mapping[str, File]) -> dict[str, Entry]:
    return {path: Entry(file.mode, git_id(file.data)) for path, file in files.items()}


def sources(found: Mapping[str, Entry]) -> dict[str, Entry]:
    return {path: entry for path, entry in found.items() if "__pycache__" not in path}


class TestRun:
    """One-shot commands."""

    @pytest.mark.parametrize("code", [0, 1, 3, 127])
    def test_exit_code(self, box: Box, code: int) -> None:
        done = box.sh(f"exit {code}")
        assert (done.exit_code, done.timed_out, done.out_of_memory, done.left_behind) == (code, False, False, 0)

    def test_death_by_signal(self, box: Box) -> None:
        done = box.sh("kill -9 $$")
        assert (done.exit_code, done.stderr) == (-9, b"")

    def test_missing_program(self, box: Box) -> None:
        done = box.sandbox.run(Workspace(box.prepared), Command(["no-such-program"]), LIMITS)
        assert done.exit_code == 127
        assert b"no-such-program" in done.stderr

    def test_streams_are_bytes_and_apart(self, box: Box) -> None:
        done = box.sh(r"printf 'a\xff\r\n\0'; printf '\xe9' >&2")
        assert (done.stdout, done.stderr) == (b"a\xff\r\n\0", b"\xe9")

    def test_stdin(self, box: Box) -> None:
        data = bytes(range(256)) * 2048
        assert box.sh("cat", stdin=data).stdout == data
        assert box.sh("read x; echo $?").stdout == b"1\n"
        assert box.sh("exit 4", stdin=data).exit_code == 4

    def test_directory_and_environment(self, box: Box) -> None:
        done = box.sh("cat __init__.py; echo $MORE", cwd="pkg", env={"MORE": "x y"})
        assert done.stdout == b"value = 1\nx y\n"

    def test_interpreter_is_the_one_inspected_and_imports_the_workspace(self, box: Box) -> None:
        done = box.python("import sys, pkg; print(sys.executable, pkg.value)")
        assert done.stdout.decode().split() == [box.prepared.interpreter.python, "1"], done.stderr

    def test_output_is_capped_at_head_and_tail(self, box: Box) -> None:
        limits = replace(LIMITS, output=1000)
        done = box.sh("echo first; yes | head -c 50000000; echo last; echo err >&2", limits)
        assert done.stdout.startswith(b"first\n") and done.stdout.endswith(b"last\n")
        assert len(done.stdout) == 1000
        assert done.dropped == (50_000_000 + 11 - 1000, 0)
        assert done.stderr == b"err\n"

    def test_time_limit_ends_everything(self, box: Box) -> None:
        mark = marker()
        done = box.sh(
            f"trap '' TERM; setsid sleep {mark} & (setsid nohup sleep {mark} >/dev/null 2>&1 &); echo on; sleep {mark}",
            replace(LIMITS, seconds=0.7),
        )
        assert (done.exit_code, done.timed_out, done.stdout) == (None, True, b"on\n")
        assert gone(mark)

    def test_what_is_left_behind_is_counted_and_ended(self, box: Box) -> None:
        mark = marker()
        done = box.sh(f"sleep {mark} & (setsid sleep {mark} &) ; echo done")
        assert (done.exit_code, done.stdout, done.left_behind) == (0, b"done\n", 2)
        assert gone(mark)

    def test_workspace_is_fresh_and_base_untouched(self, box: Box) -> None:
        first = box.sh("echo new > new; echo changed > pkg/__init__.py; rm -r tests; chmod +x link")
        assert first.exit_code == 0, first.stderr
        second = box.sh("ls; cat pkg/__init__.py; ls ~ $TMPDIR | wc -l")
        assert second.stdout.split() == [b"data", b"link", b"pkg", b"run.sh", b"tests", b"value", b"=", b"1", b"3"]

    def test_only_our_byte_code(self, box: Box) -> None:
        done = box.sh("find . -name '*.pyc'")
        names = {Path(os.fsdecode(line)).name.partition(".")[0] for line in done.stdout.split()}
        assert names == {"__init__", "test_it"}
        # Bits 0 and 1 of the flags: checked hash (PEP 552).
        assert box.sh("od -An -tu1 -j4 -N1 pkg/__pycache__/*.pyc").stdout.split() == [b"3"]

    def test_stale_byte_code_never_runs(self, box: Box) -> None:
        changes = {"pkg/__init__.py": File(b"value = 2\n")}
        assert (
            box.sh(f"{box.prepared.interpreter.python} -c 'import pkg; print(pkg.value)'", changes=changes).stdout
            == b"2\n"
        )

    def test_changes(self, box: Box) -> None:
        changes = {
            "new/deep/file.txt": File(b"\xff\n"),
            "pkg/__init__.py": File(b"value = 2\n"),
            "pkg/only/one.txt": None,
            "run.sh": File(b"#!/bin/sh\necho ran\n"),
            "tool": File(b"#!/bin/sh\necho tool\n", EXECUTABLE),
            "pointer": File(b"new/deep", SYMLINK),
            "link": None,
            "link/below": File(b"was a link\n"),
            "data/latin-\udce9.bin": None,
            "data": File(b"was a directory\n"),
        }
        done = box.sh(
            "find . -name __pycache__ -prune -o -printf '%p %y\n' | sort; ./tool; test -x run.sh || echo plain;"
            "cat pointer/file.txt link/below data pkg/__init__.py; echo >> tool && echo >> new/x && echo writable",
            changes=changes,
        )
        assert done.stdout == (
            b". d\n./data f\n./link d\n./link/below f\n./new d\n./new/deep d\n./new/deep/file.txt f\n./pkg d\n"
            b"./pkg/__init__.py f\n./pointer l\n./run.sh f\n./tests d\n./tests/test_it.py f\n./tool f\n"
            b"tool\nplain\n\xff\nwas a link\nwas a directory\nvalue = 2\nwritable\n"
        ), done.stderr

    @pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../b", ".git/config", "a//b", ""])
    def test_changes_outside_the_workspace_are_refused(self, box: Box, path: str) -> None:
        with pytest.raises(UsageError):
            box.sh("true", changes={path: File(b"x")})

    def test_audit_lists_what_was_written(self, box: Box) -> None:
        done = box.sh(
            "echo > pkg/new; echo > pkg/__init__.py; rm run.sh; rm -r tests; mkdir tests; echo > tests/other;"
            "echo > ~/note; echo > $TMPDIR/free; cat link >/dev/null",
            audit=True,
        )
        assert done.writes is not None
        wanted = {"pkg/new", "pkg/__init__.py", "run.sh", "tests/other", "~/note"}
        assert wanted <= set(done.writes), done.stderr
        assert {path.partition("/")[0] for path in done.writes} == {"pkg", "run.sh", "tests", "~"}

    def test_audit_of_a_command_that_writes_nothing(self, box: Box) -> None:
        assert box.sh("cat run.sh", audit=True).writes == ()
        assert box.sh("cat run.sh").writes is None


class TestIsolation:
    """What docker and bubblewrap keep out."""

    def test_frozen_files_stay_what_they_are(self, isolating: Box) -> None:
        frozen = {"tests/frozen/test_new.py": File(b"assert 1\n")}
        done = isolating.sh(
            "exec 2>/dev/null; cd tests\n"
            "echo x > frozen/test_new.py || echo a; rm -f frozen/test_new.py || echo b\n"
            "mv frozen/test_new.py y || echo c\n"
            "chmod 777 frozen/test_new.py || echo d; mv frozen gone || echo e; mv ../tests ../gone || echo f\n"
            "ln -f /dev/null frozen/test_new.py || echo g; rm -rf frozen || echo h; rm -f test_it.py || echo i\n"
            "cat frozen/test_new.py test_it.py; echo > frozen/beside && echo > ../pkg/other && echo free",
            changes=frozen,
            readonly=frozenset({"tests/frozen/test_new.py", "tests/test_it.py"}),
        )
        assert done.stdout == b"a\nb\nc\nd\ne\nf\ng\nh\ni\nassert 1\ndef test_it(): pass\nfree\n"

    def test_nothing_of_the_host_is_seen(self, isolating: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("EXECCRITIC_CANARY", "secret-canary")
        secret = tmp_path / "secret"
        secret.write_text("secret-canary")
        done = isolating.sh(
            f"env; cat {secret} {os.environ['HOME']}/secret /etc/shadow /proc/[0-9]*/environ /root/.ssh/* 2>/dev/null;"
            f"ls -d /run/docker.sock /var/run/docker.sock {Path(__file__).parent} /home/* 2>/dev/null"
        )
        assert b"secret-canary" not in done.stdout
        assert b"docker.sock" not in done.stdout and os.fsencode(Path(__file__).parent) not in done.stdout
        names = {line.partition(b"=")[0] for line in done.stdout.splitlines() if b"=" in line}
        assert not {n for n in names if n.startswith((b"EXECCRITIC", b"PIP_", b"VIRTUAL_ENV", b"XDG", b"PYTHONPATH"))}

    def test_network(self, isolating: Box) -> None:
        import socket

        with socket.create_server(("127.0.0.1", 0)) as server:
            script = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo connected"
            assert isolating.sh(script).stdout == b""
            assert isolating.sh("cat /proc/net/dev | grep -c :").stdout == b"1\n"
            if isolating.sandbox.name == "bubblewrap":
                assert isolating.sh(script, network=True).stdout == b"connected\n"

    def test_system_is_read_only(self, isolating: Box) -> None:
        script = "for d in / /etc /usr /usr/bin /opt /opt/execcritic /proc/sys/kernel; do echo > $d/x; done; echo end"
        assert isolating.sh(f"({script}) 2>/dev/null; ls /x /etc/x /opt/execcritic/x 2>/dev/null").stdout == b"end\n"

    def test_no_privileges(self, isolating: Box) -> None:
        done = isolating.sh(
            "id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status; unshare -Ur true || echo no"
        )
        words = done.stdout.split()
        assert words[0] != b"0" and words[-1] == b"no"
        found = dict(zip(words[1:-1:2], words[2:-1:2], strict=True))
        assert found == {b"CapEff:": b"0" * 16, b"CapBnd:": b"0" * 16, b"NoNewPrivs:": b"1"}

    def test_root_is_not_root_outside(self, isolating: Box) -> None:
        if os.geteuid() != 0:
            pytest.skip("the tests do not run as root")
        mark = marker()
        with isolating.sandbox.open(Workspace(isolating.prepared), LIMITS) as session:
            session.act(f"sleep {mark} &", 5)
            assert appeared(mark, 1)
            (pid,) = pids(mark)
            status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
            assert status["Uid"].split() == ["65534"] * 4
        assert gone(mark)

    def test_memory(self, isolating: Box) -> None:
        done = isolating.python("x = b'x' * (900 << 20); print('had it')")
        assert done.exit_code != 0 and done.stdout == b""
        assert done.out_of_memory or b"MemoryError" in done.stderr

    def test_memory_of_many_processes(self, isolating: Box) -> None:
        """A limit for each process is not enough: eight of them hold 150 MB each."""
        one = "x = bytearray(b'x') * (150 << 20); import time; time.sleep(2); print('had it')"
        done = isolating.sh(
            f'for i in 1 2 3 4 5 6 7 8; do {isolating.prepared.interpreter.python} -c "{one}" & done; wait'
        )
        assert done.stdout.count(b"had it") < 8
        assert done.out_of_memory

    def test_fork_bomb(self, isolating: Box) -> None:
        mark = marker()
        done = isolating.python(
            "import os\nn = 0\ntry:\n while n < 1000:\n"
            f"  if os.fork() == 0: os.execlp('sleep', 'sleep', '{mark}')\n"
            "  n += 1\nexcept BlockingIOError: pass\nprint(n)",
        )
        assert 16 < int(done.stdout) <= LIMITS.processes, done.stderr
        assert gone(mark)

    @pytest.mark.parametrize("where", [".", "~", "/tmp"])
    def test_disk(self, isolating: Box, where: str) -> None:
        done = isolating.sh(f"head -c 100000000 /dev/zero > {where}/fill; stat -c %s {where}/fill")
        if "disk" in done.unenforced and where == ".":
            pytest.skip("this sandbox cannot limit the workspace here, and says so")
        assert int(done.stdout) <= LIMITS.disk

    def test_every_limit_is_enforced_for_root(self, isolating: Box) -> None:
        if os.geteuid() != 0 or isolating.sandbox.name != "bubblewrap":
            pytest.skip("concerns bubblewrap as root")
        assert isolating.sh("true").unenforced == ()


class TestSession:
    """What an agent works in."""

    def test_directory_and_variables_persist(self, box: Box) -> None:
        with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
            assert session.act("pwd", 5).output.decode() == session.workdir + "\n"
            session.act("cd pkg; export A='x\ny \"$z\"' B=\u00e9; C=3", 5)
            done = session.act('pwd; echo "$A$B$C"; cd - >/dev/null; unset B; exit 7', 5)
            assert done.output.decode() == f'{session.workdir}/pkg\nx\ny "$z"\u00e9\n'
            assert done.exit_code == 7
            assert session.act("pwd; echo ${B-unset}; echo $OLDPWD", 5).output.decode() == (
                f"{session.workdir}\nunset\n{session.workdir}/pkg\n"
            )
            session.act("mkdir gone; cd gone; rmdir ../gone", 5)
            assert session.act("ls run.sh", 5).output.endswith(b"run.sh\n")

    def test_environment_is_ours(self, box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("EXECCRITIC_CANARY", "secret-canary")
        with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
            lines = session.act("env", 5).output.decode().splitlines()
        variables = dict(line.split("=", 1) for line in lines)
        wanted = {"LANG": "C.UTF-8", "PAGER": "cat", "GIT_PAGER": "cat", "EDITOR": "true", "GIT_EDITOR": "true"}
        assert wanted.items() <= variables.items()
        assert (variables["TERM"], variables["PYTHONDONTWRITEBYTECODE"]) == ("dumb", "1")
        assert set(variables) <= set(wanted) | {
            "PATH", "HOME", "PWD", "OLDPWD", "SHLVL", "_", "TERM", "TMPDIR", "VISUAL", "MANPAGER",
            "PYTHONDONTWRITEBYTECODE",
        }  # fmt: skip

    def test_results(self, box: Box) -> None:
        with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
            assert session.act("echo out; echo err >&2; printf '\\xff'; false", 5).output == b"out\nerr\n\xff"
            assert session.act("kill -9 $$", 5).exit_code == -9
            assert session.act("read x; echo $?", 5).output == b"1\n"
            assert session.act("if; then", 5).exit_code == 2
            assert session.act("nosuch", 5).output == b"bash: line 1: nosuch: command not found\n"
            large = "cat > big <<'EOF'\n" + "x" * 300_000 + "\nEOF\nwc -c < big"
            assert session.act(large, 5).output == b"300001\n"
            capped = session.act("yes | head -c 30000000; echo last", 20, output=1000)
            assert (len(capped.output), capped.dropped) == (1000, 30_000_005 - 1000)
            assert capped.output.endswith(b"last\n")

    def test_time_limit_ends_the_tree_and_spares_earlier_jobs(self, box: Box) -> None:
        early, late = marker(), marker()
        with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
            session.act(f"sleep {early} &", 5)
            done = session.act(
                f"trap '' TERM; (setsid sleep {late} &); setsid sleep {late} & echo on; sleep {late}", 0.5
            )
            assert (done.exit_code, done.timed_out, done.output) == (None, True, b"on\n")
            assert gone(late)
            assert appeared(early, 1)
            assert session.act("echo alive", 5).output == b"alive\n"
        assert gone(early)

    def test_background_jobs_do_not_block(self, box: Box) -> None:
        mark = marker()
        with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
            assert session.act(f"sleep {mark} & (while echo noise; do sleep 0.01; done) & echo done", 20).seconds < 10
            assert session.act("sleep 0.3; jobs; echo next", 20).output == b"next\n"
        assert gone(mark)

    def test_files(self, box: Box) -> None:
        with box.sandbox.open(Workspace(box.prepared, {"laid": File(b"1\n")}), LIMITS) as session:
            wanted = as_git({**BASE, "laid": File(b"1\n")})
            assert sources(session.manifest()) == wanted
            session.act("mkdir -p sub/.git .git; echo x > sub/inside; echo y > .git/config; mkfifo pipe; git init", 5)
            session.act("printf 'a\\r\\n' > 'new name'; chmod 755 'new name'; chmod 000 laid; ln -s /etc/passwd out", 5)
            listed = sources(session.manifest())
            assert listed.pop("sub").mode == "160000"
            more = {"new name": File(b"a\r\n", EXECUTABLE), "out": File(b"/etc/passwd", SYMLINK)}
            assert listed == wanted | as_git(more)
            assert session.read("new name") == b"a\r\n"
            assert session.read("out") == b"/etc/passwd"
            assert session.read("data/latin-\udce9.bin") == b"\x00\xff\r\n"

    @pytest.mark.parametrize("path", ["nothing", "pkg", "../etc/passwd", "/etc/passwd", "evil/passwd", "pkg/x/y"])
    def test_reading_what_is_no_workspace_file(self, box: Box, path: str) -> None:
        with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
            session.act("ln -s /etc evil", 5)
            with pytest.raises(FileNotFoundError):
                session.read(path)

    def test_writing(self, box: Box) -> None:
        with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
            session.act("ln -s /tmp evil", 5)
            session.write(
                {
                    "evil/file": File(b"stays inside\n"),
                    "pkg/only/one.txt": None,
                    "nowhere/at/all": None,
                    "data": File(b"was a directory\n"),
                    "data/latin-\udce9.bin": None,
                    "run.sh": File(b"#!/bin/sh\n", EXECUTABLE),
                    "link": File(b"run.sh", SYMLINK),
                    "tests/test_it.py": None,
                    "tests/test_it.py/now": File(b"a directory"),
                }
            )
            wanted = {
                "pkg/__init__.py": BASE["pkg/__init__.py"],
                "evil/file": File(b"stays inside\n"),
                "data": File(b"was a directory\n"),
                "run.sh": File(b"#!/bin/sh\n", EXECUTABLE),
                "link": File(b"run.sh", SYMLINK),
                "tests/test_it.py/now": File(b"a directory"),
            }
            assert sources(session.manifest()) == as_git(wanted)
            assert session.act("ls /tmp/file; ls -d pkg/only", 5).exit_code != 0
            with pytest.raises(SandboxError, match="workspace"):
                session.write({"../outside": File(b"x")})
            assert session.act("echo alive", 5).output == b"alive\n"

    def test_same_size_edits_are_noticed(self, box: Box) -> None:
        with box.sandbox.open(Workspace(box.prepared), LIMITS) as session:
            for value in range(10):
                session.act(f"printf {value} > quick; touch -d @1 quick", 5)
                assert session.manifest()["quick"] == Entry("100644", git_id(b"%d" % value))

    def test_a_dead_session_is_an_error(self, box: Box) -> None:
        session = box.sandbox.open(Workspace(box.prepared), LIMITS)
        session.close()
        session.close()
        with pytest.raises(SandboxError):
            session.act("true", 5)

    def test_the_runner_survives_what_runs_in_it(self, isolating: Box) -> None:
        """A command may not end the session, nor write answers in the runner's place."""
        with isolating.sandbox.open(Workspace(isolating.prepared), LIMITS) as session:
            done: ActionResult = session.act("kill -9 -1; kill -TERM -1; kill -9 1; kill -9 $PPID; echo still here", 5)
            assert done.output.endswith(b"still here\n")
            session.act("for fd in /proc/1/fd/* /proc/$PPID/fd/*; do echo forged > $fd; done", 5)
            assert session.act("echo mine", 5).output == b"mine\n"

    def test_fork_bomb_does_not_end_the_session(self, isolating: Box) -> None:
        mark = marker()
        with isolating.sandbox.open(Workspace(isolating.prepared), LIMITS) as session:
            session.act(f"while true; do sleep {mark} & done 2>/dev/null", 3)
            assert gone(mark)
            assert session.act("echo alive", 10).output == b"alive\n"


class TestBuild:
    """Set-up commands: a stranger's code, run once."""

    def test_result_is_used_read_only_and_cached(
        self, box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("EXECCRITIC_CANARY", "secret-canary")
        log = tmp_path / "logs" / "setup.log"
        install = "import sysconfig as s; open(s.get_path('purelib') + '/built.py', 'w').write('value = 5')"
        commands = [
            "echo generated > made.txt; rm pkg/only/one.txt; mkdir -p .git; echo > .git/config",
            f'python3 -c "{install}"; env; echo "given: $GIVEN"; id -u',
        ]
        built = box.sandbox.build(box.prepared, commands, {"GIVEN": "yes"}, log, replace(LIMITS, seconds=120))
        assert built.changes == {"made.txt": File(b"generated\n"), "pkg/only/one.txt": None}
        said = log.read_bytes()
        assert b"given: yes" in said and b"secret-canary" not in said
        log.unlink()
        again = box.sandbox.build(box.prepared, commands, {"GIVEN": "yes"}, log, replace(LIMITS, seconds=120))
        assert again == built
        assert built.interpreter.digest != box.prepared.interpreter.digest
        prepared = replace(box.prepared, interpreter=built.interpreter)
        if built.interpreter.image:
            prepared = box.sandbox.prepare(uuid.uuid4().hex, lay(tmp_path / "source"), built.interpreter)
        used = Box(box.sandbox, prepared)
        assert used.python("import built; print(built.value)").stdout == b"5\n"
        if box.sandbox.isolates:
            done = used.python("import built; open(built.__file__, 'w')")
            assert done.exit_code == 1 and b"Error: [Errno" in done.stderr

    def test_failure_quotes_the_output(self, box: Box, tmp_path: Path) -> None:
        commands = ["echo before", "echo the reason >&2; false; echo not reached"]
        with pytest.raises(EnvironmentFailure, match="the reason"):
            box.sandbox.build(box.prepared, commands, {}, tmp_path / "log", replace(LIMITS, seconds=120))
        assert b"not reached" not in (tmp_path / "log").read_bytes().replace(b"echo not reached", b"")


class TestInspect:
    """Interpreters on the host; docker looks in its image instead."""

    @pytest.mark.parametrize("name", ["/nonexistent/python", "no-such-python", "/etc/passwd", "/bin/true", "/bin/sh"])
    def test_what_is_no_python(self, name: str) -> None:
        with pytest.raises(EnvironmentFailure, match="--python"):
            get("local").inspect(name, None)

    def test_images_are_for_docker(self) -> None:
        for name in ("local", "bubblewrap"):
            with pytest.raises(UsageError, match="docker"):
                get(name).inspect(None, "image")

    def test_a_link_elsewhere_and_an_editable_install(self, box: Box, tmp_path: Path) -> None:
        """A link in a folder that is not mounted runs; a folder that a .pth file names is not mounted."""
        if box.sandbox.name == "docker":
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

    def test_digest_names_no_paths(self, tmp_path: Path) -> None:
        digests = set()
        for name in ("one", "two"):
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / name], check=True)
            digests.add(get("local").inspect(str(tmp_path / name / "bin" / "python"), None).digest)
        assert len(digests) == 1


def test_prepare_is_cached_and_safe_at_once(box: Box, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    if box.sandbox.name == "docker":
        pytest.skip("docker's own tests cover its images")
    tree, source = uuid.uuid4().hex, lay(tmp_path / "s")
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: box.sandbox.prepare(tree, source, box.prepared.interpreter), range(4)))
    assert len(set(made)) == 1
    assert not list(Path(str(made[0].directory)).parent.glob(".*"))
    (source / "run.sh").unlink()
    again = box.sandbox.prepare(tree, source, box.prepared.interpreter)
    assert again == made[0] and (Path(str(again.directory)) / "run.sh").exists()


LIVES = """
import os, sys
from pathlib import Path
from execcritic_scaffold.sandbox.protocol import *
from execcritic_scaffold.sandbox.registry import get
name, directory, tree, key, python, digest, binds, mark = sys.argv[1:]
mark = mark[1:]  # or this process would be found by it too
made = Interpreter(python, digest, binds=tuple(filter(None, binds.split(":"))))
sandbox, workspace = get(name), Workspace(Prepared(tree, key, made, Path(directory)))
session = sandbox.open(workspace, Limits(seconds=60))
session.act("mkdir -p a/b; chmod 000 a; (setsid sleep %s &)" % mark, 5)
print("open", flush=True)
if sys.stdin.read(1):
    session.close()
else:
    sandbox.run(workspace, Command(["sleep", mark]), Limits(seconds=60))
"""


def traces(pid: int) -> list[Path]:
    """What a process of ours with this id keeps outside its sandboxes: directories and control groups."""
    groups = [Path(d) for d, _, _ in os.walk("/sys/fs/cgroup") if f"-{pid}-" in d]
    return groups + [p for d in {tempfile.gettempdir(), "/tmp"} for p in Path(d).glob(f"execcritic-*-{pid}-*")]


@pytest.mark.parametrize("end", ["close", "kill"])
def test_nothing_outlives_the_process(box: Box, end: str) -> None:
    """Neither a clean end nor SIGKILL leaves a process; what SIGKILL leaves on disk goes with the next start."""
    if box.sandbox.name == "docker":
        pytest.skip("docker's own tests cover its containers")
    mark, made = marker(), box.prepared.interpreter
    facts = [str(box.prepared.directory), box.prepared.tree, box.prepared.key, made.python, made.digest]
    argv = [sys.executable, "-c", LIVES, box.sandbox.name, *facts, ":".join(made.binds), f"m{mark}"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdin and process.stdout
        try:
            assert process.stdout.readline() == b"open\n"
            assert appeared(mark, 1) and traces(process.pid)
            if end == "close":
                process.communicate(b"x", timeout=20)
            else:
                process.stdin.close()
                assert appeared(mark, 2)
        finally:
            process.kill()
    assert gone(mark)
    get(box.sandbox.name)
    assert traces(process.pid) == []
    assert "execcritic" not in Path("/proc/self/mounts").read_text()


@pytest.mark.bubblewrap
@pytest.mark.slow
def test_as_an_ordinary_user(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    uid, root = 61234, Path(__file__).parents[2]
    home = Path("/tmp", f"execcritic-user-{uuid.uuid4().hex[:8]}")
    packages = next(p for p in map(Path, sys.path) if (p / "pytest" / "__init__.py").exists())
    drop = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "env", "-i"]
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    path = [str(packages), *(str(root / part) for part in ("scaffold", "."))]
    env = [f"HOME={home}", f"TMPDIR={home}/tmp", f"EXECCRITIC_CACHE={home}/cache", f"PYTHONPATH={':'.join(path)}",
           "PATH=/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1"]  # fmt: skip
    test = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        "bubblewrap or local",
        "--rootdir",
        str(root),
        __file__,
    ]
    try:
        (home / "tmp").mkdir(parents=True)
        for directory in (home, home / "tmp"):
            os.chown(directory, uid, uid)
        for python in (sys.executable, f"/usr/local/bin/{version}", f"/usr/bin/{version}"):
            trial = subprocess.run(
                [*drop, *env, python, "-c", "import pytest, execcritic_scaffold"], capture_output=True
            )
            if trial.returncode == 0:
                break
        else:
            pytest.skip(f"user {uid} can run no {version} that sees the checkout and pytest")
        done = subprocess.run([*drop, *env, python, *test, __file__], cwd=home, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
        assert "passed" in done.stdout and "bubblewrap" not in done.stdout
    finally:
        subprocess.run(["rm", "-rf", str(home)], check=True)


class TestRegistry:
    def test_unknown_names(self) -> None:
        for name in ("nosuch", "no.such.module:Thing", "execcritic_scaffold.sandbox.local:Nothing"):
            with pytest.raises(UsageError, match="bubblewrap"):
                get(name)

    def test_dotted_path(self) -> None:
        assert get("execcritic_scaffold.sandbox.local:Local").name == "local"

    @pytest.mark.bubblewrap
    def test_best(self) -> None:
        sandbox, problems = best()
        assert sandbox is not None and sandbox.isolates, problems
