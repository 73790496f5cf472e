"""A person's word on a test before it is frozen for the Repair agent (`--review-test`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from execcritic_roles.terminal import Terminal
from execcritic_scaffold.agents import Submission
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.contract import fold
from execcritic_scaffold.errors import Interrupted
from execcritic_scaffold.qualification import Qualification

EVENT = "test.review"
_QUESTION = "Use this test? y(es), n(o) REASON, v(iew again) > "


class Review:
    """Shows each test that the harness admits, and asks. A no is a rejection with the code REVIEW.

    `answered`: the events of earlier attempts; what was answered there is not asked again. `note` records an answer.
    """

    def __init__(
        self,
        terminal: Terminal,
        issue: str,
        note: Callable[[str, Mapping[str, Any]], None],
        answered: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        self._terminal, self._issue, self._note = terminal, issue, note
        self._answers = {event["submission"]: event for event in answered if event["event"] == EVENT}

    def __call__(self, submission: Submission, result: Qualification) -> Qualification:
        """The qualification, or a rejection in its place. Raises Interrupted at the end of the input."""
        if result.bundle is None:
            return result
        key = _key(submission)
        answer = self._answers.get(key)
        if answer is None:
            accepted, reason = self._ask(result.bundle)
            answer = {"submission": key, "accepted": accepted, "reason": reason}
            self._note(EVENT, answer)
        if answer["accepted"]:
            return result
        return replace(
            result,
            status="REJECTED",
            code="REVIEW",
            detail=f"the reviewer does not accept this test{': ' if answer['reason'] else ''}{answer['reason']}",
            next_action="Change what the reviewer objects to, and submit again.",
            bundle=None,
        )

    def _ask(self, bundle: FrozenBundle) -> tuple[bool, str]:
        text = described(bundle, self._issue)
        with self._terminal.floor():
            self._terminal.page(text)
            try:
                while True:
                    word, _, reason = self._terminal.line(_QUESTION, answer=True).strip().partition(" ")
                    match word.lower():
                        case "y" | "yes":
                            return True, ""
                        case "n" | "no":
                            why = reason.strip() or self._terminal.line("Why (for the Test agent)? ", answer=True)
                            return False, why.strip()
                        case "v" | "view":
                            self._terminal.page(text)
            except EOFError:
                raise Interrupted("The test was not reviewed; `resolve --resume DIR` asks again.") from None


def described(bundle: FrozenBundle, issue: str) -> str:
    """What a reviewer needs: the contract with its evidence, how the test failed on Base, findings, the diff."""
    record = bundle.record
    lines = [f"=== The Test agent's test qualifies: bundle {bundle.id[:12]}", "", "Contract"]
    contract = record.contract or {}
    for name, value in contract.items():
        if name in ("issue_evidence", "test_nodes"):
            continue
        said = "; ".join(map(str, value)) if isinstance(value, list) else str(value)
        lines.append(f"  {name.replace('_', ' '):<24}{said or '-'}")
    for quote in contract.get("issue_evidence", ()):
        where = "the issue" if fold(str(quote)) in fold(issue) else "the repository"
        lines.append(f'  quoted from {where:<12}"{quote}"')
    lines += ["", "On Base"]
    for node, found in record.nodes.items():
        unseen = ", kept unseen" if found.unseen else ""
        lines.append(f"  {found.base_outcome} ({found.tier}{unseen})  {node}")
        lines += [f"      {line}" for line in found.message.splitlines()]
    if record.superseded:
        lines += ["", "Existing tests it calls wrong"]
        lines += [f'  {entry["node"]}: {entry["reason"]} ("{entry["issue_quote"]}")' for entry in record.superseded]
    if record.findings:
        lines += ["", "Findings", *(f"  {found['code']}: {found['detail']}" for found in record.findings)]
    return "\n".join([*lines, "", bundle.blob(record.test_patch).decode("utf-8", "backslashreplace")])


def _key(submission: Submission) -> str:
    """A submission by its content; a bundle's id would hold the time too."""
    body = {**asdict(submission), "patch": hashlib.sha256(submission.patch).hexdigest()}
    return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()
