"""Tests of the harness's own, by which it is seen that somebody rewrites outcomes (HARNESS 3.4): what they do.

Some must pass and some must fail. They assert in the ways that tests do, so that a way which source under test has
switched off is found out. Runs inside the sandbox, on Pythons from 3.6 on.
"""

import os


def function(name, fails, pytest=None):
    """A test function. With `pytest`, one that fails does so by what it waits for and nobody raises."""
    if fails and pytest is not None:

        def control():
            """Waits for an exception."""
            with pytest.raises(ValueError):
                pass
    else:

        def control():
            """Asserts."""
            assert not fails, name

    control.__name__ = control.__qualname__ = name
    return control


def case(name, fails):
    """A TestCase class with one test method, which asserts in a way that is picked at random."""
    import unittest  # not before it is needed: tests of runners can tell whether it has been imported

    ways = (_equal, _true, _in, _raises, _bare)
    way = ways[os.urandom(1)[0] % len(ways)]

    def method(self):
        """Asserts."""
        way(self, fails)

    method.__name__ = method.__qualname__ = name
    return type("Control", (unittest.TestCase,), {name: method})


def _equal(test, fails):
    test.assertEqual(1, 2 if fails else 1)


def _true(test, fails):
    test.assertTrue(not fails)


def _in(test, fails):
    test.assertIn(1, () if fails else (1,))


def _raises(test, fails):
    with test.assertRaises(ValueError):
        if not fails:
            raise ValueError


def _bare(test, fails):
    assert not fails
