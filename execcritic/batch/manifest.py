"""batch.json: what was asked of a batch. A later start may add instances and repeats; all else has to be the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from execcritic import __version__, config, credentials, outfile
from execcritic.batch.assignment import Mode
from execcritic.batch.folder import Folder
from execcritic.config import Config
from execcritic.places import Place
from execcritic.request import harmless
from execcritic_scaffold.errors import UsageError

SCHEMA = 1
_GROWING = ("schema", "execcritic", "ids", "repeats", "changed")
"""What may differ between two starts without a word of the user's."""


@dataclass(frozen=True)
class Asked:
    """What a batch is about. `models`, `bundles` and `round0` as the user gave them; `digest` is the data set's."""

    dataset: str
    split: str | None
    digest: str
    ids: tuple[str, ...]
    mode: Mode
    repeats: int
    models: Mapping[str, str | None]
    place: Mapping[str, Any]
    bundles: str | None
    round0: str | None
    config: Config

    @property
    def body(self) -> dict[str, Any]:
        settings = config.kept(self.config)
        settings.pop("batch")  # money, disk and patience may change at any time
        body = {
            "schema": SCHEMA,
            "execcritic": __version__,
            "dataset": {"name": self.dataset, "split": self.split, "digest": self.digest},
            "mode": self.mode.value,
            "repeats": self.repeats,
            "models": dict(self.models),
            "place": dict(self.place),
            "bundles": self.bundles,
            "round0": self.round0,
            "config": settings,
            "ids": list(self.ids),
        }
        masked: dict[str, Any] = credentials.masked(json.loads(json.dumps(body)))
        return masked


def read(folder: Folder) -> dict[str, Any] | None:
    """What an earlier start wrote; None in a new folder. Raises UsageError where it is damaged or too new."""
    try:
        body = json.loads(folder.manifest.read_bytes())
        known = isinstance(body, dict) and isinstance(body["schema"], int) and isinstance(body["ids"], list)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, OSError) as error:
        raise UsageError(f"{folder.manifest} cannot be read ({error}); restore it, or name a new --out.") from None
    if not known:
        raise UsageError(f"{folder.manifest} is not what a batch writes; name another folder with --out.")
    if body["schema"] > SCHEMA:
        raise UsageError(f"{folder.root} was written by a newer version; upgrade execcritic.")
    checked: dict[str, Any] = body
    return checked


def reopened(folder: Folder, models: Mapping[str, str | None], said: Place, now: Config) -> Asked:
    """What an earlier start asked for, to go on with it; `models` and `said` win. `digest` is to be taken anew.

    A batch may come from anybody: as with a run (`Request.again`), it names no code of the host to import or to start,
    and not where the user's key is sent. Raises UsageError for what the user has to say again.
    """
    body = read(folder)
    if body is None:
        raise UsageError(f"{folder.root} is no batch that can be resumed; name a folder that `swebench run` wrote.")
    try:
        fields: Mapping[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in body["place"].items()
        }
        place = Place(**fields)
        return Asked(
            body["dataset"]["name"],
            body["dataset"]["split"],
            body["dataset"]["digest"],
            tuple(body["ids"]),
            Mode(body["mode"]),
            body["repeats"],
            {role: models.get(role) or harmless(role, spec) for role, spec in body["models"].items()},
            asdict(place.again(said, folder.root)),
            body["bundles"],
            body["round0"],
            config.restored({**body["config"], "batch": now.batch}, now),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{folder.manifest} is damaged ({type(error).__name__}: {error}); say the whole command again."
        ) from None


def settle(folder: Folder, asked: Asked, allow_changes: bool) -> dict[str, Any]:
    """Write batch.json for this start and return it: of a new batch, or of an earlier one with what has been added.

    Raises UsageError with what is different from the earlier start, unless that is allowed; then it is kept in
    `changed`.
    """
    body, known = asked.body, read(folder)
    if known is not None:
        different = list(differences(known, body))
        if different and not allow_changes:
            raise UsageError(
                f"{folder.root} was begun otherwise: {'; '.join(different[:5])}. Say --allow-changed-config to go on "
                "all the same, or name a new --out."
            )
        body["ids"] = list(dict.fromkeys([*known["ids"], *body["ids"]]))
        body["repeats"] = max(known["repeats"], body["repeats"])
        body["changed"] = [*known.get("changed", []), *different]
    if body != known:
        outfile.write(folder.manifest, (json.dumps(body, indent=1) + "\n").encode(), "--out")
    return body


def differences(known: Any, now: Any, name: str = "") -> Iterator[str]:
    """Each key that is different, as `key: before -> after`."""
    if isinstance(known, Mapping) and isinstance(now, Mapping):
        for key in sorted({*known, *now} if name else {*known, *now}.difference(_GROWING)):
            yield from differences(known.get(key), now.get(key), f"{name}.{key}" if name else key)
    elif known != now:
        yield f"{name}: {_short(known)} -> {_short(now)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def keys(ids: Sequence[str], repeats: int) -> list[tuple[str, int]]:
    """All runs of a batch: every instance once before any is repeated."""
    return [(name, repeat) for repeat in range(repeats) for name in ids]
