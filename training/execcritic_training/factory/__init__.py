"""The task factory: real bugs made from any Python package with tests (docs/factory.md).

packages.py and sdist.py say what is mutated and where it lies; suite.py finds the tests that pass and the functions
they run; operators/ and mutate.py change one function; screen.py runs the mutants in one warm process; hide.py takes
the failing tests out; issue.py writes the issue; row.py puts a task together; make.py does all of it, resumable.
"""
