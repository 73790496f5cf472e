"""The workspace of a sandbox of a service: laid by root, compared, packed. Paths are bytes.

Runs inside sandboxes: standard library only, Python 3.6 and later.
"""

import gzip
import hashlib
import io
import os
import stat
import tarfile

import container_base
import container_init
from workspace_files import Workspace

ROOT = container_base.ROOT
CACHE = b"__pycache__"


def walk(root):
    """`path, lstat` of every file and link below a folder, links to folders among them; no `.git`."""
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != b".git"]
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in files + links:
            if name != b".git":
                full = os.path.join(folder, name)
                yield os.path.relpath(full, root), os.lstat(full)


def stamps(root):
    """What changes with a file, for each: {path: stamp}."""
    return {
        path: (info.st_mode, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns) for path, info in walk(root)
    }


def written(before, after):
    """Paths that were created, changed or removed between two `stamps`."""
    return [path for path in set(before) | set(after) if before.get(path) != after.get(path)]


def contents(root):
    """{path: what it holds}, for what a checkout consists of."""
    found = {}
    for path, info in walk(root):
        full = os.path.join(root, path)
        if stat.S_ISLNK(info.st_mode):
            found[path] = ("link", os.readlink(full))
        elif stat.S_ISREG(info.st_mode):
            with open(full, "rb") as file:
                found[path] = (bool(info.st_mode & stat.S_IXUSR), hashlib.sha1(file.read()).digest())
    return found


def base(archive):
    """Make Base of what the image has and of `archive`; what then differs from the image, as removed paths and tar."""
    before = {path: held for path, held in contents(ROOT).items() if not path.endswith(b".pyc")}
    names = unpack(archive, ROOT)
    for path in container_base.tracked_by_image() - names:
        container_base.remove(os.path.join(ROOT, path))
    container_base.clean()
    container_base.compile_base()
    after = contents(ROOT)
    changed = [path for path, held in after.items() if before.get(path) != held]
    return {"removed": [os.fsdecode(path) for path in before if path not in after]}, pack(ROOT, sorted(changed))


def lay(request, payload, agent):
    """Lay parts (archives) and changes (files) as the agent's, then take the read-only paths away from it."""
    container_base.clean()
    for path in request["removed"]:
        container_base.remove(os.path.join(ROOT, os.fsencode(path)))
    at = 0
    for root, size in request["parts"]:
        unpack(payload[at : at + size], os.fsencode(root))
        at += size
    changes = [(os.fsencode(path), mode, size) for path, mode, size in request["files"]]
    container_init.delete([path for path, mode, _ in changes if mode is None and lies_inside(path)])
    tree = Workspace(os.fsdecode(ROOT))
    for path, mode, size in changes:
        if mode is not None:
            tree.write(path, mode, payload[at : at + size])
            at += size
    container_base.hand_over(agent)
    for path in request["own"]:
        os.makedirs(path, exist_ok=True)
        os.chown(path, agent, agent)
    return freeze([os.fsencode(path) for path in request["readonly"]])


def lies_inside(path):
    """Whether no link is among the folders above a path: what is done as root must stay in the workspace."""
    folder = os.path.dirname(os.path.join(ROOT, path))
    return os.path.realpath(folder) == folder


def freeze(paths):
    """Make files root's, in sticky folders of root's, with folders of byte code that nobody else can write."""
    for path in paths:
        full = os.path.join(ROOT, path)
        if os.path.islink(full) or not lies_inside(path):
            return {"refused": os.fsdecode(path)}
        if not os.path.isfile(full):
            continue
        os.lchown(full, 0, 0)
        os.chmod(full, 0o555 if os.stat(full).st_mode & stat.S_IXUSR else 0o444)
        folder = os.path.dirname(full)
        if path.endswith(b".py"):
            cache = os.path.join(folder, CACHE)
            os.makedirs(cache, exist_ok=True)
            for name in [b"."] + os.listdir(cache):
                os.lchown(os.path.join(cache, name), 0, 0)
            os.chmod(cache, 0o555)
        while True:
            os.lchown(folder, 0, 0)
            os.chmod(folder, 0o1777)
            if folder == ROOT:
                break
            folder = os.path.dirname(folder)
    return {}


def unpack(archive, root):
    """Put an archive's files below `root`, each in place of what is there and through no link; their names."""
    names = set()
    with tarfile.open(fileobj=io.BytesIO(archive), encoding="utf-8", errors="surrogateescape") as tar:
        for info in tar:
            name = info.name.encode("utf-8", "surrogateescape")
            full = os.path.join(root, name)
            if info.isdir():
                if os.path.islink(full) or not os.path.isdir(full):
                    container_base.remove(full)
                    os.makedirs(full)
                continue
            names.add(name)
            container_base.remove(full)
            if info.issym():
                os.symlink(info.linkname.encode("utf-8", "surrogateescape"), full)
            else:
                with open(full, "wb") as file:
                    file.write(tar.extractfile(info).read())
                os.chmod(full, info.mode & 0o755)
    return names


def pack(root, paths):
    """A compressed archive of files and links below `root`, each after the folders above it; all of them for None.
    What is gone is left out."""
    data, made = io.BytesIO(), set()
    paths = sorted(path for path, _ in walk(root)) if paths is None else paths
    zipped = gzip.GzipFile(fileobj=data, mode="wb", compresslevel=1, mtime=0)
    names = {"encoding": "utf-8", "errors": "surrogateescape"}
    with tarfile.open(fileobj=zipped, mode="w|", format=tarfile.GNU_FORMAT, **names) as tar:
        for path in paths:
            parts = path.split(b"/")
            for count in range(1, len(parts)):
                folder = b"/".join(parts[:count])
                if folder not in made:
                    made.add(folder)
                    tar.addfile(_info(folder, tarfile.DIRTYPE, 0o755))
            _add(tar, path, os.path.join(root, path))
    zipped.close()
    return data.getvalue()


def _add(tar, path, full):
    if not os.path.lexists(full):
        return
    info = os.lstat(full)
    if stat.S_ISLNK(info.st_mode):
        member = _info(path, tarfile.SYMTYPE, 0o777)
        member.linkname = os.readlink(full).decode("utf-8", "surrogateescape")
        tar.addfile(member)
    elif stat.S_ISREG(info.st_mode):
        with open(full, "rb") as file:
            member = _info(path, tarfile.REGTYPE, 0o755 if info.st_mode & stat.S_IXUSR else 0o644)
            member.size = os.fstat(file.fileno()).st_size
            tar.addfile(member, file)


def _info(path, kind, mode):
    info = tarfile.TarInfo(path.decode("utf-8", "surrogateescape"))
    info.type, info.mode = kind, mode
    return info
