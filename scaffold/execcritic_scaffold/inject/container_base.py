"""Make Base ready inside a container whose file system then becomes an image: run once for each image and Base.

    python -I -S container_base.py MANIFEST UID

MANIFEST names the files of Base (NUL-separated), which lie in /testbed already, over whatever the image had there.
What else the image has there stays only if its repository ignores it (built extensions, generated versions): files
that the repository tracks and Base lacks go, and so does every `.git` (no history reaches an agent) and every
byte-code file (any of them can be forged). Then Base is byte-compiled with checked hashes: quick to start, and
never stale.

Plain standard library, Python 3.6 and later: it runs on whatever Python an image has.
"""

import compileall
import os
import shutil
import subprocess
import sys

ROOT = b"/testbed"


def tracked_by_image():
    """Paths that the image's own repository tracks; empty where it has no repository that git can read, or no git.

    Runs inside the container, without network: the image's git configuration can do no harm here.
    """
    if not os.path.exists(os.path.join(ROOT, b".git")):
        return set()
    git = ["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C", os.fsdecode(ROOT), "ls-files", "-z"]
    try:
        done = subprocess.run(git, stdout=subprocess.PIPE)
    except OSError:
        return set()
    return set(filter(None, done.stdout.split(b"\0"))) if done.returncode == 0 else set()


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def clean():
    for folder, folders, files in os.walk(ROOT):
        for name in [n for n in folders + files if n == b".git" or n.endswith(b".pyc")]:
            remove(os.path.join(folder, name))
        folders[:] = [n for n in folders if n != b".git"]


def compile_base():
    try:
        from py_compile import PycInvalidationMode
    except ImportError:  # Python 3.6 knows time stamps only, which an edit of the same size can fool
        return
    compileall.compile_dir(
        os.fsdecode(ROOT), maxlevels=100, quiet=2, workers=0, invalidation_mode=PycInvalidationMode.CHECKED_HASH
    )


def hand_over(uid):
    os.lchown(ROOT, uid, uid)
    for folder, folders, files in os.walk(ROOT):
        for name in folders + files:
            path = os.path.join(folder, name)
            if os.lstat(path).st_uid != uid:
                os.lchown(path, uid, uid)


def main():
    manifest, uid = sys.argv[1], int(sys.argv[2])
    with open(manifest, "rb") as listing:
        base = set(listing.read().split(b"\0"))
    os.unlink(manifest)
    for path in tracked_by_image() - base:
        whole = os.path.join(ROOT, path)
        # A folder is a submodule, or what Base has where the image has a file.
        if os.path.islink(whole) or not os.path.isdir(whole):
            remove(whole)
    clean()
    compile_base()
    hand_over(uid)


if __name__ == "__main__":
    main()
