#!/usr/bin/env python3
"""Build a small Docker image from this machine's own Python, git and shell tools, without a registry.

Usage: image.py TAG [--python EXE]

What is copied: the dynamic-library closure of the tools (as `ldd` tells it), the standard library of EXE's base
interpreter, and pytest with its requirements from EXE's own site-packages. In the image `python3` and `python`
are on PATH. About 160 MB and a few seconds, where debootstrap takes a minute and twice the space.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import docker

# Left out where this machine lacks one.
TOOLS = """bash sh dash env cat ls cp mv rm ln mkdir rmdir mktemp chmod chown touch head tail tac wc sort uniq cut tr
tee seq date dd df du od nl comm paste join split shuf fold expr install truncate mkfifo echo printf false true test
sleep timeout nohup nice basename dirname readlink realpath stat id whoami uname hostname pwd sync md5sum sha1sum
sha256sum base64 nproc yes kill grep egrep fgrep sed awk mawk gawk find xargs tar gzip gunzip diff cmp patch ps pgrep
pkill setsid less more which git""".split()

ASK = """
import json, site, sys, sysconfig
print(json.dumps({"exe": sys.executable, "prefix": sys.base_prefix, "stdlib": sysconfig.get_path("stdlib"),
                  "site": site.getsitepackages()[0], "version": "%d.%d" % sys.version_info[:2]}))
"""

PYTEST_FILES = """
import json, importlib.metadata as m
from packaging.requirements import Requirement
found, todo = {}, ["pytest"]
while todo:
    name = todo.pop()
    if name in found:
        continue
    dist = m.distribution(name)
    found[name] = [[str(f.locate()), str(f)] for f in dist.files or () if not str(f).startswith("..")]
    for text in dist.requires or ():
        need = Requirement(text)
        if need.marker is None or need.marker.evaluate({"extra": ""}):
            todo.append(need.name)
print(json.dumps(sorted(pair for files in found.values() for pair in files)))
"""

UNUSED = {"test", "tests", "idlelib", "tkinter", "turtledemo", "__pycache__", "site-packages", "dist-packages"}


def ask(python: str, program: str) -> object:
    out = subprocess.run([python, "-c", program], stdout=subprocess.PIPE, check=True, cwd="/").stdout
    return json.loads(out)


def libraries(file: Path) -> set[Path]:
    """Shared libraries `file` needs, the loader included; empty for scripts and static programs."""
    done = subprocess.run(["ldd", str(file)], capture_output=True, text=True)
    return {Path(found) for found in re.findall(r"(/\S+) \(0x", done.stdout)}


def folder(name: str) -> str:
    return name.rpartition("/")[0]


class Image:
    """A root file system as a tar stream: merged /usr, every path once."""

    def __init__(self, out: tarfile.TarFile) -> None:
        self.out = out
        self.seen: set[str] = set()
        self.inodes: dict[tuple[int, int], str] = {}
        for name in ("usr", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "etc", "root", "home", "proc", "sys", "dev"):
            self.directory(name)
        for name in ("bin", "sbin", "lib", "lib64"):
            self.link(name, f"usr/{name}")
        for name in ("tmp", "var/tmp"):
            self.directory(name, 0o1777)

    def directory(self, name: str, mode: int = 0o755) -> None:
        parent = folder(name)
        if parent:
            self.directory(parent)
        if name not in self.seen:
            self.seen.add(name)
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, mode
            self.out.addfile(info)

    def link(self, name: str, target: str) -> None:
        if name not in self.seen:
            self.directory(folder(name) or "usr")
            self.seen.add(name)
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            self.out.addfile(info)

    def text(self, name: str, text: str) -> None:
        self.directory(folder(name))
        self.seen.add(name)
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(text.encode()), 0o644
        self.out.addfile(info, io.BytesIO(text.encode()))

    def file(self, source: Path, name: str) -> None:
        """Add a regular file's bytes under `name`, owned by root."""
        name = re.sub(r"^(bin|sbin|lib|lib64)/", r"usr/\1/", name.lstrip("/"))
        if name not in self.seen:
            self.directory(folder(name))
            self.seen.add(name)
            info = tarfile.TarInfo(name)
            status = source.stat()
            info.mode = 0o755 if status.st_mode & 0o111 else 0o644
            first = self.inodes.setdefault((status.st_dev, status.st_ino), name)
            if first != name:  # git has over a hundred names for one program
                info.type, info.linkname = tarfile.LNKTYPE, first
                self.out.addfile(info)
                return
            info.size = status.st_size
            with source.open("rb") as data:
                self.out.addfile(info, data)

    def program(self, source: Path, name: str) -> None:
        self.file(source, name)
        for library in libraries(source):
            self.file(library, str(library))

    def tree(self, source: Path, name: str, unused: frozenset[str] | set[str] = frozenset()) -> None:
        for where, folders, files in os.walk(source):
            folders[:] = [f for f in folders if f not in unused]
            for file in files:
                path = Path(where, file)
                if path.is_file() and not file.endswith((".pyc", ".a")):
                    add = self.program if ".so" in file or os.access(path, os.X_OK) else self.file
                    add(path, f"{name}/{path.relative_to(source)}")


def add_python(image: Image, python: str) -> None:
    """The base interpreter of `python` with its standard library, and pytest from the environment of `python`."""
    base = ask(os.path.realpath(python), ASK)
    assert isinstance(base, dict)
    # An interpreter in somebody's home directory moves to /usr/local, where every uid can read it.
    prefix = base["prefix"] if base["prefix"] == "/usr" else "/usr/local"
    moved = {key: base[key].replace(base["prefix"], prefix, 1) for key in ("stdlib", "site")}
    name = f"{prefix}/bin/python{base['version']}"
    image.program(Path(base["exe"]).resolve(), name)
    for alias in ("python3", "python"):
        image.link(f"{prefix}/bin/{alias}".lstrip("/"), Path(name).name)
    image.tree(Path(base["stdlib"]), moved["stdlib"], UNUSED)
    files = ask(python, PYTEST_FILES)
    assert isinstance(files, list)
    for source, relative in files:
        if Path(source).is_file() and not relative.endswith(".pyc"):
            image.file(Path(source), f"{moved['site']}/{relative}")


def build(out: tarfile.TarFile, python: str) -> None:
    image = Image(out)
    for tool in TOOLS:
        found = shutil.which(tool, path="/usr/bin:/bin:/usr/sbin:/sbin")
        if found:
            image.program(Path(found), f"/usr/bin/{tool}")
    core = subprocess.run(["git", "--exec-path"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    for file in sorted(Path(core).iterdir()):
        if file.is_file():
            image.program(file, f"{core}/{file.name}")
    image.tree(Path("/usr/share/git-core"), "/usr/share/git-core")
    add_python(image, python)
    image.text("etc/passwd", "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n")
    image.text("etc/group", "root:x:0:\nnogroup:x:65534:\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tag")
    parser.add_argument("--python", default=sys.executable, help="interpreter with pytest installed")
    options = parser.parse_args()
    changes = ["ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "ENV LANG=C.UTF-8"]
    name, _, version = options.tag.partition(":")
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as out:
            build(out, options.python)
        file.seek(0)
        engine = docker.from_env(timeout=600).api
        # An iterator: with a file the SDK sends a chunked header and a body that is not.
        chunks = iter(lambda: file.read(1 << 20), b"")
        done = engine.import_image_from_stream(chunks, repository=name, tag=version or "latest", changes=changes)
        print(done.strip())


if __name__ == "__main__":
    main()
