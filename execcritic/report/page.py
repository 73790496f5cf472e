"""The page: one HTML file that holds its own style and script, and that a browser lets load or run nothing else."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from execcritic import outfile
from execcritic.report import shown
from execcritic_roles.printable import printable

if TYPE_CHECKING:
    import jinja2

    from execcritic.report.contents import Contents

NAME = "report.html"


def render(contents: Contents) -> bytes:
    """The file's bytes."""
    style, script = (_own(name) for name in ("page.css", "page.js"))
    text = (
        _engine()
        .get_template("page.html.j2")
        .render(it=contents, style=Markup(style), script=Markup(script), policy=_policy(style, script))
    )
    # Of the whole page at once, so that no place can be forgotten: nothing in it hides, reorders or commands.
    return printable(text).encode()


@cache
def _engine() -> jinja2.Environment:
    import jinja2

    engine = jinja2.Environment(
        loader=jinja2.PackageLoader("execcritic.report", ""),
        autoescape=True,
        undefined=jinja2.ChainableUndefined,
        finalize=lambda value: "" if value is None else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("pairs", "each", "duration", "money", "thousands", "output"):
        engine.filters[name] = getattr(shown, name)
    return engine


def make(directory: Path) -> bytes:
    """The report of a run directory. Raises UsageError where it is none."""
    from execcritic.report.contents import collect

    return render(collect(directory))


def leave(directory: Path) -> Path:
    """Write the report of a run into its directory; returns where. Raises UsageError or InfrastructureError."""
    path = directory / NAME
    if path.is_symlink() or path.is_fifo():  # it came with the folder, and may lead anywhere
        path.unlink()
    outfile.write(path, make(directory), "--out")
    return path


def _own(name: str) -> str:
    """A file of this package, as it is placed between its tags: the policy's hash is of exactly this."""
    return (resources.files("execcritic.report") / name).read_text("utf-8")


def _policy(style: str, script: str) -> str:
    own = (f"style-src '{_hash(style)}'", f"script-src '{_hash(script)}'")
    return "; ".join(["default-src 'none'", *own, "base-uri 'none'", "form-action 'none'"])


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
