"""A data set of the Hugging Face hub, played by a small server: the real package `datasets` asks it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.app.batch.test_datasets import row

NAME, COMMIT = "SWE-bench/SWE-bench_Verified", "c" * 40
FILES = {f"data/{split}.jsonl": json.dumps(row(instance_id=f"{split}-1")).encode() for split in ("test", "dev")}
ASK = """
import sys
from execcritic.batch.datasets import load
from execcritic_scaffold.errors import ExecCriticError
try:
    data = load(*sys.argv[1:])
    print(data.description, [one.id for one in data.instances], data.gold(data.instances[0].id).fail_to_pass)
except ExecCriticError as error:
    print(type(error).__name__, error)
"""


class Hub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        files = [{"rfilename": name} for name in FILES]
        tree = [{"type": "file", "path": n, "size": len(d), "oid": sha1(d).hexdigest()} for n, d in FILES.items()]
        if path.startswith((f"/api/datasets/{NAME}/tree", f"/api/datasets/{NAME}/paths-info")):
            below = path.rpartition(f"/{COMMIT}")[2].strip("/")
            folder = [{"type": "directory", "path": "data", "size": 0, "oid": "0" * 40}]
            return self._json(200, tree if below or "paths-info" in path else folder)
        if path == f"/api/datasets/{NAME}" or path.startswith(f"/api/datasets/{NAME}/revision/"):
            return self._json(200, {"id": NAME, "sha": COMMIT, "siblings": files, "private": False, "tags": []})
        name = path.rpartition(f"/{COMMIT}/")[2]
        if path.startswith(f"/datasets/{NAME}/resolve/") and name in FILES:
            return self._answer(200, FILES[name])
        code = "EntryNotFound" if NAME in path else "RepoNotFound"
        return self._answer(404, b"{}", {"X-Error-Code": code, "X-Error-Message": "no"})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def _json(self, code: int, body: Any) -> None:
        self._answer(code, json.dumps(body).encode())

    def _answer(self, code: int, body: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(code)
        headers = {"Content-Length": str(len(body)), "ETag": f'"{sha1(body).hexdigest()}"', "X-Repo-Commit": COMMIT}
        for name, value in {**headers, "Content-Type": "application/json", **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.mark.slow
def test_names_aliases_and_splits(hub: str, tmp_path: Path) -> None:
    pytest.importorskip("datasets")

    def asked(*arguments: str) -> str:
        env = {**os.environ, "HF_ENDPOINT": hub, "HF_HOME": str(tmp_path / "hf")}
        done = subprocess.run([sys.executable, "-c", ASK, *arguments], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert asked("verified") == f"{NAME} (test), 1 instances of swebench ['test-1'] ('t.py::a',)"
    assert asked(NAME, "validation") == f"{NAME} (validation), 1 instances of swebench ['dev-1'] ('t.py::a',)"
    assert asked("Verified", "tset") == f"UsageError {NAME} has no split tset; it has validation, test."
    assert asked("nobody/nothing").startswith("UsageError The Hugging Face hub has no data set nobody/nothing")


def test_without_the_extra_the_command_that_installs_it_is_said() -> None:
    hidden = "import sys; sys.modules['datasets'] = sys.modules['pyarrow'] = None"
    done = subprocess.run([sys.executable, "-c", f"{hidden}\n{ASK}", "lite"], capture_output=True, text=True)
    assert done.stdout.startswith(
        "UsageError This data set needs the package datasets; `pip install 'execcritic[swebench]'`"
    )
