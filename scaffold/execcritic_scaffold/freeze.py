"""Freezing: from an admitted test to a content-addressed bundle (HARNESS 2C)."""

from __future__ import annotations

import datetime
import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from typing import Any

from execcritic_scaffold.agents import Submission
from execcritic_scaffold.bundle import Blob, BundleRecord, FrozenBundle, NodeRecord, blob_of
from execcritic_scaffold.outcome import Finding
from execcritic_scaffold.site import Site
from execcritic_scaffold.testpatch import TestPatch

_CARRIED = 256 << 10
"""Bytes up to which a file of the environment is carried in the bundle rather than named by hash."""


def freeze(
    site: Site,
    submission: Submission,
    patch: TestPatch,
    issue: str,
    nodes: Mapping[str, NodeRecord],
    guard: Mapping[str, float],
    evidence: Sequence[Mapping[str, Any]],
    findings: Sequence[Finding],
) -> FrozenBundle:
    """The bundle in memory; `FrozenBundle.save` writes it."""
    base = site.base
    blobs: dict[str, bytes] = {}

    def keep(data: bytes, mode: str = "100644") -> Blob:
        blob = blob_of(data, mode)
        blobs[blob.sha256] = data
        return blob

    environment_files = {
        path: keep(file.data, file.mode) if len(file.data) <= _CARRIED else blob_of(file.data, file.mode)
        for path, file in base.environment_files.items()
    }
    record = BundleRecord(
        harness=harness_version(),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        base_tree=base.tree,
        base_commit=base.commit,
        delta=keep(base.delta) if base.delta else None,
        environment_files=environment_files,
        issue_sha256=hashlib.sha256(issue.encode("utf-8", "surrogatepass")).hexdigest(),
        author=submission.author,
        runner=site.runner.name,
        runner_options={"arguments": list(site.runner.arguments), "canaries": site.canaries},
        files={p: keep(f.data, f.mode) if f else None for p, f in sorted(patch.changes.items())},
        readonly=sorted(p for p, f in patch.changes.items() if f),
        nodes=dict(nodes),
        superseded=[dict(entry) for entry in submission.superseded],
        contract=dict(submission.contract) if submission.contract is not None else None,
        environment=site.certificate(),
        guard=dict(guard),
        evidence=[dict(e) for e in evidence],
        findings=[asdict(f) for f in findings],
        test_patch=keep(base.store.diff(base.tree, patch.tree)),
    )
    return FrozenBundle(record, blobs)


@functools.cache
def harness_version() -> str:
    """The version of this program that judged, as installed."""
    try:
        return metadata.version("execcritic")
    except metadata.PackageNotFoundError:
        return "unknown"
