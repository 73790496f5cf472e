"""What the Repair agent is told about a check (METHOD 4, HARNESS 3.6): evidence, bounded, never the test's source."""

from __future__ import annotations

from execcritic_scaffold import classify
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.normalise import normalise
from execcritic_scaffold.outcome import Failure, NodeResult, Origin, Outcome, RunReport, Verdict
from execcritic_scaffold.paths import PathKind
from execcritic_scaffold.redact import Redaction
from execcritic_scaffold.site import Site

_FRAMES = 12
_MESSAGE = 2500
_NAME = 200
"""Characters of a class's, a function's or a file's name: code under test chooses them."""


def of_run(site: Site, bundle: FrozenBundle, report: RunReport, limit: int) -> str:
    """The failing nodes of a run: outcome, assertion difference, and the frames that lie in source.

    Of the bundle's unseen nodes it is said only that there are some and that they fail; the frozen files' own lines
    are taken out of everything.
    """
    parts: list[str] = []
    redaction = Redaction(bundle)
    for path, failure in report.collect_errors.items():
        kind = site.runner.discovery.kind(path.split("::")[0])
        told = _failure(site, redaction, failure)
        parts.append(f"The test file cannot be imported with this patch ({kind}).\n{told}")
    failing = [r for r in report.results.values() if r.outcome is not Outcome.PASSED]
    parts += [_node(site, redaction, result) for result in failing if result.node not in bundle.unseen]
    if hidden := sum(result.node in bundle.unseen for result in failing):
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


def _node(site: Site, redaction: Redaction, result: NodeResult) -> str:
    head = f"{result.node.rsplit('::', 1)[-1]}: {result.outcome}"
    return f"{head}\n{_failure(site, redaction, result.failure)}" if result.failure else head


def _failure(site: Site, redaction: Redaction, failure: Failure) -> str:
    discovery = site.runner.discovery
    by_test = failure.is_a(*classify.ASSERTIONS) and classify.origin(failure, discovery) is Origin.TEST
    message = clip(redaction.apply(normalise(failure.message).strip(), by_test), _MESSAGE)
    kind = redaction.apply(failure.kind.removeprefix("builtins."), False)[:_NAME]
    lines = [f"{kind}: {message}" if message else kind]
    for frame in [f for f in failure.frames if f.inside][-_FRAMES:]:
        if discovery.kind(frame.path) is PathKind.SOURCE:
            lines.append(redaction.apply(f"  {frame.path[:_NAME]}:{frame.line} in {frame.function[:_NAME]}", False))
        else:
            lines.append("  (the test)")
    return "\n".join(lines)
