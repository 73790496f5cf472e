"""What docker and bubblewrap keep out, and the limits they impose."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from execcritic_scaffold.files import File
from execcritic_scaffold.sandbox.protocol import Workspace
from tests.scaffold.conformance.boxes import (
    LIMITS,
    Box,
    appeared,
    gone,
    marker,
    pids,
)


def test_frozen_files_stay_what_they_are(isolating: Box) -> None:
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


def test_nothing_of_the_host_is_seen(isolating: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_network(isolating: Box) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        script = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo connected"
        assert isolating.sh(script).stdout == b""
        assert isolating.sh("cat /proc/net/dev | grep -c :").stdout == b"1\n"
        if isolating.sandbox.name == "bubblewrap":
            assert isolating.sh(script, network=True).stdout == b"connected\n"


def test_system_is_read_only(isolating: Box) -> None:
    script = "for d in / /etc /usr /usr/bin /opt /opt/execcritic /proc/sys/kernel; do echo > $d/x; done; echo end"
    assert isolating.sh(f"({script}) 2>/dev/null; ls /x /etc/x /opt/execcritic/x 2>/dev/null").stdout == b"end\n"


def test_no_privileges(isolating: Box) -> None:
    done = isolating.sh("id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status; unshare -Ur true || echo no")
    words = done.stdout.split()
    assert words[0] != b"0" and words[-1] == b"no"
    found = dict(zip(words[1:-1:2], words[2:-1:2], strict=True))
    assert found == {b"CapEff:": b"0" * 16, b"CapBnd:": b"0" * 16, b"NoNewPrivs:": b"1"}


def test_root_is_not_root_outside(isolating: Box) -> None:
    if os.geteuid() != 0:
        pytest.skip("the tests do not run as root")
    mark = marker()
    with isolating.sandbox.open(Workspace(isolating.prepared), LIMITS) as session:
        session.act(f"sleep {mark} &", 5)
        assert appeared(mark, 1)
        (pid,) = pids(mark)
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        (uid,) = set(status["Uid"].split())
        assert uid == "65534" or (isolating.sandbox.name == "remote" and int(uid) >= 20000)
    assert gone(mark)


def test_memory(isolating: Box) -> None:
    done = isolating.python("x = b'x' * (900 << 20); print('had it')")
    assert done.exit_code != 0 and done.stdout == b""
    assert done.out_of_memory or b"MemoryError" in done.stderr


def test_memory_of_many_processes(isolating: Box) -> None:
    """A limit for each process is not enough: eight of them hold 150 MB each."""
    one = "x = bytearray(b'x') * (150 << 20); import time; time.sleep(2); print('had it')"
    done = isolating.sh(f'for i in 1 2 3 4 5 6 7 8; do {isolating.prepared.interpreter.python} -c "{one}" & done; wait')
    assert done.stdout.count(b"had it") < 8
    assert done.out_of_memory


def test_fork_bomb(isolating: Box) -> None:
    mark = marker()
    done = isolating.python(
        "import os\nn = 0\ntry:\n while n < 1000:\n"
        f"  if os.fork() == 0: os.execlp('sleep', 'sleep', '{mark}')\n"
        "  n += 1\nexcept BlockingIOError: pass\nprint(n)",
    )
    assert 16 < int(done.stdout) <= LIMITS.processes, done.stderr
    assert gone(mark)


@pytest.mark.parametrize("where", [".", "~", "/tmp"])
def test_disk(isolating: Box, where: str) -> None:
    done = isolating.sh(f"head -c 100000000 /dev/zero > {where}/fill; stat -c %s {where}/fill")
    if "disk" in done.unenforced and where == ".":
        pytest.skip("this sandbox cannot limit the workspace here, and says so")
    assert int(done.stdout) <= LIMITS.disk


def test_every_limit_is_enforced_for_root(isolating: Box) -> None:
    if os.geteuid() != 0 or isolating.sandbox.name != "bubblewrap":
        pytest.skip("concerns bubblewrap as root")
    assert isolating.sh("true").unenforced == ()
