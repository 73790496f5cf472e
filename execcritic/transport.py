"""Git with a network: clones, fetches and pushes, without the user's configuration, hooks or prompts.

The token reaches git through its environment, and a server through git's own credential protocol: only the server that
it belongs to can ask for it, also after a redirection, and it stands in no argument, configuration file or message.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from execcritic import credentials
from execcritic.github.server import Server
from execcritic_scaffold import programs
from execcritic_scaffold.plumbing import executable

_PROXIES = ("https_proxy", "http_proxy", "no_proxy", "all_proxy", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
KEPT = ("HOME", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "GIT_SSL_CAINFO", *_PROXIES)
"""Variables of the caller that git and its transports get to see."""

_HELPER = """!f() { test "$1" = get && printf 'username=x-access-token\\npassword=%s\\n' "$GITHUB_TOKEN"; }; f"""

Call = Callable[..., str]
"""A git command in one git directory: what it printed, or TransportFailure."""


class TransportFailure(Exception):
    """git failed: its exit status was not 0. Internal: callers turn it into one of ours."""

    def __init__(self, reason: str, output: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.output = output


def run(*arguments: str, server: Server | None = None, directory: Path | None = None, seconds: float) -> bytes:
    """Standard output of `git ARGUMENTS`, in the git directory `directory` where one is named.

    `server` may be shown its token. Raises TransportFailure with git's last words, free of credentials, and
    subprocess.TimeoutExpired after `seconds`.
    """
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment |= {"PATH": programs.search_path(), "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    environment |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_NO_REPLACE_OBJECTS": "1"}
    options = ["-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never", "-c", "gc.auto=0"]
    if directory is not None:
        environment["GIT_DIR"] = str(directory)
    token = server.token if server is not None and server.trusted(server.web) else None
    if server is not None and token:
        environment["GITHUB_TOKEN"] = token
        options += ["-c", f"credential.{server.web}.helper={_HELPER}"]
    done = subprocess.run(
        [executable(), *options, *arguments],
        env=environment,
        cwd="/",
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=seconds,
    )
    if done.returncode:
        said = credentials.hidden((done.stdout + done.stderr).decode(errors="replace"), (), {"TOKEN": token or ""})
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        raise TransportFailure(lines[-1] if lines else "git said nothing", said)
    return done.stdout
