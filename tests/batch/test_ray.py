"""A real cluster of two nodes, one of which is killed in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, as_completed
from pathlib import Path
from typing import Any

import pytest

from execcritic.batch.ray import RayExecutor, Resources
from execcritic_scaffold.errors import InfrastructureError, UsageError

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.cluster_utils import Cluster

    small: dict[str, Any] = {"object_store_memory": 80 << 20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "resources": {"engine": 1}, **small})
    made.second = made.add_node(num_cpus=2, resources={"engine": 2, "second": 2}, **small)
    made.wait_for_nodes()
    yield made
    if ray.is_initialized():
        ray.shutdown()
    made.shutdown()


def work(folder: str, number: int) -> tuple[int, int]:
    """Long on the second node, short on the head; each start leaves a file of its own. Its number, its process."""
    import ray

    second = "second" in ray.get_runtime_context().get_assigned_resources() or any(
        node["NodeID"] == ray.get_runtime_context().get_node_id() and "second" in node["Resources"]
        for node in ray.nodes()
    )
    place = "second" if second else "head"
    Path(folder, f"{number}.{place}.{os.getpid()}").touch()
    time.sleep(600 if second else 0.1)
    return number, os.getpid()


def by_value() -> Any:
    """Workers cannot import this file."""
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return work


def test_a_node_is_killed(cluster: Any, tmp_path: Path) -> None:
    """Every call ends once: none twice, none lost, and those that were at work on the node were started again."""
    ended: Counter[int] = Counter()
    with RayExecutor(3, cluster.address, Resources(custom={"engine": 1})) as executor:
        futures: dict[Future[Any], int] = {}
        for number in range(12):
            future = executor.submit(by_value(), str(tmp_path), number)
            futures[future] = number
            future.add_done_callback(lambda done: ended.update([futures[done]]))
        deadline = time.monotonic() + 120
        while len(list(tmp_path.glob("*.second.*"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        interrupted = {int(path.name.partition(".")[0]) for path in tmp_path.glob("*.second.*")}
        assert len(interrupted) == 2
        cluster.remove_node(cluster.second, allow_graceful=False)
        results = [future.result()[0] for future in as_completed(futures, timeout=300)]
    assert sorted(results) == list(range(12))
    assert ended == Counter(range(12))
    for number in range(12):
        assert len(list(tmp_path.glob(f"{number}.head.*"))) == 1
    assert len({path.name.rpartition(".")[2] for path in tmp_path.glob("*.head.*")}) == 12, "a process for each call"


def test_errors_and_cancelling(cluster: Any, tmp_path: Path) -> None:
    def refuse() -> None:
        raise UsageError("The id is unknown; check --filter.")

    def die() -> None:
        os._exit(9)

    with RayExecutor(2, cluster.address, Resources(custom={"second": 1}), retries=1) as executor:
        with pytest.raises(UsageError, match="check --filter"):
            executor.submit(refuse).result(120)
        with pytest.raises(InfrastructureError, match="1 more attempts"):
            executor.submit(die).result(120)
        running = [executor.submit(by_value(), str(tmp_path), number) for number in range(3)]
        deadline = time.monotonic() + 120
        while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.05)
        executor.shutdown(cancel_futures=True)
        for future in running:
            with pytest.raises(CancelledError):
                future.result(0)
        with pytest.raises(RuntimeError):
            executor.submit(refuse)


def test_no_cluster_there() -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    with pytest.raises(InfrastructureError, match="--ray-address"):
        RayExecutor(1, "127.0.0.1:1")


def test_without_ray() -> None:
    code = "import sys; sys.modules['ray'] = None\nfrom execcritic.batch.ray import RayExecutor\nRayExecutor(1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "UsageError: Ray is not installed; install it with" in done.stderr
