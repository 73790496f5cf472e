"""A run of 10,000 instances, simulated: how long it takes, what its workers wait for, and what disk images need.

    python benchmarks/scale.py [--quick] [--costs FILE] [--json FILE]

Nothing is run: an instance is a series of turns, each a reply of an endpoint and then sandboxed work on an engine, and
at its start an image that its engine may lack. Endpoints and engines have so many places; whoever finds none waits. The
costs are COSTS, or those of FILE (a JSON object with the same fields), to be taken from a run of one's own: its report
has seconds, turns and tokens for each instance, `docker system df` has the images. A seed fixes the order of the
events, so two runs print the same.
"""

from __future__ import annotations

import heapq
import itertools
import json
import random
import sys
from collections import OrderedDict
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from _report import arguments, finish, table

HOUR, TERABYTE = 3600.0, 1e12


@dataclass(frozen=True)
class Costs:
    """What one instance costs. Seconds, bytes, US dollars; medians, with the spread of a log-normal (`sigma`)."""

    turns: float = 45
    turns_sigma: float = 0.5
    reply_seconds: float = 12
    reply_sigma: float = 0.7
    action_seconds: float = 1.5
    action_sigma: float = 1.2
    verdicts: float = 12
    """One-shot runs: admission, verification, repeats."""
    verdict_seconds: float = 20
    verdict_sigma: float = 1.0
    own_seconds: float = 0.01
    """Of this program, for each turn."""
    dollars: float = 0.9
    image_bytes: float = 1.2e9
    """Of an instance's own layers."""
    shared_bytes: float = 2.5e9
    """Of the layers that the instances of a repository have in common."""
    repositories: int = 120
    link_bytes: float = 2.5e8
    """A second, from the registry to one engine."""
    failures: float = 0.01
    """Of the instances, once more because of infrastructure."""


COSTS = Costs()


@dataclass(frozen=True)
class Plan:
    """How a run is laid out. `cache_bytes`: disk of one engine for images; `sticky`: instances of one repository go to
    the same engine as far as it has room."""

    instances: int = 10_000
    engines: int = 16
    per_engine: int = 16
    replies: int = 512
    cache_bytes: float = 1e12
    sticky: bool = True


@dataclass
class Outcome:
    """`waits`: seconds by what was waited for; `busy`: seconds by what was at work."""

    hours: float = 0.0
    pulled: float = 0.0
    waits: dict[str, float] = field(default_factory=lambda: {"endpoint": 0.0, "image": 0.0})
    busy: dict[str, float] = field(default_factory=lambda: {"endpoint": 0.0, "sandbox": 0.0})
    own: float = 0.0


class Cache:
    """The images of one engine, least recently used first out."""

    def __init__(self, size: float) -> None:
        self.size, self.used = size, 0.0
        self.held: OrderedDict[str, float] = OrderedDict()

    def want(self, layers: Mapping[str, float]) -> float:
        """Bytes to be pulled for these layers, which are there afterwards."""
        pulled = sum(size for name, size in layers.items() if name not in self.held)
        for name, size in layers.items():
            self.used += 0.0 if name in self.held else size
            self.held[name] = size
            self.held.move_to_end(name)
        while self.used > self.size and len(self.held) > len(layers):
            self.used -= self.held.popitem(last=False)[1]
        return pulled


class Places:
    """So many places at once; who comes next, in the order of coming."""

    def __init__(self, count: int) -> None:
        self.free = [0.0] * count
        heapq.heapify(self.free)

    def take(self, now: float, seconds: float) -> tuple[float, float]:
        """From when to when a place is held."""
        start = max(now, heapq.heappop(self.free))
        heapq.heappush(self.free, start + seconds)
        return start, start + seconds


Step = Generator[float, None, None]


def simulate(plan: Plan, costs: Costs, seed: int = 0) -> Outcome:
    """The run, event by event."""
    chance, outcome, ids = random.Random(seed), Outcome(), itertools.count()
    endpoint = Places(plan.replies)
    caches = [Cache(plan.cache_bytes) for _ in range(plan.engines)]
    links = [Places(1) for _ in range(plan.engines)]
    waiting = [[] for _ in range(plan.engines)]  # type: list[list[int]]
    repository = [chance.randrange(costs.repositories) for _ in range(plan.instances)]
    todo = list(range(plan.instances)) + [
        number for number in range(plan.instances) if chance.random() < costs.failures
    ]
    for position, number in enumerate(sorted(todo, key=lambda n: repository[n]) if plan.sticky else todo):
        engine = position * plan.engines // len(todo) if plan.sticky else position % plan.engines
        waiting[engine].append(number)

    def drawn(median: float, sigma: float) -> float:
        return median * chance.lognormvariate(0.0, sigma)

    def worker(engine: int, now: float) -> Step:
        while waiting[engine]:
            number = waiting[engine].pop(0)
            own, shared = f"i{number}", f"r{repository[number]}"
            size = caches[engine].want({shared: costs.shared_bytes, own: costs.image_bytes})
            _, end = links[engine].take(now, size / costs.link_bytes)
            outcome.pulled += size
            if size:
                outcome.waits["image"] += end - now
                now = end
                yield now
            turns = max(int(drawn(costs.turns, costs.turns_sigma)), 1)
            pace = drawn(1.0, costs.action_sigma)  # a slow suite is slow at every turn
            for _ in range(turns):
                start, end = endpoint.take(now, seconds := drawn(costs.reply_seconds, costs.reply_sigma))
                outcome.waits["endpoint"] += start - now
                outcome.busy["endpoint"] += seconds
                work = costs.action_seconds * pace + costs.own_seconds
                outcome.busy["sandbox"] += work
                outcome.own += costs.own_seconds
                now = end + work
                yield now
            verdicts = costs.verdicts * drawn(costs.verdict_seconds, costs.verdict_sigma)
            outcome.busy["sandbox"] += verdicts
            now += verdicts
            yield now

    queue: list[tuple[float, int, Step]] = []
    for engine in range(plan.engines):
        for _ in range(plan.per_engine):
            queue.append((0.0, next(ids), worker(engine, 0.0)))
    end = 0.0
    while queue:
        now, _, step = heapq.heappop(queue)
        end = max(end, now)
        following = next(step, None)
        if following is not None:
            heapq.heappush(queue, (following, next(ids), step))
    outcome.hours = end / HOUR
    return outcome


def row(name: str, plan: Plan, costs: Costs) -> list[str]:
    outcome = simulate(plan, costs)
    total = sum(outcome.waits.values()) + sum(outcome.busy.values())
    share = {key: f"{100 * value / total:.1f} %" for key, value in outcome.waits.items()}
    return [
        name,
        f"{outcome.hours:.1f}",
        f"{plan.engines} x {plan.per_engine}",
        str(plan.replies),
        share["endpoint"],
        share["image"],
        f"{outcome.pulled / TERABYTE:.1f}",
        f"{100 * outcome.own / total:.2f} %",
    ]


def plans(base: Plan) -> dict[str, Plan]:
    return {
        "as planned": base,
        "half the engines": replace(base, engines=base.engines // 2),
        "twice the engines": replace(base, engines=base.engines * 2),
        "a quarter of the replies": replace(base, replies=base.replies // 4),
        "engines take any instance": replace(base, sticky=False),
        "100 GB for images": replace(base, cache_bytes=1e11),
        "100 GB, any instance": replace(base, cache_bytes=1e11, sticky=False),
    }


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--costs", type=Path, help="a JSON object with the fields of Costs")
    asked = parser.parse_args()
    costs = COSTS
    if asked.costs:
        given = json.loads(asked.costs.read_text())
        unknown = set(given) - {one.name for one in fields(Costs)}
        if unknown:
            parser.error(f"unknown costs: {', '.join(sorted(unknown))}")
        costs = replace(costs, **given)
    base = Plan(instances=1000, engines=2, replies=64) if asked.quick else Plan()
    head = [
        "plan",
        "hours",
        "engines x places",
        "replies at once",
        "waits: endpoint",
        "waits: image",
        "pulled TB",
        "own",
    ]
    rows = [row(name, plan, costs) for name, plan in plans(base).items()]
    table(head, rows)
    images = base.instances * costs.image_bytes + min(costs.repositories, base.instances) * costs.shared_bytes
    print(f"All images once: {images / TERABYTE:.1f} TB in the registry.")
    print(f"Models: {base.instances * costs.dollars:,.0f} US dollars at {costs.dollars} an instance.")
    return finish(asked.json, {"plans": [dict(zip(head, one, strict=True)) for one in rows]}, [])


if __name__ == "__main__":
    sys.exit(main())
