"""Start, or go on with, a batch: everything that can be known to be wrong first, then the folder, then the runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from execcritic import folders, places
from execcritic.batch import budget, conditions, executors, oracle, pulling
from execcritic.batch.assignment import Ending, Mode
from execcritic.batch.conditions import Conditions
from execcritic.batch.folder import Folder
from execcritic.batch.instance import Gold, Image, Instance
from execcritic.batch.journal import Key
from execcritic.batch.local import LocalExecutor
from execcritic.batch.manifest import Asked, keys
from execcritic.batch.run import Batch, Tell
from execcritic.batch.summary import Summary
from execcritic.batch.worker import COMMANDS, Settings, filled
from execcritic.places import Place
from execcritic.request import ROLES
from execcritic_roles.models import registry
from execcritic_scaffold.errors import Interrupted, ModelError, UsageError

ENDPOINT_SECONDS = 20.0
"""How long an endpoint may take to say whether it knows us."""


class Golds(Protocol):
    """Where an instance's official patch and test come from."""

    def gold(self, name: str) -> Gold: ...


@dataclass(frozen=True)
class Order:
    """What the user asked for; `instances` are those selected."""

    out: Path
    asked: Asked
    instances: Sequence[Instance]
    golds: Golds
    place: Place
    workers: int
    executor: str
    executor_options: Mapping[str, str]
    rerun: frozenset[Ending]
    allow_changes: bool


def roles(mode: Mode) -> tuple[str, ...]:
    """The roles that models play in a mode."""
    return ROLES[COMMANDS[mode]]


def start(order: Order, tell: Tell) -> Summary:
    """Do the batch; returns what it has come to. Raises UsageError, ModelError, SandboxError before anything is
    written, Interrupted after the first signal, once the turns that were being taken have ended."""
    asked = order.asked
    config = budget.limited(asked.config, roles(asked.mode))
    asked_keys = keys(asked.ids, asked.repeats)
    bundles, round0 = (Path(path) if path else None for path in (asked.bundles, asked.round0))
    conditions.check(asked.mode, bundles, round0, asked.models)
    given = Conditions(bundles, round0)
    given.check(asked_keys)
    money = budget.Budget(asked.config.batch.cost, budget.most(config, roles(asked.mode)), 0.0)
    _check_models(asked, asked_keys)
    _check_sandboxes(order)
    folder = Folder(order.out.absolute())
    with ExitStack() as stack:
        executor = stack.enter_context(executors.create(order.executor, order.workers, order.executor_options))
        settings = Settings(config, asked.models, order.place, str(folder.stop))
        with _made(folder):
            instances = {instance.id: instance for instance in order.instances}
            again = (order.rerun, order.allow_changes)
            batch = stack.enter_context(closing(Batch(folder, asked, instances, settings, given, money, tell, *again)))
        todo = batch.todo()

        def work() -> None:
            left = _with_images(order, batch, folder, _begun(batch, given, todo), tell)
            if asked.mode is Mode.ORACLE:
                left = _with_oracle(order, batch, settings, given, folder, left, tell)
            batch.run(executor, order.workers, left)

        working = _in_background(work)
        try:
            working.result()
        except KeyboardInterrupt:
            tell("warning", {"text": "Finishing the turns that are being taken; interrupt again to stop at once."})
            folder.stop.touch()
            working.result()
            raise Interrupted(
                f"Interrupted; what was done is in {folder.root}, and the same command again goes on."
            ) from None
        return batch.summary()


def _with_images(order: Order, batch: Batch, folder: Folder, todo: list[Key], tell: Tell) -> list[Key]:
    """Have the images that runs need be on this machine; the runs whose image is there. Raises SandboxError without an
    engine. Other executors' machines are their own matter."""
    images = {one.id: one.source.name for one in order.instances if isinstance(one.source, Image)}
    wanted = {images[name] for name, _ in todo if name in images}
    if not wanted or order.executor != "local":
        return todo
    cancel = threading.Event()

    def told(kind: str, data: Mapping[str, object]) -> None:
        if folder.stop.exists():
            cancel.set()
        tell(kind, data)

    reasons = {one.image: one.reason for one in pulling.fetch(wanted, order.asked.config.batch.images, told, cancel)}
    left = []
    for key in todo:
        if reason := reasons.get(images.get(key[0], "")):
            batch.fail(key, Ending.INTERRUPTED if cancel.is_set() else Ending.INFRA_FAILED, reason)
        else:
            left.append(key)
    return left


def _with_oracle(
    order: Order,
    batch: Batch,
    settings: Settings,
    given: Conditions,
    folder: Folder,
    todo: list[Key],
    tell: Tell,
) -> list[Key]:
    """Make the bundles of the official tests, in processes that never run an agent; the runs that can then be done."""
    names = list(dict.fromkeys(name for name, _ in todo))
    instances = {instance.id: instance for instance in order.instances}
    failed: dict[str, str] = {}
    with LocalExecutor(order.workers) as executor:
        futures = {}
        for name in names:
            if known := oracle.known(name, folder.oracle(name)):
                given.oracle[name] = known.bundle
            else:
                gold = order.golds.gold(name)
                futures[name] = executor.submit(oracle.make, instances[name], gold, str(folder.oracle(name)), settings)
        for name, future in futures.items():
            if folder.stop.exists():
                future.cancel()
                failed[name] = ""
                continue
            error = future.exception()  # waits
            made = future.result() if error is None else oracle.Made(name, None, f"The process died ({error}).")
            tell("oracle", {"instance": name, "frozen": made.bundle is not None, "reason": made.reason})
            if made.reason:
                failed[name] = made.reason
            else:
                given.oracle[name] = made.bundle
    for key in todo:
        if failed.get(key[0]):
            batch.fail(key, Ending.INFRA_FAILED, failed[key[0]])
    return [key for key in todo if key[0] not in failed]


def _begun(batch: Batch, given: Conditions, todo: list[Key]) -> list[Key]:
    """The runs that can begin with their Round 0; the others have ended where that was to be made."""
    left = []
    for key in todo:
        if reason := given.unusable(key):
            batch.fail(key, Ending.MODEL_FAILED, reason)
        else:
            left.append(key)
    return left


def _in_background(work: Callable[[], None]) -> Future[None]:
    """Do it in a daemon thread. Not `stoppable.Background`: a join that a signal interrupts takes the thread for ended
    (bpo-45274), and here it is waited for once more."""
    done: Future[None] = Future()

    def run() -> None:
        try:
            work()
            done.set_result(None)
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="batch", daemon=True).start()
    return done


@contextmanager
def _made(folder: Folder) -> Iterator[None]:
    """The batch's folder for what is written first, for the time of a `with` block; a new one is gone again where that
    fails. Raises UsageError for a folder that holds something else."""
    first = (folder.root / ".gitignore", folder.journal)
    if folder.manifest.exists():
        yield
        return
    if (folder.root / "manifest.json").exists():
        raise UsageError(f"{folder.root} is a run and no batch; name another folder with --out.")
    if folder.root.is_dir() and {*folder.root.iterdir()} <= {*first}:  # of a start that was killed right here
        for path in first:
            path.unlink(missing_ok=True)
    made = folders.make_new(folder.root)
    try:
        folders.hide(folder.root)
        yield
    except BaseException:
        if not folder.manifest.exists():
            for path in first:
                path.unlink(missing_ok=True)
            folders.drop_empty(made)
        raise


def _check_sandboxes(order: Order) -> None:
    """Raises SandboxError where what the instances need does not work here."""
    images = {isinstance(instance.source, Image) for instance in order.instances}
    for image in images:
        with places.sandbox(replace(order.place, sandbox=order.place.sandbox or ("docker" if image else None))):
            pass


def _check_models(asked: Asked, wanted: Sequence[Key]) -> None:
    """Raises UsageError for a model that is none, ModelError for an endpoint that refuses us or is not there."""
    missing: set[str] = set()
    for role, spec in asked.models.items():
        if spec is None:
            raise UsageError(f"No model is named for the {role} role; give --model openai:NAME or replay:FILE.")
        specs = dict.fromkeys(str(filled(spec, name, repeat)) for name, repeat in wanted)
        if len(specs) == 1 and spec in specs:
            registry.create(spec, role, asked.config.model).close()
        else:
            paths = [one.partition(":")[2] for one in specs if one.startswith("replay:")]
            missing |= {path for path in paths if not Path(path).is_file()}
    if missing:
        raise UsageError(f"There is no {min(missing)} ({len(missing)} such recordings are missing); check --model.")
    if any(spec and spec.startswith("openai:") for spec in asked.models.values()):
        _ask_endpoint(asked)


def _ask_endpoint(asked: Asked) -> None:
    """Have the endpoint say whether it knows our key, without paying for a reply."""
    import httpx

    from execcritic import credentials

    model = asked.config.model
    base = (model.base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1").rstrip("/")
    key = model.api_key.get_secret_value() if model.api_key else os.environ.get("OPENAI_API_KEY", "")
    shown = credentials.masked_url(base)
    try:
        headers = {"Authorization": f"Bearer {key.strip()}"} if key.strip() else {}
        answer = httpx.get(f"{base}/models", headers=headers, timeout=ENDPOINT_SECONDS)
    except (httpx.TransportError, httpx.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        raise ModelError(f"{shown} is unreachable ({reason}); start the server or correct --base-url.") from None
    if answer.status_code in (401, 403):
        raise ModelError(
            f"{shown} refuses us (HTTP {answer.status_code}); set OPENAI_API_KEY to a key of this endpoint."
        )
