"""The certificate of a verdict: what was frozen, where it failed on Base, what it says of the patch, how to re-check.

One structure, three forms: JSON (`data`), Markdown for a pull request's comment (`markdown`), and plain text through
`messages.verdict`. Everything in it comes from the bundle and the verdict; nothing from a model.
"""

from __future__ import annotations

import hashlib
from typing import Any

from execcritic import messages
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.freeze import harness_version
from execcritic_scaffold.outcome import Decision, Verdict

_MARK = {Decision.PASS: "✅", Decision.FAIL: "❌"}


def data(bundle: FrozenBundle, verdict: Verdict, patch: bytes) -> dict[str, Any]:
    """The certificate as JSON values."""
    record = bundle.record
    return {
        "bundle": bundle.id,
        "patch_sha256": hashlib.sha256(patch).hexdigest(),
        "harness": {"frozen_by": record.harness, "judged_by": harness_version()},
        "base": {"commit": record.base_commit, "tree": record.base_tree, "dirty": record.delta is not None},
        "issue_sha256": record.issue_sha256,
        "frozen_files": {path: blob.sha256 if blob else None for path, blob in record.files.items()},
        "runner": record.runner,
        "environment": {k: record.environment.get(k) for k in ("sandbox", "python", "image", "version", "digest")},
        "nodes": {
            node: {
                "kind": frozen.kind,
                "tier": frozen.tier,
                "on_base": frozen.base_outcome,
                "base_failure": frozen.message,
                "with_patch": str(verdict.nodes[node]) if node in verdict.nodes else None,
            }
            for node, frozen in record.nodes.items()
        },
        "base_runs": len([e for e in record.evidence if e["run"] != "control"]),
        "patch_runs": list(verdict.runs),
        "guard": {"covered": verdict.guard.nodes, "passed": verdict.guard.passed, "not_run": verdict.guard.not_run},
        "findings": {
            "test": [{"code": f["code"], "detail": f["detail"]} for f in record.findings],
            "patch": [{"code": f.code, "detail": f.detail} for f in verdict.findings],
        },
        "verdict": str(verdict.decision),
        "reason": verdict.reason,
    }


def markdown(bundle: FrozenBundle, verdict: Verdict, patch: bytes) -> str:
    """The certificate for a pull request's comment. Everything that is not ours is escaped."""
    body = data(bundle, verdict, patch)
    base = body["base"]
    at = f"commit `{base['commit'][:12]}`" if base["commit"] else f"tree `{base['tree'][:12]}`"
    dirty = " plus uncommitted changes" if base["dirty"] else ""
    lines = [
        f"### {_MARK.get(verdict.decision, '⚠️')} ExecCritic: {verdict.decision} — {_plain(verdict.detail)}",
        "",
        f"Frozen test `{bundle.id[:16]}` on {at}{dirty}; patch `{body['patch_sha256'][:16]}`.",
        "",
        "| node | kind | on Base | with the patch |",
        "|---|---|---|---|",
    ]
    for node, one in body["nodes"].items():
        lines.append(f"| {_code(node)} | {one['kind']} | {one['on_base']} | {one['with_patch'] or 'not run'} |")
    guard = verdict.guard
    if guard.mode != "off":
        lines += ["", f"Guard: {messages.guarded(guard)}."]
        lines += [f"- newly failing: {_code(node)}" for node in guard.newly_failing[:20]]
    failures = {n: one["base_failure"] for n, one in body["nodes"].items() if one["base_failure"]}
    if failures:
        lines += ["", "<details><summary>How it fails on Base</summary>", ""]
        lines += [line for n, text in failures.items() for line in (f"{_code(n)}", "", _block(text), "")]
        lines.append("</details>")
    findings = [*body["findings"]["patch"], *body["findings"]["test"]]
    if findings:
        lines += ["", "<details><summary>Findings</summary>", ""]
        lines += [f"- `{f['code']}` {_plain(f['detail'])}" for f in findings]
        lines += ["", "</details>"]
    lines += ["", "Re-check without a model: `execcritic verify --bundle BUNDLE --repo . --patch PATCH`", ""]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Text of unknown origin on one line of Markdown, with nothing in it that formats, links or mentions."""
    one = " ".join(text.split())
    for mark in ("\\", "`", "*", "_", "[", "]", "<", ">", "|", "#", "@", "!"):
        one = one.replace(mark, f"&#{ord(mark)};")
    return one[:500]


def _code(text: str) -> str:
    """A code span that holds any text, safe inside a table's cell."""
    one = text.replace("\r", "\\r").replace("\n", "\\n").replace("|", "&#124;")
    if "`" in one or "&#124;" in one:
        return f"<code>{one.replace('&#124;', '|').translate(_HTML)}</code>"
    return f"`{one}`"


_HTML = {ord(c): f"&#{ord(c)};" for c in "&<>`|*_[]"}


def _block(text: str) -> str:
    """A fenced block whose fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in _runs(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def _runs(text: str) -> list[str]:
    return [run for run in "".join(c if c == "`" else " " for c in text).split(" ") if run]
