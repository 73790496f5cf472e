"""A1: existing tests that encode the bug, declared as such: which they are, and what the declaration excuses.

An entry names one node, or one function without its parameters and with that all its cases, always with its file. It
excuses exactly that: not another test of the same name, not other cases, not another file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from execcritic_scaffold import contract as contracts
from execcritic_scaffold.agents import Submission
from execcritic_scaffold.qualification import Refusal
from execcritic_scaffold.runners.ids import function_of
from execcritic_scaffold.runners.protocol import Runner


def check(submission: Submission, issue: str, most: int) -> Refusal | None:
    """What is declared superseded is little, and each has a file, a reason and a quote of the issue that says so."""
    if len(submission.superseded) > most:
        return Refusal("SUPERSEDED", f"{len(submission.superseded)} tests are superseded, at most {most} may be",
                       "Declare only the tests that encode the reported bug.")  # fmt: skip
    folded = contracts.fold(issue)
    for entry in submission.superseded:
        quote = contracts.fold(str(entry.get("issue_quote", "")))
        texts = all(isinstance(value, str) for value in entry.values())
        if not texts or not entry.get("node") or not entry.get("reason") or not quote or quote not in folded:
            return Refusal(
                "SUPERSEDED",
                f"the superseded entry for {entry.get('node') or 'no node'} lacks a reason or a literal issue quote",
                "Give node, issue_quote (literal) and reason for each.",
            )
        if not any(mark in entry["node"] for mark in ("::", ".")):
            return Refusal(
                "SUPERSEDED",
                f"the superseded entry {entry['node']} does not say in which file",
                "Give the node id as the runner reports it, with its file.",
            )
    return None


def functions(entries: Iterable[Mapping[str, str]], runner: Runner, path: str) -> frozenset[tuple[str, ...]]:
    """Class and function names of this file whose text may change or go: those that are declared without parameters,
    since a change of the function concerns every case."""
    found = set()
    for entry in entries:
        node = entry.get("node")
        if not isinstance(node, str) or "[" in node:
            continue
        file = (runner.file_of(node) or "").removeprefix("./")
        if file and (path == file or path.endswith(f"/{file}")):
            names = function_of(node)
            module = path.rsplit("/", 1)[-1].removesuffix(".py")
            found.add(names[1:] if "::" not in node and names[0] == module else names)
    return frozenset(found)


def nodes(submission: Submission, runner: Runner, collected: Iterable[str]) -> frozenset[str] | Refusal:
    """The nodes of Base that the entries name; Refusal where one names none."""
    known = list(collected)
    cases: dict[str, list[str]] = {}
    for node in known:
        cases.setdefault(node.split("[")[0], []).append(node)
    found: set[str] = set()
    for entry in submission.superseded:
        given = entry["node"]
        one = runner.match(given, known)
        every = runner.match(given, cases) if "[" not in given else None
        if one is None and every is None:
            return Refusal(
                "SUPERSEDED",
                f"the superseded entry {given} is no test that the runner collects on Base",
                "Give the node id as the runner reports it on Base, or the function without its parameters.",
            )
        found.update([one] if one else [], cases[every] if every else [])
    return frozenset(found)
