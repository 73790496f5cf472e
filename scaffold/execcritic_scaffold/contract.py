"""A6: the behaviour contract says what the issue says, word for word where it quotes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from execcritic_scaffold.bundle import BehaviorContract

_BLANK = re.compile(r"\s+")


def check(
    contract: Mapping[str, Any], issue: str, nodes: Iterable[str], in_repository: Callable[[str], bool]
) -> tuple[str, str] | None:
    """None for a contract that holds, else (detail, next action). Whatever a contract holds, this is an answer.

    Every evidence quote must occur in the issue or, white space folded, in a file of the repository
    (`in_repository` answers that); `test_nodes` must be the reproducing nodes: as they were declared (the keys of
    `nodes`) or, where that is a mapping, as the runner reports them (its values).
    """
    try:
        parsed = BehaviorContract.model_validate(contract)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(p) for p in first["loc"])
        return f"the contract's {where}: {first['msg']}", "Fill in every field of the contract."
    folded = fold(issue)
    for quote in parsed.issue_evidence:
        if not fold(quote):
            return "an evidence quote of the contract is empty", "Quote the issue's own words."
        if fold(quote) not in folded and not in_repository(quote):
            return (
                f"the quote {quote[:200]!r} occurs neither in the issue nor in the repository",
                "Quote the issue literally; do not paraphrase.",
            )
    declared = set(nodes)
    bound = set(nodes.values()) if isinstance(nodes, Mapping) else declared
    if set(parsed.test_nodes) not in (declared, bound):
        return (
            f"the contract's test_nodes {sorted(parsed.test_nodes)} are not the reproducing nodes {sorted(declared)}",
            "List exactly the declared reproducing node ids in test_nodes.",
        )
    return None


def fold(text: str) -> str:
    """The text with every run of white space as one blank."""
    return _BLANK.sub(" ", text).strip()
