"""Images are pulled before a run: a few at a time, with progress, with room on the disk; what failed is a value.

A registry's answer that will be the same tomorrow (no such image, not for you, for another machine) is told apart from
one that need not be (down, overloaded, cut off), which is asked again until `patience_seconds` have passed.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from execcritic.batch.images import MACHINES, ImageSettings
from execcritic_scaffold.sandbox import docker_engine as engine

if TYPE_CHECKING:
    from docker import DockerClient

Tell = Callable[[str, Mapping[str, Any]], None]
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds between two attempts: doubled each time, and spread so that many do not ask at once."""
_FOR_GOOD = re.compile(
    r"unauthorized|\bdenied: |access denied|(manifest|name) unknown|no matching manifest|invalid reference|basic auth",
    re.IGNORECASE,
)
_NO_ROOM = "no space left on device"


class How(StrEnum):
    """PRESENT: it was there. PULLED. ABSENT: it cannot be had or used, now or later. FAILED: not this time."""

    PRESENT = "present"
    PULLED = "pulled"
    ABSENT = "absent"
    FAILED = "failed"


@dataclass(frozen=True)
class Fetched:
    """What became of one image; `reason` is one sentence for ABSENT and FAILED."""

    image: str
    how: How
    reason: str | None = None

    @property
    def usable(self) -> bool:
        return self.reason is None


class _Unusable(Exception):
    """It will not be otherwise when asked again; `how` says whether it may be another day."""

    def __init__(self, how: How, reason: str) -> None:
        super().__init__(reason)
        self.how = how


def fetch(
    names: Iterable[str], settings: ImageSettings, tell: Tell, cancel: threading.Event | None = None
) -> Iterator[Fetched]:
    """Make images be there, `settings.pulls` at a time; what became of each, as soon as it is known.

    `tell` is given "image.pulling" (image, and bytes `done` and `total` of what is known of it so far) and
    "image.waiting" (image, reason, seconds until the next attempt), from several threads. When `cancel` is set, pulls
    that have not ended are FAILED. Raises SandboxError where no engine answers at the start.
    """
    wanted, stop = list(dict.fromkeys(names)), cancel or threading.Event()
    if not wanted:
        return
    client = engine.connect()
    with engine.engine_errors("asking what machine it is"):
        puller = _Puller(client, client.info(), settings, tell, stop)
    with ThreadPoolExecutor(settings.pulls, thread_name_prefix="pull") as pool:
        try:
            for done in as_completed([pool.submit(puller.fetched, name) for name in wanted]):
                yield done.result()
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
            client.close()


class _Puller:
    def __init__(
        self, client: DockerClient, info: Mapping[str, Any], settings: ImageSettings, tell: Tell, stop: threading.Event
    ) -> None:
        self._client, self._settings, self._tell, self._stop = client, settings, tell, stop
        self._machine = MACHINES.get(str(info.get("Architecture")).lower())
        # The disk can be looked at where the engine is on this machine.
        here = os.environ.get("DOCKER_HOST", "unix://").startswith("unix://")
        root = Path(str(info.get("DockerRootDir")))
        self._root = root if here and root.is_dir() else None

    def fetched(self, name: str) -> Fetched:
        """One image, with all attempts."""
        from docker.errors import DockerException
        from requests import RequestException

        wait, end = FIRST_WAIT, time.monotonic() + self._settings.patience_seconds
        while True:
            try:
                return self._once(name)
            except _Unusable as error:
                return Fetched(name, error.how, str(error))
            except (DockerException, RequestException, OSError) as error:
                said = " ".join(str(getattr(error, "explanation", None) or error).split())[:300]
            if _FOR_GOOD.search(said):
                return Fetched(name, How.ABSENT, f"There is no image {name} for us ({said}); {_REMEDY}.")
            pause = min(wait * random.uniform(0.5, 1), max(end - time.monotonic(), 0))
            if pause == 0 or self._stop.is_set():
                return Fetched(
                    name,
                    How.FAILED,
                    f"The image {name} could not be pulled ({said}); run again when its registry answers.",
                )
            self._tell("image.waiting", {"image": name, "reason": said, "seconds": pause})
            self._stop.wait(pause)
            wait = min(2 * wait, LONGEST_WAIT)

    def _once(self, name: str) -> Fetched:
        from docker.errors import ImageNotFound

        if self._stop.is_set():
            raise _Unusable(How.FAILED, f"The image {name} was not pulled: the run was stopped; run again.")
        try:
            self._check(name)
            return Fetched(name, How.PRESENT)
        except ImageNotFound:
            self._pull(name)
            self._check(name)
            return Fetched(name, How.PULLED)

    def _check(self, name: str) -> None:
        """Raises _Unusable for an image of another machine, ImageNotFound where there is none."""
        found = str(self._client.images.get(name).attrs.get("Architecture", ""))
        made_for, wanted = MACHINES.get(found, found), self._settings.architecture or self._machine
        if wanted is not None and made_for != wanted:
            raise _Unusable(
                How.ABSENT,
                f"The image {name} is made for {made_for}, not for {wanted}; name another one, or set "
                f"batch.images.architecture={made_for} where the engine can emulate it.",
            )

    def _pull(self, name: str) -> None:
        from docker.errors import DockerException
        from docker.utils import parse_repository_tag

        self._check_room(name)
        repository, tag = parse_repository_tag(name)
        platform = {"x86_64": "linux/amd64", "arm64": "linux/arm64"}.get(self._settings.architecture or "")
        layers: dict[str, tuple[int, int]] = {}
        shown = -1
        # Without a tag the engine would pull all there are.
        for event in self._client.api.pull(repository, tag or "latest", stream=True, decode=True, platform=platform):
            if said := event.get("error"):
                if _NO_ROOM in said:
                    raise _Unusable(How.FAILED, f"The engine's disk is full ({said}); remove images and run again.")
                raise DockerException(said)
            if self._stop.is_set():
                raise _Unusable(How.FAILED, f"The pull of {name} was stopped; run again.")
            detail = event.get("progressDetail") or {}
            if event.get("status") == "Downloading" and detail.get("total"):
                layers[event["id"]] = detail["current"], detail["total"]
                done, total = (sum(numbers) for numbers in zip(*layers.values(), strict=True))
                if (percent := 100 * done // total) != shown:
                    shown = percent
                    self._tell("image.pulling", {"image": name, "done": done, "total": total})

    def _check_room(self, name: str) -> None:
        needed = self._settings.free_gb
        free = shutil.disk_usage(self._root).free / 1e9 if self._root else needed
        if free < needed:
            raise _Unusable(
                How.FAILED,
                f"{name} is not pulled: {self._root} has {free:.1f} GB free, less than "
                f"batch.images.free_gb={needed:g}; remove images (`docker image prune --all`) or lower it.",
            )


_REMEDY = "check its name and `docker login`, or set batch.images.registry"
