"""Everything a service and the way to it can do wrong, over the wire: what ran, ran once, and says what it said."""

from __future__ import annotations

import base64
import re
import time
from typing import Any

import pytest

from execcritic_scaffold.errors import EnvironmentFailure, SandboxError
from tests.sandbox_server import KEY
from tests.scaffold.remote_sandbox.conftest import LIMITS, Place

pytestmark = pytest.mark.docker


@pytest.mark.slow
def test_overload_passes(place: Place) -> None:
    for method, part in (("POST", "/sandboxes"), ("GET", "/wait"), ("POST", "/exec"), ("DELETE", "")):
        place.server.fail(method, part, "503", 2)
    done = place.sh("cat there; exit 3")
    assert (done.exit_code, done.stdout) == (3, b"there\n")


@pytest.mark.slow
def test_patience_ends(place: Place) -> None:
    place.server.fail("POST", "/sandboxes", "503", 1000)
    with pytest.raises(SandboxError, match=r"failed for 1 s .*503.*patience_seconds"):
        place.other(patience_seconds=1).sh("true")
    assert len([1 for method, path, _ in place.server.requests if (method, path) == ("POST", "/sandboxes")]) > 1


def test_lost_replies_in_a_session(place: Place) -> None:
    """A connection that breaks before the work, after it, and in the middle of the reply: each action happens once."""
    with place.sandbox.open(place.workspace, LIMITS) as session:
        for kind in ("reset", "lost", "half", "503", "running"):
            place.server.fail("POST", "/exec", kind)
            assert session.act(f"echo {kind} >> log; sleep 0.1", 10).exit_code == 0
        assert session.read("log") == b"reset\nlost\nhalf\n503\nrunning\n"


@pytest.mark.slow
def test_a_lost_reply_to_a_creation(place: Place) -> None:
    place.server.fail("POST", "/sandboxes", "lost")
    assert place.sh("cat there").stdout == b"there\n"


@pytest.mark.slow
def test_restart_of_the_service(place: Place) -> None:
    """Jobs are forgotten: the work is not done again. Sandboxes are: that is an end."""

    def forget(job: dict[str, Any]) -> dict[str, Any]:
        place.server.restart()
        return {"job_id": job["job_id"], "status": "running"}

    with place.sandbox.open(place.workspace, LIMITS) as session:
        place.server.fail("POST", "/exec", forget)
        session.act("echo once >> log", 10)
        assert session.read("log") == b"once\n"
        place.server.restart(sandboxes=False)
        with pytest.raises(SandboxError, match="start again"):
            session.act("true", 5)


@pytest.mark.slow
def test_cut_and_changed_answers(place: Place) -> None:
    def cut(job: dict[str, Any]) -> dict[str, Any]:
        return {**job, "stdout": job["stdout"][: len(job["stdout"]) // 2]}

    def change(job: dict[str, Any]) -> dict[str, Any]:
        line, _, data = job["stdout"].rpartition(" ")
        forged = base64.b64decode(data).replace(b'"code": 3', b'"code": 0')
        return {**job, "stdout": f"{line} {base64.b64encode(forged).decode()}"}

    with place.sandbox.open(place.workspace, LIMITS) as session:
        place.server.fail("POST", "/exec", cut)
        place.server.fail("POST", "/exec", change)
        assert session.act("exit 3", 10).exit_code == 3


@pytest.mark.slow
@pytest.mark.parametrize("said", [0, 1, 124, -9])
def test_a_lie_about_the_exit_code(place: Place, said: int) -> None:
    """A verdict never rests on the service's word; one that contradicts what ran is an error, never a result."""

    def lie(job: dict[str, Any]) -> dict[str, Any]:
        return {**job, "exit_code": said, "status": "succeeded" if said == 0 else "failed"}

    with place.sandbox.open(place.workspace, LIMITS) as session:
        place.server.fail("POST", "/exec", lie)
        if said == 0:
            assert session.act("exit 3", 10).exit_code == 3
        else:
            with pytest.raises(SandboxError, match="contradicts itself"):
                session.act("exit 0", 10)


@pytest.mark.slow
def test_answers_that_never_fit(place: Place) -> None:
    place.server.fail("POST", "/exec", lambda job: {**job, "stdout": job["stdout"][:20]}, 10**6)
    with pytest.raises(SandboxError):
        place.other(patience_seconds=1, ready_seconds=5).sandbox.inspect(None, place.prepared.image)


@pytest.mark.slow
def test_a_wait_that_never_ends(place: Place) -> None:
    place.server.fail("GET", "/wait", "hang", 100)
    begun = time.monotonic()
    with pytest.raises(SandboxError, match="wait"):
        place.other(ready_seconds=1, patience_seconds=1).sh("true")
    assert time.monotonic() - begun < 120, "hangs for ever"


@pytest.mark.slow
def test_a_wait_that_says_pending_is_no_end(place: Place) -> None:
    place.server.fail("GET", "/wait", lambda found: {**found, "ready": False, "status": "pending"}, 2)
    assert place.sh("cat there").exit_code == 0


@pytest.mark.slow
def test_an_image_that_is_not_there(place: Place) -> None:
    with pytest.raises(EnvironmentFailure, match=r"no-such-image.*ErrImagePull"):
        place.sandbox.inspect(None, "no-such-image:1")


@pytest.mark.slow
def test_an_unknown_python(place: Place) -> None:
    with pytest.raises(EnvironmentFailure, match=r"no Python no-such-python.*--python"):
        place.sandbox.inspect("no-such-python", place.prepared.image)


def test_the_key_is_not_told(place: Place) -> None:
    place.server.fail("POST", "/exec", "echo")
    with pytest.raises(SandboxError, match=re.escape("***")) as caught:
        place.sh("true")
    assert KEY not in str(caught.value) and "400" in str(caught.value)
    seen = place.sh("env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; grep -rs key-of /opt /tmp /home").stdout
    assert b"PATH=" in seen and KEY.encode() not in seen
    assert KEY not in str(place.server.requests)


@pytest.mark.slow
def test_a_key_is_asked_for(place: Place, nobody: None) -> None:
    problem = place.other().sandbox.probe()
    assert problem is not None and "401" in problem and "EXECCRITIC_SANDBOX_TOKEN" in problem
