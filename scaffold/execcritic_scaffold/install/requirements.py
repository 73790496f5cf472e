"""Requirement files: which of them hold what the tests need, and what they name."""

from __future__ import annotations

import re
from collections.abc import Iterable

from execcritic_scaffold.install.sources import Sources

_TEST, _DEV = r"(?:unit)?tests?(?:ing)?", r"dev(?:el|elop|elopment)?"


def is_test(name: str) -> bool:
    """Whether an extra, group or file of this name is for tests."""
    return re.fullmatch(_TEST, name, re.IGNORECASE) is not None


def is_dev(name: str) -> bool:
    """Whether it is for development as a whole."""
    return re.fullmatch(_DEV, name, re.IGNORECASE) is not None


def files(sources: Sources, word: str) -> list[str]:
    """The requirement files of one kind ("test", "dev" or "run"), nearest to the root first; a compiled `.txt` stands
    for its `.in`."""
    kind = {"test": _TEST, "dev": _DEV, "run": r"(?:base|common|main|prod(?:uction)?)"}[word]
    names = [
        rf"(?:requirements/)?requirements[-_.]{kind}",
        rf"(?:requirements/)?{kind}[-_.]requirements",
        rf"requirements/{kind}",
        rf"{kind}/requirements",
    ]
    if word == "run":
        names.insert(0, "requirements")
    form = re.compile(rf"(?:{'|'.join(names)})\.(?:txt|in|pip)", re.IGNORECASE)
    found = sorted((p for p in sources.paths if form.fullmatch(p)), key=lambda p: (p.count("/"), p))
    stems = {p.rpartition(".")[0] for p in found if not p.endswith(".in")}
    return [p for p in found if not p.endswith(".in") or p.rpartition(".")[0] not in stems]


def named(sources: Sources, paths: Iterable[str]) -> list[str]:
    """The requirements that some files write down themselves; options, links and included files are pip's to follow."""
    found = []
    for path in paths:
        for line in sources.text(path).replace("\\\n", " ").splitlines():
            need = re.sub(r"(^|\s)#.*|\s--hash\S*|\s--\w.*", "", line).strip()
            if need and not need.startswith(("-", ".", "/")) and "://" not in need.split("@")[0]:
                found.append(need)
    return found
