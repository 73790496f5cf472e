"""Are the verdicts right? Every real bug of ../shared/realset: its official test, Gold, labelled patches, negatives.

For each instance the official test is qualified with the official fail-to-pass nodes and its pass-to-pass list as the
guard. Then Gold, the labelled model patches and at least ten patches made to be wrong are verified. What is right is
said by a plain run by hand of the same nodes, without the harness and without network; where the two disagree the run
by hand is made twice more, and a label that does not hold still counts as unstable and for neither side.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from _byhand import Hand, Outcomes
from _negatives import negatives
from _realset import Instance, Unavailable, instances
from _report import Target, arguments, finish, table, upper_bound

from execcritic import places
from execcritic_scaffold.agents import Submission
from execcritic_scaffold.base import snapshot
from execcritic_scaffold.errors import ExecCriticError
from execcritic_scaffold.outcome import Decision
from execcritic_scaffold.qualify import qualify
from execcritic_scaffold.settings import QualifySettings, VerifySettings
from execcritic_scaffold.site import open_site
from execcritic_scaffold.task import EnvironmentSpec
from execcritic_scaffold.verify import verify

QUICK = ("psf__requests-6028", "pallets__flask-5063", "sphinx-doc__sphinx-9711")
GUARD_SECONDS = 900.0
PASSED = ("passed", "xfailed")
MISTAKES = ("wrong PASS", "wrong FAIL by nodes", "wrong FAIL by guard", "wrong FAIL by policy", "inconclusive")


@dataclass(frozen=True)
class Judged:
    """One patch: what a run by hand says (None: unstable) and what the harness says."""

    kind: str
    nodes_pass: bool | None
    guard_passes: bool | None
    recorded: bool | None
    """`local_resolved` of a labelled model patch."""
    verdict: str
    reason: str
    detail: str
    seconds: float

    @property
    def right(self) -> bool | None:
        """Whether the patch ought to PASS."""
        if self.nodes_pass is None or self.guard_passes is None:
            return None
        return self.nodes_pass and self.guard_passes

    @property
    def mistake(self) -> str | None:
        """wrong PASS; wrong FAIL by the frozen nodes, the guard or the patch policy; inconclusive; None."""
        if self.verdict == Decision.INCONCLUSIVE:
            return "inconclusive"
        if self.right is None or self.right == (self.verdict == Decision.PASS):
            return None
        if not self.right:
            return "wrong PASS"
        by = {"FAIL": "guard" if self.reason.startswith("GUARD") else "nodes"}.get(self.verdict, "policy")
        return f"wrong FAIL by {by}"


def judge(name: str, wanted: int) -> dict[str, Any]:
    """Everything about one instance, as the JSON file keeps it."""
    instance = instances()[name]
    started = time.monotonic()
    try:
        with Hand(instance) as hand, places.sandbox(places.Place("bubblewrap")) as sandbox:
            ready = hand.ready
            spec = EnvironmentSpec(python=str(ready.python), source_roots=ready.source_roots, runner=instance["runner"])
            site = open_site(snapshot(ready.repo, places.store()), sandbox, spec, cache=places.cache())
            common: dict[str, Any] = {
                "guard": "list",
                "guard_nodes": tuple(instance["PASS_TO_PASS"]),
                "guard_seconds": GUARD_SECONDS,
            }
            submission = Submission(instance["test_patch"].encode(), tuple(instance["FAIL_TO_PASS"]), author="person")
            answer = qualify(site, submission, instance["problem_statement"], QualifySettings(**common))
            record: dict[str, Any] = {
                "status": answer.status,
                "code": answer.code,
                "detail": answer.detail,
                "findings": [f"{f.code}: {f.detail}" for f in answer.findings],
                "qualify_seconds": round(time.monotonic() - started, 2),
                "patches": [],
            }
            if answer.bundle is not None:
                record["guarded"] = len(answer.bundle.record.guard)
                labels = Labels(instance, hand)
                for kind, patch, recorded in patches(instance, hand, wanted):
                    begun = time.monotonic()
                    verdict = verify(site, answer.bundle, patch, VerifySettings(**common))
                    said = (str(verdict.decision), verdict.reason, verdict.detail, round(time.monotonic() - begun, 2))
                    judged = Judged(kind, *labels.of(patch), recorded, *said)
                    if judged.mistake:
                        judged = Judged(kind, *labels.settled(patch), recorded, *said)
                    record["patches"].append(asdict(judged))
    except (Unavailable, ExecCriticError) as error:
        return {"status": "ERROR", "code": type(error).__name__, "detail": str(error), "patches": []}
    return {**record, "seconds": round(time.monotonic() - started, 1)}


class Labels:
    """What runs by hand say of patches of one instance."""

    def __init__(self, instance: Instance, hand: Hand):
        self.hand = hand
        self.nodes = instance["FAIL_TO_PASS"]
        on_base = hand.outcomes(b"") or {}
        self.guard = [node for node in instance["PASS_TO_PASS"] if on_base.get(node) in PASSED]

    def of(self, patch: bytes) -> tuple[bool, bool]:
        """Whether all fail-to-pass nodes pass, and all pass-to-pass nodes that pass on Base."""
        outcomes = self.hand.outcomes(patch)
        return self._all(self.nodes, outcomes), self._all(self.guard, outcomes)

    def settled(self, patch: bytes) -> tuple[bool | None, bool | None]:
        """The same from three runs; None where they differ."""
        runs = [self.of(patch) for _ in range(3)]
        nodes, guard = ({run[part] for run in runs} for part in (0, 1))
        return nodes.pop() if len(nodes) == 1 else None, guard.pop() if len(guard) == 1 else None

    @staticmethod
    def _all(nodes: Iterable[str], outcomes: Outcomes | None) -> bool:
        return outcomes is not None and all(outcomes.get(node) in PASSED for node in nodes)


def patches(instance: Instance, hand: Hand, wanted: int) -> Iterator[tuple[str, bytes, bool | None]]:
    """What is verified, with the recorded label where there is one."""
    yield "gold", instance["gold_patch"].encode(), True
    for candidate in instance["candidate_patches"]:
        if candidate["local_resolved"] is not None:
            yield f"model: {candidate['source']}", candidate["patch"].encode(), candidate["local_resolved"]
    for one in negatives(instance, hand, wanted):
        yield one.kind, one.patch, None


def summary(results: dict[str, dict[str, Any]]) -> tuple[dict[str, Any], list[Target]]:
    """Totals over all instances, and the targets of the issue."""
    judged = [Judged(**patch) for result in results.values() for patch in result["patches"]]
    mistakes = Counter(one.mistake for one in judged if one.mistake)
    wrong = sum(one.right is False and one.verdict != Decision.INCONCLUSIVE for one in judged)
    right = sum(one.right is True and one.verdict != Decision.INCONCLUSIVE for one in judged)
    gold = [one for one in judged if one.kind == "gold"]
    known = [instances()[name] for name in results]
    labelled = [one for one in judged if one.kind.startswith("model") and one.verdict != Decision.INCONCLUSIVE]
    totals: dict[str, Any] = {
        "instances": len(results),
        "qualified": sum(result["status"] == "QUALIFIED" for result in results.values()),
        "gold PASS": sum(one.verdict == Decision.PASS for one in gold),
        "patches": len(judged),
        "negatives": wrong,
        "positives": right,
        "unstable labels": sum(one.right is None for one in judged),
        "inconclusive": mistakes["inconclusive"],
        "excluded: no label": sum(c["local_resolved"] is None for one in known for c in one["candidate_patches"]),
        "model patches off their recorded label": sum((one.verdict == "PASS") != one.recorded for one in labelled),
        "model patches with a recorded label": len(labelled),
    }
    rates = {"wrong PASS": wrong, **{f"wrong FAIL by {by}": right for by in ("nodes", "guard", "policy")}}
    totals["mistakes"] = {
        kind: {"count": mistakes[kind], "of": of, "95 % upper bound": upper_bound(mistakes[kind], of)}
        for kind, of in rates.items()
    }
    targets = [
        Target("wrong PASS", mistakes["wrong PASS"], 0),
        Target("Gold not PASS, of the qualified", totals["qualified"] - totals["gold PASS"], 0),
        Target("model patches off their recorded label", totals["model patches off their recorded label"], 0),
    ]
    return totals, targets


def row(name: str, result: dict[str, Any]) -> tuple[object, ...]:
    """One line of the table."""
    judged = [Judged(**patch) for patch in result["patches"]]
    count = Counter(one.mistake for one in judged)
    gold = next((one.verdict for one in judged if one.kind == "gold"), "-")
    status = result["status"] if result["status"] == "QUALIFIED" else f"{result['status']} {result['code']}"
    return (name, status, gold, len(judged), *(count[kind] for kind in MISTAKES), result.get("seconds"))


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("ids", nargs="*", metavar="ID", help="instances (default: all)")
    parser.add_argument("--negatives", type=int, default=12, metavar="N", help="made for each instance (default 12)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="instances at the same time")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="take the results that are in this --json file")
    options = parser.parse_args()
    names = options.ids or (QUICK if options.quick else list(instances()))
    wanted = 4 if options.quick else options.negatives
    results: dict[str, dict[str, Any]] = json.loads(options.resume.read_text())["results"] if options.resume else {}
    todo = [name for name in names if name not in results]
    with ProcessPoolExecutor(options.jobs) as pool:
        running = {pool.submit(judge, name, wanted): name for name in todo}
        for done in as_completed(running):
            results[running[done]] = done.result()
            print(*row(running[done], done.result()), file=sys.stderr, flush=True)
            if options.json:
                options.json.write_text(json.dumps({"results": results}))
    head = ("instance", "official test", "Gold", "patches", *MISTAKES, "seconds")
    table(head, (row(name, results[name]) for name in results))
    totals, targets = summary(results)
    table(("total", "value"), ((name, value) for name, value in totals.items() if name != "mistakes"))
    rates = totals["mistakes"].items()
    table(("mistake", "count", "of", "95 % upper bound"), ((kind, *rate.values()) for kind, rate in rates))
    return finish(options.json, {"results": results, "totals": totals}, targets)


if __name__ == "__main__":
    sys.exit(main())
