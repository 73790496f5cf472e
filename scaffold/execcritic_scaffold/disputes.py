"""Disputes: the Repair agent says that a node of the frozen test demands what the issue does not, and is ruled on.

The ruling is somebody else's (`Rule`); this file decides what is put before it and what its answer is worth. A ruling
counts only where the words it gives as the issue's are the issue's. An upheld dispute demotes the test: it decides
nothing any more. Nothing ever edits it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from execcritic_scaffold.agents import Stop
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.feedback import clip
from execcritic_scaffold.redact import Redaction
from execcritic_scaffold.runners.ids import function_of
from execcritic_scaffold.selection.evidence import WORDS, quoted

LENGTH = 800
"""Characters of a ruling's reason that the Repair agent is told."""


@dataclass(frozen=True)
class Dispute:
    """What is put before the judge. `node` is the frozen node's id; `quote` stands in the issue, which is checked."""

    node: str
    quote: str
    reason: str


@dataclass(frozen=True)
class Ruling:
    """What a judge says of a test: whether the issue asks for what it demands, the issue's words, and why.

    `supported` None: no ruling could be had, and `reason` says why.
    """

    supported: bool | None
    quote: str = ""
    reason: str = ""

    def checked(self, issue: str) -> Ruling:
        """This ruling, or none where its quote is not the issue's."""
        if self.supported is None or quoted(self.quote, issue):
            return self
        return Ruling(None, reason="the ruling did not quote the issue word for word")


Rule = Callable[[FrozenBundle, Dispute], Ruling]


@dataclass(frozen=True)
class Court:
    """Where disputes go. `allowed`: how many of an episode are ruled on."""

    rule: Rule
    issue: str
    allowed: int


@dataclass
class Docket:
    """The disputes of one Repair episode. Without a court none is heard."""

    court: Court | None
    heard: int = 0
    answers: dict[Dispute, Ruling] = field(default_factory=dict)

    def hear(self, bundle: FrozenBundle, stop: Stop, failed: bool) -> Ruling | str:
        """The ruling that upholds the dispute, else what the agent is told. `failed`: a check has failed before.

        Only what can be put before a judge is: an answer that the agent gets for a mistake of form costs no ruling.
        """
        court = self.court
        if court is None:
            return "Disputes are not heard here. Keep your changes and call submit, with the reason."
        if not failed:
            return "There is no failed check to dispute yet. Call check first."
        node = _named(bundle, stop.node)
        if node is None:
            return f"The frozen test shows no node {stop.node[:200]!r}. Name one that the feedback of the check names."
        if not quoted(stop.quote, court.issue):
            return (
                f"Not heard: the quote does not stand in the issue. Quote {WORDS} or more words in a row, as they are."
            )
        dispute = Dispute(node, stop.quote, stop.reason)
        ruling = self.answers.get(dispute)
        if ruling is None:
            if self.heard >= court.allowed:
                return (
                    "No further dispute is heard. Revise your changes and call check, or keep them and call submit, "
                    "with the reason."
                )
            self.heard += 1
            ruling = self.answers[dispute] = court.rule(bundle, dispute).checked(court.issue)
        return ruling if ruling.supported is False else _denied(bundle, ruling)


def _named(bundle: FrozenBundle, name: str) -> str | None:
    """The node that the agent means: it is shown the last part of an id only. Unseen nodes cannot be named."""
    shown = [n for n in bundle.record.nodes if n not in bundle.unseen]
    if name in shown:
        return name
    found = [n for n in shown if name and (n.endswith(f"::{name}") or function_of(n)[-1:] == (name,))]
    return found[0] if found else None


def _denied(bundle: FrozenBundle, ruling: Ruling) -> str:
    # The judge has read the test; what it says of it must not show its lines to the Repair agent.
    reason = clip(Redaction(bundle).apply(ruling.reason, False), LENGTH)
    if ruling.supported is None:
        return f"The dispute could not be ruled on ({reason}). The test stands."
    return (
        f'The dispute is denied: the test stands. The issue says: "{ruling.quote[:LENGTH]}"\n{reason}\n'
        "Read the issue again with this in mind, revise your changes and call check."
    )
