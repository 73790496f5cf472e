"""The /etc of a bubblewrap sandbox: one small directory, made once per process from named files of the host's.

Users and hosts are generated: the host's own would tell its names. With the network on, name resolution and CA
certificates are added and nothing else.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
from functools import cache
from pathlib import Path

from execcritic_scaffold.sandbox import rundir

UID = 65534
HOME = "/home/agent"
_SYSTEM = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "mime.types", "protocols", "services")
_NETWORK = ("resolv.conf", "ssl/certs", "ssl/cert.pem", "ca-certificates", "pki/tls/certs", "pki/ca-trust")
_BUNDLES = ("ssl/certs/ca-certificates.crt", "pki/tls/certs/ca-bundle.crt", "ssl/cert.pem")
_GENERATED = {
    "passwd": f"root:x:0:0::/root:/usr/sbin/nologin\nagent:x:{UID}:{UID}::{HOME}:/bin/bash\n",
    "group": f"root:x:0:\nagent:x:{UID}:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def certificates() -> dict[str, str]:
    """Variables that make installers trust the authorities this machine trusts (a company's own, say), where it has
    them as one file; many bring a list of their own and look no further."""
    for name in _BUNDLES:
        if Path("/etc", name).is_file():
            return dict.fromkeys(("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"), f"/etc/{name}")
    return {}


def directory(*, network: bool) -> Path:
    """The directory to show as /etc, removed when this process ends."""
    return _made(os.getpid(), network)


@cache
def _made(pid: int, network: bool) -> Path:
    # One bind instead of a dozen: bubblewrap reads the whole mount table for each.
    root = rundir.make(shared=True)
    atexit.register(rundir.remove, root)
    etc = root / "etc"
    etc.mkdir()
    for name in _SYSTEM + (_NETWORK if network else ()):
        _copy(Path("/etc", name), etc / name)
    for name, text in _GENERATED.items():
        (etc / name).write_text(text)
    return etc


def _copy(source: Path, target: Path) -> None:
    """Copy what anybody may read. A link at the top (resolv.conf often is one) leads nowhere inside: take its file."""
    if not source.exists() or not source.stat().st_mode & stat.S_IROTH:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=_private)
    else:
        shutil.copy(source, target)


def _private(folder: str, names: list[str]) -> set[str]:
    paths = {name: Path(folder, name) for name in names}
    return {name for name, path in paths.items() if not path.lstat().st_mode & stat.S_IROTH}
