"""What the Repair agent is told about a check (METHOD 4, HARNESS 3.6): evidence, bounded, never the test's source."""

from __future__ import annotations

from collections.abc import Collection

from execcritic_scaffold.normalise import normalise
from execcritic_scaffold.outcome import Failure, NodeResult, Outcome, RunReport, Verdict
from execcritic_scaffold.paths import PathKind
from execcritic_scaffold.site import Site

_FRAMES = 12
_MESSAGE = 2500


def of_run(site: Site, report: RunReport, limit: int, unseen: Collection[str] = ()) -> str:
    """The failing nodes of a run: outcome, assertion difference, and the frames that lie in source.

    Of nodes in `unseen` it is said only that there are some and that they fail.
    """
    parts: list[str] = []
    for path, failure in report.collect_errors.items():
        parts.append(
            f"The test file cannot be imported with this patch ({_kind(site, path)}).\n{_failure(site, failure)}"
        )
    failing = [r for r in report.results.values() if r.outcome is not Outcome.PASSED]
    parts += [_node(site, result) for result in failing if result.node not in unseen]
    if hidden := sum(result.node in unseen for result in failing):
        parts.append(
            f"{hidden} more of the frozen test's nodes fail; they ask for the same behaviour with other inputs and are "
            "not shown. Implement the behaviour, not the inputs above."
        )
    return clip("\n\n".join(parts), limit)


def compare(text: str, now: str, previous: Verdict | None, limit: int) -> str:
    """The feedback with one line in front that says what changed since the last check."""
    if previous is None:
        return clip(text, limit)
    if previous.signature == now:
        line = "Same failure as at the last check."
    elif previous.decision.value == "FAIL":
        line = "The failure differs from the last check's."
    else:
        line = f"The last check ended {previous.decision} ({previous.reason})."
    return clip(f"{line}\n\n{text}", limit)


def clip(text: str, limit: int) -> str:
    """At most `limit` characters: head and tail, with a line that says how much is missing."""
    if len(text) <= limit:
        return text
    note = f"\n[... {len(text) - limit} characters left out ...]\n"
    half = (limit - len(note)) // 2
    return text[:half] + note + text[-half:]


def _node(site: Site, result: NodeResult) -> str:
    head = f"{_name(result.node)}: {result.outcome}"
    return f"{head}\n{_failure(site, result.failure)}" if result.failure else head


def _name(node: str) -> str:
    return node.rsplit("::", 1)[-1]


def _failure(site: Site, failure: Failure) -> str:
    message = clip(normalise(failure.message).strip(), _MESSAGE)
    lines = [f"{failure.kind.removeprefix('builtins.')}: {message}" if message else failure.kind]
    frames = [f for f in failure.frames if f.inside][-_FRAMES:]
    for frame in frames:
        if site.runner.discovery.kind(frame.path) is PathKind.SOURCE:
            lines.append(f"  {frame.path}:{frame.line} in {frame.function}")
        else:
            lines.append("  (the test)")
    return "\n".join(lines)


def _kind(site: Site, path: str) -> str:
    return str(site.runner.discovery.kind(path.split("::")[0]))
