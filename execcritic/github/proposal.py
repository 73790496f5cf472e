"""What a pull request says: title, body, branch and commit messages, of a verified run and of nothing a model wrote."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from execcritic import __version__, certificate
from execcritic.evidence import Evidence
from execcritic.github.names import Repository
from execcritic_scaffold.wording import count

LONGEST = 60000
"""Characters of a body; GitHub takes 65536."""
WIDTH = 72
"""Characters of a title that comes from an issue."""


@dataclass(frozen=True)
class Subject:
    """The issue: its first line and, where it is one on GitHub, its repository and number."""

    line: str
    repository: Repository | None = None
    number: int | None = None

    def named(self, into: Repository | None) -> str | None:
        """How the issue is referred to from a repository: `#7`, `owner/repo#7`, or its address on another server.

        None for one that is not on GitHub.
        """
        own = self.repository
        if own is None or self.number is None:
            return None
        if into is not None and own.url.lower() == into.url.lower():
            return f"#{self.number}"
        return f"{own.slug}#{self.number}" if into and own.server.web == into.server.web else own.issue(self.number)


def title(subject: Subject) -> str:
    """The issue's first line without what GitHub would act on in a title or a commit: it was written by anybody."""
    text = "".join(sign if unicodedata.category(sign)[0] != "C" else " " for sign in subject.line)
    text = re.sub(r"^\s*#+\s", "", text)
    text = re.sub(r"[@#](?=\w)", "", text)  # a mention, or a reference that closes another issue
    text = re.sub(r"(?i)\bGH-(?=\d)", "GH ", text).replace("://", " ")
    text = " ".join(text.split())
    cut = text if len(text) <= WIDTH else text[: WIDTH - 1].rsplit(" ", 1)[0] + "…"
    return f"Fix: {cut}" if cut else "Fix an issue"


def branch(subject: Subject, evidence: Evidence) -> str:
    """A name that the same run gets again, and another run for the same issue does not."""
    issue = f"issue-{subject.number}-" if subject.number else ""
    return f"execcritic/{issue}{evidence.digest[:8]}"


def messages(subject: Subject, evidence: Evidence, headline: str, into: Repository | None) -> tuple[str, str]:
    """The messages of the two commits: the test's, the fix's."""
    reference = subject.named(into)
    about = f"issue {reference}" if reference else "the issue"
    test = (
        f"Add a regression test for {about}\n\n"
        f"It fails on the commit before it. Frozen by ExecCritic as {evidence.bundle.id[:16]}."
    )
    fixes = f"\n\nFixes {reference}" if reference else ""
    return test, f"{headline}\n\nThe regression test before it passes with this change.{fixes}"


def body(subject: Subject, evidence: Evidence, into: Repository | None) -> str:
    """The description: what it fixes, what the commits are, and the certificate."""
    reference = subject.named(into)
    nodes = len(evidence.bundle.reproducing)
    files = ", ".join(sorted({f"`{path}`" for path in evidence.bundle.record.files if _simple(path)})[:5])
    own = evidence.bundle.record.author == "person"
    wrote = "A person wrote the test, a coding agent the fix" if own else "Two coding agents wrote them, apart"
    first = [
        f"Fixes {reference}.\n" if reference else "",
        f"1. A regression test{f' ({files})' if files else ''}: {count(nodes, 'node')} that must fail without the fix.",
        "2. The fix.\n",
        f"{wrote}: whoever wrote the fix never saw the test. The harness (ExecCritic {__version__}) ran everything "
        "below. The test shows what its author read in the issue; whether that reading is right, and whether the fix "
        "is good code, is for review.\n",
    ]
    head = "\n".join(line for line in first if line)
    return _bounded(head + "\n", certificate.markdown(evidence.bundle, evidence.verdict, evidence.patch))


def _bounded(head: str, record: str) -> str:
    """With the certificate whole, else without its details, else as many of its lines as there is room for."""
    note = "\n(cut: too long for a pull request)\n"
    room = LONGEST - len(head) - len(note)
    if len(record) > room:
        short = record.partition("\n<details>")[0]
        record = (short if len(short) <= room else short[:room].rpartition("\n")[0]) + note
    return (head + record).encode("utf-8", "backslashreplace").decode()  # names of files and tests are bytes


def _simple(path: str) -> bool:
    return re.fullmatch(r"[\w./+-]+", path, re.ASCII) is not None
