"""One Repair episode of ours in a process of its own, so that its time and memory can be told from everything else.

    python _long_replay.py REQUEST.json     {"url", "turns", "repository", "folder", "context_tokens"}

The agent asks the endpoint at `url`; the loop keeps the patch as in a real run, its last step apart: no test is frozen,
so nothing is checked. Prints as JSON: seconds, CPU seconds, peak memory (MB), turns, why it ended, bytes of the patch.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from execcritic_roles.limits import AgentLimits
from execcritic_roles.models.openai import OpenAIModel
from execcritic_roles.models.options import ModelOptions
from execcritic_roles.prompts.render import PromptContext
from execcritic_roles.repairer import make_repairer
from execcritic_roles.trajectory import Trajectory
from execcritic_scaffold import base as bases
from execcritic_scaffold.extract import extract
from execcritic_scaffold.loop import Harness, LoopSettings, repair
from execcritic_scaffold.resolution import Gate
from execcritic_scaffold.sandbox.protocol import Limits, Session, Workspace
from execcritic_scaffold.sandbox.registry import get
from execcritic_scaffold.store import Store


def main() -> None:
    request = json.loads(Path(sys.argv[1]).read_text())
    folder, turns = Path(request["folder"]), int(request["turns"])
    store = Store(folder / "store")
    base = bases.snapshot(Path(request["repository"]), store)
    sandbox = get("local")
    store.materialise(base.tree, folder / "base")
    prepared = sandbox.prepare(base.tree, folder / "base", sandbox.inspect(sys.executable, None))

    def take(session: Session) -> bytes:
        return extract(store, base.tree, session.manifest(), session.read, base.ignored).patch

    def never(*_: Any) -> Any:
        raise AssertionError("no test is frozen")

    harness = Harness(take, never, never, 6000)
    settings = LoopSettings(submissions=1, test_turns=1, repair_turns=turns + 1, revisions=0, revision_turns=1)
    limits = AgentLimits(turns=turns + 1, seconds=3600, context_tokens=request["context_tokens"])
    context = PromptContext(
        issue="Addition subtracts.",
        workdir="/testbed",
        submissions=1,
        revisions=0,
        revision_turns=1,
        first_turns=turns + 1,
        feedback_chars=6000,
    )
    started = time.perf_counter()
    with (
        sandbox.open(Workspace(prepared), Limits()) as session,
        Trajectory(folder / "trajectory.jsonl") as trajectory,
    ):
        model = OpenAIModel("scripted", ModelOptions(base_url=request["url"]))
        agent = make_repairer(model, prompt_context=context, limits=limits, trajectory=trajectory)
        ended = repair(agent, session, lambda: Gate(None), harness, settings, lambda kind, data: None)
        model.close()
    seconds = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                "seconds": seconds,
                "cpu": used.ru_utime + used.ru_stime,
                "megabytes": used.ru_maxrss / 1024,
                "turns": agent.usage.turns,
                "ended": f"{ended.stop.kind}: {ended.stop.reason}" if ended.stop else str(ended.error),
                "patch": len(ended.patch),
            }
        )
    )


if __name__ == "__main__":
    main()
