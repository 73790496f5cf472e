"""The reporters' shared part: the one-way channel to the supervisor and the description of exceptions.

Runs inside the sandbox, inside the process of the tests, on Pythons from 3.6 on. The supervisor outside holds the
reading end of what was file descriptor 1 when this process started; what tests print goes to descriptor 2. Events
leave as they happen, numbered, one JSON object a line. Nothing here is a defence by itself: the supervisor
cross-checks numbers, node set, canaries and the exit status it waited for (HARNESS 1).
"""

import json
import os
import sys
import traceback

import causes

MESSAGE = 4000
TEXT = 12000
FRAMES = 80


class Channel(object):
    """Numbered JSON lines to the supervisor. A forked child of the tests stays silent."""

    def __init__(self):
        sys.stdout.flush()
        self._fd = os.dup(1)
        os.set_inheritable(self._fd, False)
        os.dup2(2, 1)
        self._pid = os.getpid()
        self._number = 0
        self.nonce = ""

    def emit(self, event, **fields):
        if os.getpid() != self._pid:
            return
        fields.update({"e": event, "n": self._number, "nonce": self.nonce})
        self._number += 1
        data = (json.dumps(fields) + "\n").encode("ascii")
        while data:
            data = data[os.write(self._fd, data) :]

    def emit_many(self, event, key, values, size=400):
        """A long list in several events, so that no line is unbounded."""
        values = list(values)
        for start in range(0, max(len(values), 1), size):
            self.emit(event, **{key: values[start : start + size]})


class Stopped(Exception):
    """Stands in for what a test raised to end the whole run, so that the run goes on."""


def forget(*names):
    """Take modules of ours off the list of modules: the repository may have some of the same names."""
    for name in names:
        sys.modules.pop(name, None)


def put_first(roots):
    """Let this process and those it starts import the checkout, as if it were installed."""
    sys.path[0:0] = roots
    os.environ["PYTHONPATH"] = os.pathsep.join(roots)


def is_installed(module):
    """True for a module of a distribution, as against the standard library's."""
    parts = (getattr(module, "__file__", None) or "").split(os.sep)
    return "site-packages" in parts or "dist-packages" in parts


def read_request():
    """The supervisor's request: one JSON object on standard input, which is /dev/null from then on."""
    chunks = []
    while True:
        chunk = os.read(0, 1 << 16)
        if not chunk:
            break
        chunks.append(chunk)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return json.loads(b"".join(chunks).decode("utf-8"))


def flush_all():
    """Flush what tests printed; they may have closed or replaced either stream."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            continue


def qualified(cls):
    return "%s.%s" % (getattr(cls, "__module__", "?"), getattr(cls, "__qualname__", "?"))


def bounded(text, size):
    """Head and tail of a text, saying what was left out."""
    if len(text) <= size:
        return text
    half = size // 2
    return "%s\n[... %d characters left out ...]\n%s" % (text[:half], len(text) - 2 * half, text[-half:])


def message_of(error):
    """`str(error)`, bounded; an exception whose own __str__ fails is described by its class."""
    try:
        return bounded(str(error), MESSAGE)
    except BaseException as other:
        return "<%s whose text raised %s>" % (type(error).__name__, type(other).__name__)


def position(tb):
    """(column, end column) of the faulting expression, where this Python records it."""
    positions = getattr(tb.tb_frame.f_code, "co_positions", None)
    if positions is None:
        return None, None
    index = tb.tb_lasti // 2
    for number, where in enumerate(positions()):
        if number == index:
            line, end_line, column, end_column = where
            return column, end_column if line == end_line else None
    return None, None


def place(filename, root):
    """(path, inside the workspace): relative to the workspace inside it. Code without a file (`<string>`) is not."""
    if filename.startswith("<"):
        return filename, False
    path = os.path.abspath(os.path.join(root, filename))
    inside = path.startswith(root + os.sep)
    return (path[len(root) + 1 :] if inside else path), inside


def frames_of(tb, root):
    """Outermost first: [path, line, function, inside the workspace, column, end column]."""
    found = []
    while tb is not None:
        code = tb.tb_frame.f_code
        path, inside = place(code.co_filename, root)
        column, end = position(tb) if inside else (None, None)
        found.append([path, tb.tb_lineno, code.co_name, inside, column, end])
        tb = tb.tb_next
    return found


def describe(kind, error, tb, root, text=None):
    """One exception as data: classes of its MRO, message, frames, missing name, and a rendering for people.

    What only wraps others (an exception group, a doctest's failure) is described by what it wraps.
    """
    if text is None:
        try:
            text = "".join(traceback.format_exception(kind, error, tb))
        except BaseException:
            text = message_of(error)
    cause, frames = causes.unwrap(error, frames_of(tb, root), root)
    classes = list(type(cause).__mro__ if cause is not error else kind.__mro__)
    if cause is not error:
        classes += [cls for cls in kind.__mro__ if cls not in classes]
    name = getattr(cause, "name", None)
    return {
        "mro": [qualified(cls) for cls in classes if cls is not object],
        "message": message_of(cause),
        "frames": frames[: FRAMES // 2] + frames[-FRAMES // 2 :] if len(frames) > FRAMES else frames,
        "text": bounded(text, TEXT),
        "name": name if isinstance(name, str) else None,
        "errno": _refusal(cause, tb if cause is error else cause.__traceback__),
        "exhausted": _exhausted(cause, tb if cause is error else cause.__traceback__),
    }


def _refusal(error, tb):
    """What the operating system refused to the call that raised this; None for an error that Python code raised."""
    number = error.errno if isinstance(error, OSError) else None
    return None if type(number) is not int or tb is None or _raised(tb) else number


def _exhausted(error, tb):
    """True for a MemoryError of an allocation that failed, or raised because of one; code may raise its own."""
    seen = set()
    while isinstance(error, BaseException) and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, MemoryError) and not (tb is not None and _raised(tb)):
            return True
        error = error.__cause__ or error.__context__
        tb = error.__traceback__ if error is not None else None
    return False


def _raised(tb):
    """Whether a `raise` of Python code raised this, as against a call of C code."""
    import opcode

    while tb.tb_next is not None:
        tb = tb.tb_next
    return tb.tb_frame.f_code.co_code[tb.tb_lasti] == opcode.opmap["RAISE_VARARGS"]


_PARTS = {
    "_callSetUp": "setup",
    "setUp": "setup",
    "_pre_setup": "setup",
    "_callTearDown": "teardown",
    "tearDown": "teardown",
    "_callCleanup": "teardown",
    "doCleanups": "teardown",
    "_post_teardown": "teardown",
    "_callTestMethod": "call",
}


def phase_of(tb):
    """Which part of a unittest-style test raised: "setup", "call" or "teardown". unittest and pytest both report
    them as one; the first frame that is one of the parts tells."""
    while tb is not None:
        phase = _PARTS.get(tb.tb_frame.f_code.co_name)
        if phase:
            return phase
        tb = tb.tb_next
    return "call"


def imported_elsewhere(tops, root):
    """Modules below the repository's own top-level names that were imported from outside it: name to file."""
    found = {}
    prefix = root + os.sep
    for name, module in sorted(list(sys.modules.items()), key=lambda pair: str(pair[0])):
        if not isinstance(name, str) or name.split(".")[0] not in tops:
            continue
        if getattr(module, "__name__", name) != name:
            continue  # somebody else's module under a second name, as requests.packages gives urllib3
        where = getattr(module, "__file__", None)
        paths = [where] if where else list(getattr(module, "__path__", None) or [])
        paths = [os.path.realpath(p) for p in paths if isinstance(p, str)]
        if paths and not any(p.startswith(prefix) or p == root for p in paths) and len(found) < 20:
            found[name] = paths[0]
    return found


class Tracer(object):
    """Which source files of the repository ran a function while tests were in their call phase (B8)."""

    def __init__(self, root):
        self._prefix = root + os.sep
        self._seen = set()
        self.files = set()

    def __call__(self, frame, event, arg):
        if event == "call":
            code = frame.f_code
            if code not in self._seen:
                self._seen.add(code)
                path = os.path.abspath(code.co_filename)
                generated = code.co_filename.startswith("<")
                if path.startswith(self._prefix) and not generated and code.co_name != "<module>":
                    self.files.add(path[len(self._prefix) :])

    def start(self):
        import threading

        threading.setprofile(self)
        sys.setprofile(self)

    def stop(self):
        import threading

        sys.setprofile(None)
        threading.setprofile(None)
