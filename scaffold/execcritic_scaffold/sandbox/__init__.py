"""Isolation engines behind one Protocol (`protocol.py`), picked by name or dotted path (`registry.py`)."""
