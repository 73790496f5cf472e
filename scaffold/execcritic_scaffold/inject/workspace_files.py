"""Files of a workspace as the harness sees them: listing with git's ids, reading, writing.

Runs inside sandboxes: standard library only, Python 3.6 and later. Paths are bytes relative to the root. No symbolic
link is ever followed, so nothing outside the workspace is read or written.
"""

import hashlib
import os
import shutil
import stat
import time

RACY_NS = 50 * 1000 * 1000
"""A file changed less than this before it was hashed may change again without its times showing it."""


class Workspace:
    def __init__(self, root):
        self.root = os.fsencode(root)
        self._known = {}

    def manifest(self):
        """`mode SP blob-id SP path NUL` for every file, as git would store it; nested repositories have mode 160000."""
        found, known = [], {}
        pending = [b""]
        while pending:
            directory = pending.pop()
            for entry in self._scan(directory):
                if entry.name == b".git":
                    continue
                path = os.path.join(directory, entry.name)
                if entry.is_symlink():
                    target = os.readlink(entry.path)
                    found.append(b"120000 %s %s\0" % (_blob_id(len(target), [target]), path))
                elif entry.is_dir(follow_symlinks=False):
                    if os.path.lexists(os.path.join(entry.path, b".git")):
                        found.append(b"160000 %s %s\0" % (b"0" * 40, path))
                    else:
                        pending.append(path)
                elif entry.is_file(follow_symlinks=False):
                    line = self._file(entry, path, known)
                    if line:
                        found.append(line)
        self._known = known
        return b"".join(found)

    def _scan(self, directory):
        full = os.path.join(self.root, directory)
        try:
            return list(os.scandir(full))
        except PermissionError:
            os.chmod(full, 0o755)
            return list(os.scandir(full))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _file(self, entry, path, known):
        try:
            # Opening every file would double the time of a listing, and most files never change.
            info = entry.stat(follow_symlinks=False)
            oid = self._known.get(_key(info))
            if oid is not None:
                known[_key(info)] = oid
                return _line(info, oid, path)
            fd = _open_file(entry.path)
        except FileNotFoundError:
            return b""
        with os.fdopen(fd, "rb") as data:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                return b""
            now = time.time() * 1e9
            oid = _blob_id(info.st_size, iter(lambda: data.read(1 << 20), b""))
            if now - info.st_ctime_ns > RACY_NS:
                known[_key(info)] = oid
        return _line(info, oid, path)

    def read(self, path, limit):
        """Bytes of a regular file, or the target of a symbolic link; OSError where there is neither.

        None for more than `limit` bytes, which are not all read then.
        """
        parent, name = self._parent(path)
        try:
            info = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISLNK(info.st_mode):
                return os.readlink(name, dir_fd=parent)
            if not stat.S_ISREG(info.st_mode):
                raise FileNotFoundError(path)
            with os.fdopen(_open_file(name, parent), "rb") as file:
                data = bytearray()
                for part in iter(lambda: file.read(1 << 20), b""):
                    data += part
                    if len(data) > limit:
                        return None
                return bytes(data)
        finally:
            os.close(parent)

    def write(self, path, mode, data):
        """Create or replace a file with git mode `mode`, or delete it where `mode` is None."""
        try:
            parent, name = self._parent(path, create=mode is not None)
        except (FileNotFoundError, NotADirectoryError):
            if mode is None:
                return
            raise
        try:
            _remove(name, parent)
            if mode == "120000":
                os.symlink(data, name, dir_fd=parent)
            elif mode is not None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                with os.fdopen(os.open(name, flags, 0o600, dir_fd=parent), "wb") as out:
                    out.write(data)
                    os.fchmod(out.fileno(), 0o755 if mode == "100755" else 0o644)
        finally:
            os.close(parent)
        if mode is None:
            self._prune(path)

    def _parent(self, path, create=False):
        """An open descriptor of the directory that holds `path`, and its last component."""
        parts = path.split(b"/")
        if any(part in (b"", b".", b"..", b".git") for part in parts):
            raise PermissionError("not a path of the workspace: %r" % path)
        fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        for part in parts[:-1]:
            try:
                below = _open_directory(part, fd, create)
            finally:
                os.close(fd)
            fd = below
        return fd, parts[-1]

    def _prune(self, path):
        """Remove directories that a deletion left empty: git knows none."""
        while b"/" in path:
            path = path.rpartition(b"/")[0]
            try:
                parent, name = self._parent(path)
            except OSError:
                return
            try:
                os.rmdir(name, dir_fd=parent)
            except OSError:
                return
            finally:
                os.close(parent)


def _key(info):
    """What stays the same as long as a file's content does; no program can set the ctime."""
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def _line(info, oid, path):
    return b"%s %s %s\0" % (b"100755" if info.st_mode & stat.S_IXUSR else b"100644", oid, path)


def _blob_id(size, chunks):
    digest = hashlib.sha1(b"blob %d\0" % size)
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest().encode()


def _open_file(name, parent=None):
    """Open for reading, and where the owner took that right from himself, take it back first."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(name, flags, dir_fd=parent)
    except PermissionError:
        mode = stat.S_IMODE(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
        os.chmod(name, mode | stat.S_IRUSR, dir_fd=parent)
        return os.open(name, flags, dir_fd=parent)


def _open_directory(name, parent, create):
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        return os.open(name, flags, dir_fd=parent)
    except OSError:
        if not create:
            raise
        _remove(name, parent)
        os.mkdir(name, 0o755, dir_fd=parent)
        return os.open(name, flags, dir_fd=parent)


def _remove(name, parent):
    try:
        info = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(info.st_mode):
        os.unlink(name, dir_fd=parent)
        return
    # rmtree takes a directory descriptor only since Python 3.11, so go through the one that is open here.
    shutil.rmtree(os.path.join(b"/proc/self/fd", b"%d" % parent, name))
