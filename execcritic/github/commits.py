"""The two commits of a pull request, test first, then fix: made with plumbing in a private view of a checkout.

Nothing is written to the checkout. The same run, author and messages give the same commit ids, so that a second attempt
is known to be the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.checkout import Checkout
from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.store import Store

_FORMAT = (
    *("format-patch", "-1", "--stdout", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv"),
    *("--no-signature", "--no-attach", "--subject-prefix=PATCH"),
)


@dataclass(frozen=True)
class Commit:
    """A commit with its message, its size as git shows it, and itself as a patch for `git am`."""

    id: str
    subject: str
    stat: str
    patch: bytes = field(repr=False)


@dataclass(frozen=True)
class Author:
    """`who` is NAME <EMAIL>; `seconds` since the epoch, of both commits."""

    who: str
    seconds: int


def series(
    checkout: Checkout, bundle: FrozenBundle, fix: bytes, messages: tuple[str, str], author: Author
) -> tuple[Commit, Commit]:
    """The frozen test, and on it the fix, on the commit that is Base. What the second one holds is what was judged.

    Raises UsageError where the checkout does not have that commit.
    """
    start = bundle.record.base_commit
    tree = bundle.record.base_tree
    if start is None or checkout.commit(start) != start:
        raise UsageError(f"{checkout.root} does not have the commit {(start or tree)[:12]}; fetch it, and try again.")
    store = Store(checkout.git.directory)
    base = checkout.git.need("rev-parse", f"{start}^{{tree}}").decode().strip()
    trees = (store.edit(base, bundle.changes), store.edit(store.apply(base, fix), bundle.changes))
    test = _commit(checkout, trees[0], start, messages[0], author)
    return test, _commit(checkout, trees[1], test.id, messages[1], author)


def _commit(checkout: Checkout, tree: str, parent: str, message: str, author: Author) -> Commit:
    signed = f"{author.who} {author.seconds} +0000"
    lines: Sequence[str] = (f"tree {tree}", f"parent {parent}", f"author {signed}", f"committer {signed}", "", message)
    git = checkout.git
    oid = git.need("hash-object", "-t", "commit", "-w", "--stdin", stdin=("\n".join(lines) + "\n").encode())
    name = oid.decode().strip()
    stat = git.need("diff-tree", "--stat=100", "--no-renames", "--no-ext-diff", parent, name).decode("utf-8", "replace")
    return Commit(name, message.splitlines()[0], stat.rstrip("\n"), git.need(*_FORMAT, name))
