"""Sandboxes at a service: kept alive while they are used, deleted afterwards, by whoever comes next if need be."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from execcritic import cleaning
from execcritic_scaffold.sandbox.remote import leases
from tests.scaffold.remote_sandbox.conftest import LIMITS, Place

pytestmark = pytest.mark.docker

LEAVES = """
import os, sys
from execcritic_scaffold.sandbox.remote.sandbox import Remote
from execcritic_scaffold.sandbox.remote.settings import RemoteSettings
with Remote(RemoteSettings(url=sys.argv[1]))._box(sys.argv[2], None, 1 << 28):
    os.kill(os.getpid(), 9)
"""


def killed(place: Place) -> str:
    """A process that dies with a sandbox at the service; its name there."""
    subprocess.run(
        [sys.executable, "-c", LEAVES, place.server.url, str(place.prepared.image)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    (name,) = place.server.sandboxes
    return name


@pytest.mark.slow
def test_the_next_start_deletes_what_a_killed_process_left(place: Place) -> None:
    name = killed(place)
    assert place.sh("cat there").exit_code == 0, "a process that is at work goes on"
    assert name in place.server.sandboxes
    assert place.other().sandbox.probe() is None
    assert name not in place.server.sandboxes and leases.listed() == []


def test_clean(place: Place) -> None:
    name = killed(place)
    assert [what for what in cleaning.services(dry_run=True) if name in what]
    assert name in place.server.sandboxes
    place.server.fail("DELETE", name, "503", 1000)
    cleaning.SERVICE_SECONDS, patience = 0.5, cleaning.SERVICE_SECONDS
    try:
        assert cleaning.services(dry_run=False) == [] and leases.listed(), "what is not deleted stays written down"
    finally:
        cleaning.SERVICE_SECONDS = patience
    place.server.faults.clear()
    assert cleaning.services(dry_run=False) == [f"sandbox {name} at {place.server.url}"]
    assert not leases.folder().exists()


@pytest.mark.slow
def test_heartbeats(place: Place) -> None:
    with place.other(heartbeat_seconds=0.05).sandbox.open(place.workspace, LIMITS):
        (sandbox,) = place.server.sandboxes.values()
        deadline = time.monotonic() + 30
        while sandbox.beats < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
    assert sandbox.beats >= 3
    beats = sandbox.beats
    time.sleep(0.2)
    assert sandbox.beats <= beats + 1, "one may have been under way"
