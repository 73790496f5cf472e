"""The main job on the bundled sample, with recorded replies. The first fix is wrong: FAIL, feedback, revise, PASS."""

from __future__ import annotations

import shlex
import sys
from importlib import resources
from pathlib import Path

from execcritic import config, output, places
from execcritic.perform import perform
from execcritic.places import Place
from execcritic.request import Request
from execcritic.runs import Run
from execcritic_scaffold import programs
from execcritic_scaffold.errors import SandboxError
from execcritic_scaffold.store import EMPTY_TREE, Store


def run(out: Path | None, sandbox: str | None, json: bool) -> int:
    """Run the demo; returns the exit code of `resolve`."""
    record = Run.create(out)
    sample = resources.files("execcritic") / "sample"
    repository = record.path("sample")
    store = Store(places.cache() / "store")
    store.materialise(store.apply(EMPTY_TREE, (sample / "repository.patch").read_bytes()), repository)
    record.write("issue.md", (sample / "issue.md").read_bytes())
    record.write("replies.jsonl", (sample / "replies.jsonl").read_bytes())
    replies = f"replay:{record.directory / 'replies.jsonl'}"
    request = Request(
        "resolve",
        str(repository),
        str(record.directory / "issue.md"),
        {"test": replies, "repair": replies},
        Place(sandbox=sandbox or _best(), python=sys.executable),
    )
    output.say("The issue: " + (sample / "issue.md").read_text("utf-8").partition("\n")[0])
    code = perform(request, config.load(environ={}), record, json)
    fix = record.directory / "fix.patch"
    if not json and fix.exists():
        output.say(f"\nThe fix:\n{fix.read_text('utf-8')}\nAnybody can check it again, without a model:")
        command = [_program(), "verify", "--bundle", str(record.directory), "--repo", str(repository)]
        command += ["--patch", str(fix), *(["--sandbox", request.place.sandbox] if request.place.sandbox else [])]
        output.say(f"  {shlex.join(command)}")
    return code


def _program() -> str:
    """How this program can be called from the shell it was called from."""
    return "execcritic" if programs.find("execcritic") else str(Path(sys.executable).with_name("execcritic"))


def _best() -> str | None:
    """The isolating sandbox that works here (None: found as ever), else `local`, which is fine for our own sample."""
    try:
        with places.sandbox(Place()):
            return None
    except SandboxError as error:
        output.say(f"Warning: no isolation here, the sample runs as an ordinary process. {error}")
        return "local"
