"""What stands behind an exception that only wraps others: exception groups, and the failures of doctests.

Runs inside the sandbox, on Pythons from 3.6 on; imported by `report.py`.
"""

import report


def unwrap(error, frames, root):
    """(exception, frames): the exception behind `error`, `frames` going on to where that one was raised.

    Of several the first that is no assertion counts: a test with one error and one failed assertion has an error.
    """
    kind = report.qualified(type(error))
    if kind == "doctest.UnexpectedException":
        value, tb = error.exc_info[1], error.exc_info[2]
        inner = [_in_doctest(error, frame, root) for frame in report.frames_of(tb, root)]
        return unwrap(value, frames + inner, root)
    if kind == "doctest.DocTestFailure":
        return error, frames + [_in_doctest(error, None, root)]
    several = _several(error, kind)
    if not several:
        return error, frames
    chosen = next((e for e in several if not _asserts(e)), several[0])
    return unwrap(chosen, frames + report.frames_of(chosen.__traceback__, root), root)


def _several(error, kind):
    if any(cls.__name__ == "BaseExceptionGroup" for cls in type(error).__mro__):
        return [e for e in getattr(error, "exceptions", ()) if isinstance(e, BaseException)]
    if kind == "_pytest.doctest.MultipleDoctestFailures":
        return list(error.failures)
    return []


def _asserts(error):
    names = [report.qualified(cls) for cls in type(error).__mro__]
    if any(name.endswith(".BaseExceptionGroup") for name in names):
        return all(_asserts(e) for e in error.exceptions)
    return bool({"builtins.AssertionError", "builtins.Failed", "doctest.DocTestFailure"} & set(names))


def _in_doctest(error, frame, root):
    """The example's own frame, told by its place in the file the doctest was read from; other frames stay."""
    if frame is not None and not frame[0].startswith("<doctest "):
        return frame
    path, inside = report.place(error.test.filename or "<doctest>", root)
    line = (error.test.lineno or 0) + error.example.lineno + 1
    return [path, line, "<doctest %s>" % error.test.name, inside, None, None]
