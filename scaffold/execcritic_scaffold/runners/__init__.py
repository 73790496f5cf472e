"""Runners behind one Protocol (`protocol.py`), picked by name or found from the repository (`registry.py`).

Each has a program of ours in `inject/` that runs inside the sandbox and reports through one event stream.
"""
