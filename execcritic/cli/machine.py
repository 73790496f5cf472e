"""`demo` and `doctor`: does it work here? `clean`: remove what it keeps on the machine."""

from __future__ import annotations

from typing import Annotated

import typer

from execcritic import output
from execcritic.cli import options

INFRASTRUCTURE = 5


def demo(out: options.Out = None, sandbox: options.SandboxName = None, json: options.Json = False) -> int:
    """The main job on a bundled sample repository with recorded model replies: no key, no network."""
    from execcritic import demo as show

    return show.run(out, sandbox, json)


def doctor(
    base_url: options.BaseUrl = None,
    repo: Annotated[
        str | None, typer.Option("--repo", metavar="PATH", help="Also say how this checkout would be set up.")
    ] = None,
    json: options.Json = False,
) -> int:
    """What this machine offers, and what to do about what it lacks. Exits 5 where no isolation is possible."""
    from execcritic import doctor as machine
    from execcritic import records

    found = list(machine.checks(base_url))
    if repo is not None:
        from execcritic.cli import common

        found.append(machine.setup_of(common.folder(repo)))
    ok = machine.usable(found)
    lines = []
    for check in found:
        mark = {True: "ok", False: "NO", None: "--"}[check.ok]
        lines.append(f"{mark}  {check.name:<16} {check.detail}")
        if check.remedy and not check.ok:
            lines.append(f"    {'':<16} {check.remedy}")
    lines.append("Ready." if ok else "Not ready: the main job needs git and one of docker and bubblewrap.")
    output.result(json, {"ready": ok, "checks": records.plain(found)}, "\n".join(lines))
    return 0 if ok else INFRASTRUCTURE


def clean(
    dry_run: Annotated[bool, typer.Option("--dry-run", metavar="", help="Only say what would be removed.")] = False,
    json: options.Json = False,
) -> int:
    """Remove what this program keeps on the machine: caches, containers, images. Not while another run goes on."""
    from execcritic import cleaning

    found = [
        what
        for kind in (cleaning.caches, cleaning.services, cleaning.temporary, cleaning.engine)
        for what in kind(dry_run)
    ]
    verb = "Would remove" if dry_run else "Removed"
    text = "\n".join(f"{verb} {what}" for what in found) or "There is nothing to remove."
    output.result(json, {"dry_run": dry_run, "removed": found}, text)
    return 0
