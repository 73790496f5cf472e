"""Why bubblewrap does not start on this machine, and the remedy (SANDBOX.md 11)."""

from __future__ import annotations

import shutil
from pathlib import Path

from execcritic_scaffold import programs

TOOLS = ("bwrap", "unshare", "mount", "setpriv", "prlimit", "bash")
PATH = programs.search_path("/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Where this machine's own tools are looked for; a user's PATH may lack the sbin directories."""


def missing_tools() -> str | None:
    """One sentence naming what is not installed, or None."""
    missing = [name for name in TOOLS if not shutil.which(name, path=PATH)]
    if missing:
        return f"{', '.join(missing)} not found; install bubblewrap, util-linux and bash with your package manager."
    return None


def explain(error: str) -> str:
    """One sentence that quotes bubblewrap's (or the launcher's) complaint and ends with the remedy."""
    text = " ".join(error.split())[-300:] or "no message"
    denied = any(word in text.lower() for word in ("userns", "uid map", "unshare", "mount", "permi"))
    if denied and _setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        remedy = (
            "AppArmor restricts user namespaces here (Ubuntu 24.04): give bwrap and unshare a profile, or run"
            " `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
        )
    elif _setting("user/max_user_namespaces") == "0":
        remedy = "user namespaces are switched off here: run `sudo sysctl user.max_user_namespaces=15000`"
    elif _setting("kernel/unprivileged_userns_clone") == "0":
        remedy = "user namespaces are switched off here: run `sudo sysctl kernel.unprivileged_userns_clone=1`"
    elif denied:
        remedy = "inside a container, start it with --privileged or --security-opt seccomp=unconfined"
    else:
        remedy = "see `execcritic doctor`"
    return f"bubblewrap did not start ({text}); {remedy}."


def _setting(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:
        return ""
