"""`demo` and `doctor`: does it work here?"""

from __future__ import annotations

from execcritic.cli import options, output

INFRASTRUCTURE = 5


def demo(out: options.Out = None, sandbox: options.SandboxName = None, json: options.Json = False) -> int:
    """The main job on a bundled sample repository with recorded model replies: no key, no network."""
    from execcritic import demo as show

    return show.run(out, sandbox, json)


def doctor(base_url: options.BaseUrl = None, json: options.Json = False) -> int:
    """What this machine offers, and what to do about what it lacks. Exits 5 where no isolation is possible."""
    from execcritic import doctor as machine
    from execcritic import records

    found = list(machine.checks(base_url))
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
