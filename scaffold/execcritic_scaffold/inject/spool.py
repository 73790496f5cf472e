"""Whole outputs of actions that had too much to show, as files for the agent to read parts of.

Runs inside sandboxes: standard library only, Python 3.6 and later. The files lie in the sandbox's temporary folder,
never in the workspace, and are bounded one by one and together: the oldest go first. They are the agent's own: it may
change or remove them, and a folder that is full or gone only means that no file is kept.
"""

import os
import shutil

FILE = 8 << 20
"""Most bytes of one output."""
TOTAL = 32 << 20
"""Most bytes of all of them."""


class Spool:
    """Makes the files, numbered from 1, and removes the oldest."""

    def __init__(self, directory):
        self.directory = directory
        self.count = 0
        self.sizes = {}

    def create(self):
        """A new file open for writing, and the paths that had to go for it. Raises OSError."""
        removed = []
        while self.sizes and sum(self.sizes.values()) > TOTAL - FILE:
            oldest = min(self.sizes)
            del self.sizes[oldest]
            removed.append(self.path(oldest))
            try:
                os.unlink(removed[-1])
            except OSError:
                pass  # the agent was quicker
        if os.path.islink(self.directory) or not os.path.isdir(self.directory):
            self._clear()
            os.mkdir(self.directory, 0o700)
        self.count += 1
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        self.sizes[self.count] = 0
        return os.fdopen(os.open(self.path(self.count), flags, 0o600), "wb", 0), removed

    def path(self, number):
        return os.path.join(self.directory, "output-%d.txt" % number)

    def _clear(self):
        """Whatever stands where the folder should be."""
        try:
            os.unlink(self.directory)
        except OSError:
            shutil.rmtree(self.directory, ignore_errors=True)


class Copy:
    """One action's output on its way to a file, which is made only when there are more than `shown` bytes."""

    def __init__(self, spool, shown):
        self.spool, self.shown = spool, shown
        self.start, self.size, self.kept = bytearray(), 0, 0
        self.file, self.number, self.removed = None, None, []

    def add(self, data):
        self.size += len(data)
        if self.shown is None or self.kept >= FILE:
            return
        if self.number is None:
            self.start += data
            if self.size > self.shown:
                self._open()
        elif self.file is not None:
            self._write(data)

    def close(self):
        """{path, kept, dropped, removed}: how much of the output the file holds; None without a file."""
        if self.number is None or not self.kept:
            return None
        if self.file is not None:
            self.file.close()
        path = self.spool.path(self.number)
        return {"path": path, "kept": self.kept, "dropped": self.size - self.kept, "removed": self.removed}

    def _open(self):
        self.number = 0
        try:
            self.file, self.removed = self.spool.create()
            self.number = self.spool.count
        except OSError:
            return
        self._write(self.start)
        self.start = bytearray()

    def _write(self, data):
        view = memoryview(data)[: FILE - self.kept]
        try:
            while view:
                written = self.file.write(view)
                self.kept += written
                view = view[written:]
        except OSError:  # full: what is in the file stays
            self.file.close()
            self.file = None
        self.spool.sizes[self.number] = self.kept
