"""One sandbox of a service with our supervisor in it: made, asked, kept alive, deleted.

A request to the supervisor has a number and is done once, so it is simply asked again when the connection broke, the
service restarted or its wait ended too early. What the service itself says of an exit code decides nothing: the answer
is the supervisor's, with a hash over it, and a service that contradicts it is an error.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import shlex
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from execcritic_scaffold.errors import EnvironmentFailure, SandboxError
from execcritic_scaffold.files import File
from execcritic_scaffold.sandbox.docker_files import Archive, support_files
from execcritic_scaffold.sandbox.protocol import SUPPORT
from execcritic_scaffold.sandbox.remote import leases
from execcritic_scaffold.sandbox.remote.service import Gone, Service
from execcritic_scaffold.sandbox.remote.settings import RemoteSettings

CONTROL = "/opt/execcritic-control"
_SUPPORT_TAR = "/tmp/execcritic-support.tar"
SLICE = 20
"""Seconds after which a call inside gives up its place: the service runs one command of a sandbox at a time."""
EXEC_SLACK = 30
WAIT = 60
INLINE = 64 << 10
"""Bytes of a request that go with the command; what is longer is uploaded. A command line has 128 KiB at most."""
POLL = 0.5
CLOSING = 30.0
"""Seconds of patience with a service that does not delete."""
_START = f"""
import os, sys, tarfile
os.umask(0o022)
if os.path.exists({_SUPPORT_TAR!r}):
    tarfile.open({_SUPPORT_TAR!r}).extractall({SUPPORT!r})
    os.unlink({_SUPPORT_TAR!r})
print(sys.executable, flush=True)
os.execv(sys.executable, [sys.executable, "-I", "-S", {SUPPORT!r} + "/remote_supervisor.py", {CONTROL!r}])
"""


class Box:
    """A sandbox that is ready. Raises SandboxError, or EnvironmentFailure where the image is not to be had or has no
    Python of one of the names `pythons`."""

    def __init__(
        self,
        service: Service,
        settings: RemoteSettings,
        image: str,
        pythons: Sequence[str],
        memory: int,
        network: bool = False,
    ) -> None:
        self._service, self._settings = service, settings
        self.lease = leases.take(service.url)
        self._path = f"/sandboxes/{self.lease.id}"
        self._number = 0
        self._python = ""
        self._ended = threading.Event()
        try:
            self._create(image, memory, network)
            threading.Thread(target=self._beat, daemon=True).start()
            self._start(image, pythons)
        except BaseException:
            self.close()
            raise

    @property
    def python(self) -> str:
        """The interpreter in the image, as an absolute path there."""
        return self._python

    def ask(
        self, header: Mapping[str, Any], payload: bytes = b"", seconds: float = 600.0
    ) -> tuple[dict[str, Any], bytes]:
        """What the supervisor answers: fields and bytes. Raises SandboxError when it says that it failed."""
        data = self.exchange(frame(header, payload), seconds)
        length = int.from_bytes(data[:4], "big")
        try:
            answer = json.loads(data[4 : 4 + length])
            if answer["size"] != len(data) - 4 - length:
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise SandboxError("The sandbox's supervisor sent an answer without sense; start again.") from None
        if "error" in answer:
            raise SandboxError(f"The sandbox's supervisor failed: {str(answer['error'])[:500]}; start again.")
        return answer, data[4 + length :]

    def exchange(self, data: bytes, seconds: float) -> bytes:
        """The answer frame to a request frame. `seconds`: what the work is given, without faults."""
        self._number += 1
        number, inline = str(self._number), []
        if len(data) > INLINE:
            self._upload(f"{CONTROL}/{number}.request", data)
        else:
            inline = [base64.b64encode(data).decode()]
        call = [self._python, "-I", "-S", f"{SUPPORT}/remote_call.py", CONTROL, number, str(SLICE), *inline]
        deadline = time.monotonic() + seconds
        while True:
            answer = self._answer(number, self._exec(shlex.join(call), deadline))
            if answer is not None:
                return answer
            if time.monotonic() > deadline:
                raise TimeoutError(f"no answer within {seconds:.0f} s")

    def close(self) -> None:
        """Delete the sandbox. Idempotent; one that cannot be deleted now stays written down as ours, for later."""
        if not self._ended.is_set():
            self._ended.set()
            with contextlib.suppress(SandboxError):
                delete(self._service, self.lease, patience=CLOSING)

    def _create(self, image: str, memory: int, network: bool) -> None:
        body = {
            "image": image,
            "block_network": not network,
            "sandbox_id": self.lease.id,
            "memory": f"{memory >> 20}Mi",
            "timeout": int(self._settings.ready_seconds),
        }
        try:
            self._service.ask("POST", "/sandboxes", body=body)
        except SandboxError:
            # A second attempt finds the name taken where only the first reply was lost.
            try:
                self._service.ask("GET", self._path)
            except Gone:
                pass
            else:
                return self._ready(image)
            raise
        return self._ready(image)

    def _ready(self, image: str) -> None:
        deadline = time.monotonic() + self._settings.ready_seconds
        while True:
            left = deadline - time.monotonic()
            wait = int(min(max(left, 1), WAIT))
            found: dict[str, Any] = {}
            try:
                found = self._service.ask(
                    "GET", f"{self._path}/wait", params={"timeout": wait}, seconds=wait, patience=left
                )
            except Gone:
                raise
            except SandboxError:
                if left > 0 and self._reachable():
                    continue  # a wait that ended is no end
                raise
            if found.get("ready") is True:
                return
            if str(found.get("status")).lower() in ("failed", "error", "terminated"):
                raise EnvironmentFailure(
                    f"The sandbox service cannot start image {image} ({str(found.get('status_message'))[:300]}); "
                    "check the name and that the service may pull it."
                )
            if left <= 0:
                raise SandboxError(
                    f"A sandbox on image {image} was not ready after {self._settings.ready_seconds:.0f} s; "
                    "raise sandbox.remote.ready_seconds or see the service's log."
                )
            time.sleep(POLL)

    def _reachable(self) -> bool:
        try:
            self._service.ask("GET", self._path)
        except SandboxError:
            return False
        return True

    def _beat(self) -> None:
        while True:
            try:
                self._service.ask("POST", f"{self._path}/heartbeat", patience=0.0)
            except SandboxError:
                pass  # a service that is away is noticed by the next request that matters
            if self._ended.wait(self._settings.heartbeat_seconds):
                return

    def _start(self, image: str, pythons: Sequence[str]) -> None:
        self._upload(_SUPPORT_TAR, _support())
        names = shlex.join(pythons)
        find = (
            f'for p in {names}; do p=$(command -v -- "$p") && exec "$p" -I -S -c {shlex.quote(_START)}; done; exit 127'
        )
        job = self._exec(find, time.monotonic() + EXEC_SLACK)
        said = " ".join(str(job.get("stderr") or "").split())[-300:]
        if job.get("exit_code") == 127:
            raise EnvironmentFailure(
                f"Image {image} has no usable Python (looked for: {names}); name one in it with --python, or another "
                "--image."
            )
        self._python = str(job.get("stdout") or "").strip()
        if job.get("exit_code") != 0 or not self._python.startswith("/"):
            raise SandboxError(
                f"The harness cannot be started in image {image} ({said or job.get('exit_code')}); "
                "it needs an image that starts as root and has a Python."
            )

    def _upload(self, path: str, data: bytes) -> None:
        body = {"path": path, "content": base64.b64encode(data).decode()}
        self._service.ask("POST", f"{self._path}/files", body=body, seconds=600.0)

    def _exec(self, command: str, deadline: float) -> dict[str, Any]:
        """A job that has ended. `running` after a wait means that the wait has ended, not the job."""
        limit = SLICE + EXEC_SLACK
        body = {"command": command, "timeout_seconds": limit, "cwd": "/", "wait": True}
        until = max(deadline, time.monotonic()) + self._settings.patience_seconds
        while True:
            try:
                job = self._service.ask("POST", f"{self._path}/exec", body=body, seconds=limit)
                while job.get("status") not in ("succeeded", "failed"):
                    if time.monotonic() > until:
                        raise SandboxError(
                            f"The sandbox service says of a command that had {limit} s, and long after, that it is "
                            f"{str(job.get('status'))[:40]}; see its log."
                        )
                    time.sleep(0.05)
                    job = self._service.ask(
                        "GET", f"/jobs/{job.get('job_id')}/wait", params={"timeout": SLICE}, seconds=SLICE
                    )
            except Gone:
                self._service.ask("GET", self._path)  # raises Gone: not the job, the sandbox is
                job = {}
            if job.get("exit_code") is not None:
                return job
            # The service never ran it, or lost the job with a restart.
            if time.monotonic() > until:
                raise SandboxError(
                    f"The sandbox service could not run a command ({str(job.get('error'))[:300]}); see its log."
                )
            time.sleep(POLL)

    def _answer(self, number: str, job: Mapping[str, Any]) -> bytes | None:
        """What a call printed: the answer, or None where it is to be asked for again."""
        words = str(job.get("stdout") or "").split()
        if words[:1] != ["execcritic"] or len(words) < 2:
            said = " ".join(str(job.get("stderr") or job.get("error") or "").split())[-300:]
            if job.get("exit_code") == 0:
                return None  # half a reply, or none
            raise SandboxError(f"The sandbox's supervisor is gone ({said or job.get('exit_code')}); start again.")
        if job.get("exit_code") != 0 or job.get("status") != "succeeded":
            raise SandboxError(
                f"The sandbox service contradicts itself: a command that succeeded is said to have {job.get('status')} "
                f"with exit code {job.get('exit_code')}; its results cannot be relied on."
            )
        try:
            if words[1] == "data" and len(words) == 4:
                data = base64.b64decode(words[3], validate=True)
            elif words[1] == "file" and len(words) == 4:
                params = {"path": f"{CONTROL}/{number}.answer"}
                found = self._service.ask("GET", f"{self._path}/files", params=params, seconds=600.0)
                data = base64.b64decode(str(found.get("content")), validate=True)
            else:
                return None
        except binascii.Error:
            return None
        return data if hashlib.sha256(data).hexdigest() == words[2] else None


class BoxChannel:
    """The byte stream to a session's runner (`session.Channel`), one exchange for each frame that is sent."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._ready = b""

    def send(self, data: bytes, seconds: float) -> None:
        try:
            self._ready = self._box.exchange(data, seconds)
        except SandboxError as error:
            raise ConnectionResetError(str(error)) from None

    def receive(self, limit: int, seconds: float) -> bytes:
        part, self._ready = self._ready[:limit], self._ready[limit:]
        return part

    def close(self) -> None:
        """Nothing to do: there is no stream between two exchanges."""


def frame(header: Mapping[str, Any], payload: bytes) -> bytes:
    """A request as the supervisor reads it (`session.py`)."""
    head = json.dumps({**header, "size": len(payload)}).encode()
    return len(head).to_bytes(4, "big") + head + payload


def delete(service: Service, lease: leases.Lease, patience: float | None = None) -> None:
    """Delete a sandbox; one that is gone already is fine."""
    try:
        service.ask("DELETE", f"/sandboxes/{lease.id}", patience=patience)
    except Gone:
        pass
    leases.give_back(lease)


def _support() -> bytes:
    archive = Archive()
    for name, data in sorted(support_files().items()):
        archive.file(name, File(data), owner=0, mode=0o444)
    return archive.data()
