"""The test bundle (METHOD 2) and its frozen form on disk: content-addressed, re-hashed at every use (HARNESS 2C).

A frozen bundle is a directory::

    bundle.json        everything but file bytes; its `id` is the SHA-256 of the canonical rest
    files/<sha256>     the bytes of the frozen test files, the delta from the commit to Base, environment files
    test.patch         the same test files as a mergeable Base-relative diff (also hashed)

One changed byte anywhere, a missing file or a surplus one, and `FrozenBundle.load` refuses.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from execcritic_scaffold.errors import BundleError, BundleTampered, InfrastructureError, UsageError
from execcritic_scaffold.files import Changes, File

SCHEMA = 1
"""Version of the on-disk form. A higher one is refused with the advice to upgrade."""


class BehaviorContract(BaseModel):
    """What the test claims the issue says (METHOD 2)."""

    model_config = ConfigDict(extra="allow", frozen=True)

    entrypoint: str = Field(min_length=1)
    trigger: str = Field(min_length=1)
    expected_output: str = Field(min_length=1)
    issue_evidence: list[str] = Field(min_length=1)
    alternative_hypotheses: list[str]
    non_assertions: list[str]
    test_nodes: list[str] = Field(min_length=1)


class Blob(BaseModel):
    """A file carried by the bundle: git mode and SHA-256 of its bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: str
    sha256: str


class NodeRecord(BaseModel):
    """A frozen node: whether it must fail on Base, how it failed there, and how strong that evidence is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["reproducing", "companion"]
    tier: Literal["assertion", "source-exception", "value-shape", "api-absent", "passes"]
    base_outcome: str
    signature: str
    message: str = ""
    unseen: bool = False
    """Never shown to the Repair agent in feedback."""


class BundleRecord(BaseModel):
    """bundle.json without its id."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA
    harness: str
    created: str
    base_tree: str
    base_commit: str | None
    delta: Blob | None
    """Binary diff from the commit's tree to Base, where Base is not exactly a commit."""
    environment_files: dict[str, Blob]
    """Ignored files the repository needs to run (generated versions, built extensions), by path; those with
    bytes in the bundle are carried, the others are looked up in the checkout by hash."""
    issue_sha256: str
    author: str
    runner: str
    runner_options: dict[str, Any]
    files: dict[str, Blob | None]
    """Frozen test files by path; None: the file is removed."""
    readonly: list[str]
    nodes: dict[str, NodeRecord]
    superseded: list[dict[str, str]]
    contract: dict[str, Any] | None
    environment: dict[str, Any]
    """How to rebuild it: interpreter, image, set-up commands, distributions, digest, sandbox, source roots, plugins."""
    guard: dict[str, float]
    """Existing tests that passed on Base beside the frozen ones: node id to seconds."""
    evidence: list[dict[str, Any]]
    findings: list[dict[str, Any]]
    test_patch: Blob


@dataclass(frozen=True)
class FrozenBundle:
    """A frozen bundle in memory: the record, its id, and the bytes it carries by SHA-256."""

    record: BundleRecord
    blobs: Mapping[str, bytes] = field(repr=False)

    @property
    def id(self) -> str:
        """SHA-256 (hex) of the canonical record; the record holds the hash of every file."""
        return hashlib.sha256(canonical(self.record)).hexdigest()

    def blob(self, blob: Blob) -> bytes:
        """Bytes of a carried file; BundleError where the bundle does not carry them."""
        try:
            return self.blobs[blob.sha256]
        except KeyError:
            raise BundleError(f"The bundle does not carry {blob.sha256[:12]}; get a complete copy of it.") from None

    @property
    def changes(self) -> Changes:
        """The frozen test files as changes relative to Base."""
        return {
            path: None if blob is None else File(self.blob(blob), blob.mode) for path, blob in self.record.files.items()
        }

    @property
    def reproducing(self) -> tuple[str, ...]:
        return tuple(n for n, r in self.record.nodes.items() if r.kind == "reproducing")

    @property
    def unseen(self) -> frozenset[str]:
        """Nodes whose failure is not shown in feedback."""
        return frozenset(n for n, r in self.record.nodes.items() if r.unseen)

    @property
    def companions(self) -> tuple[str, ...]:
        return tuple(n for n, r in self.record.nodes.items() if r.kind == "companion")

    def save(self, directory: Path) -> None:
        """Write the bundle, read-only, into a new or empty directory; atomic: it appears whole or not at all.

        Raises UsageError where that is impossible, or something is there already; InfrastructureError for a full disk.
        """
        partial = directory.with_name(f".{directory.name}.{uuid.uuid4().hex[:12]}")
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            (partial / "files").mkdir(parents=True)
            for digest, data in self.blobs.items():
                _write(partial / "files" / digest, data)
            _write(partial / "test.patch", self.blob(self.record.test_patch))
            body = json.loads(canonical(self.record))
            _write(partial / "bundle.json", (json.dumps({"id": self.id, **body}, indent=1) + "\n").encode())
            partial.rename(directory)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise InfrastructureError(
                    f"The disk is full at {directory}; free some space and start again."
                ) from None
            raise UsageError(
                f"The bundle cannot be written to {directory} ({error.strerror}); name a new folder with --out."
            ) from None
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    @staticmethod
    def load(directory: Path) -> FrozenBundle:
        """Read and re-hash a bundle.

        Raises BundleTampered for bytes that are surplus or changed, BundleError for what is missing or too new.
        """
        path = directory / "bundle.json"
        try:
            text = path.read_bytes()
            body = json.loads(text)
        except FileNotFoundError:
            raise BundleError(f"{directory} holds no bundle.json; name the folder that `qualify` wrote.") from None
        except (ValueError, OSError) as error:
            raise BundleError(f"{path} cannot be read ({error}); get a complete copy of the bundle.") from None
        if not isinstance(body, dict) or not isinstance(body.get("schema_version"), int):
            raise BundleError(f"{path} is not a bundle; name the folder that `qualify` wrote.")
        if body["schema_version"] > SCHEMA:
            raise BundleError(
                f"The bundle has format {body['schema_version']}, this program reads up to {SCHEMA}; upgrade it."
            )
        claimed = body.pop("id", None)
        try:
            record = BundleRecord.model_validate(body)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BundleTampered(
                f"{path}: {where}: {first['msg']}; the bundle is damaged, get a complete copy of it."
            ) from None
        bundle = FrozenBundle(record, _read_blobs(directory))
        expected = (json.dumps({"id": bundle.id, **json.loads(canonical(record))}, indent=1) + "\n").encode()
        if claimed != bundle.id or text != expected:
            raise BundleTampered(
                f"{path} does not have the content its id names; the bundle was changed, do not trust it."
            )
        bundle._check_complete(directory)
        return bundle

    def _check_complete(self, directory: Path) -> None:
        record = self.record
        carried = [b for b in record.files.values() if b] + [record.test_patch]
        if record.delta:
            carried.append(record.delta)
        known = {b.sha256 for b in carried} | {b.sha256 for b in record.environment_files.values()}
        for blob in carried:
            self.blob(blob)
        if surplus := sorted(set(self.blobs) - known):
            raise BundleTampered(f"{directory}/files/{surplus[0]} belongs to no file of the bundle; do not trust it.")
        if (directory / "test.patch").read_bytes() != self.blob(record.test_patch):
            raise BundleTampered(
                f"{directory}/test.patch is not the frozen one; the bundle was changed, do not trust it."
            )
        if extra := {p.name for p in directory.iterdir()} - {"bundle.json", "files", "test.patch"}:
            raise BundleTampered(
                f"{directory}/{min(extra)} does not belong to the bundle; remove it or get a clean copy."
            )


def canonical(record: BundleRecord) -> bytes:
    """The record's canonical JSON (sorted keys, no blanks, ASCII): what its id is the hash of."""
    body = record.model_dump(mode="json")
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def blob_of(data: bytes, mode: str = "100644") -> Blob:
    return Blob(mode=mode, sha256=hashlib.sha256(data).hexdigest())


def _write(path: Path, data: bytes) -> None:
    with open(path, "xb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    path.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)


def _read_blobs(directory: Path) -> dict[str, bytes]:
    blobs: dict[str, bytes] = {}
    try:
        names = sorted(p.name for p in (directory / "files").iterdir())
        for name in names:
            if not stat.S_ISREG((directory / "files" / name).lstat().st_mode):
                raise BundleTampered(f"{directory}/files/{name} is no regular file; do not trust this bundle.")
            data = (directory / "files" / name).read_bytes()
            if hashlib.sha256(data).hexdigest() != name:
                raise BundleTampered(f"{directory}/files/{name} was changed; do not trust this bundle.")
            blobs[name] = data
        if not (directory / "test.patch").is_file():
            raise BundleError(f"{directory} has no test.patch; get a complete copy of the bundle.")
    except OSError as error:
        raise BundleError(f"{directory} cannot be read ({error}); get a complete copy of the bundle.") from None
    return blobs
