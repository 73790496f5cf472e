"""How a repository is installed for its tests, found from its files alone: nothing of it is executed or imported.

`detect.py` is the way in; `sources.py` reads the files, the others each know one kind of declaration.
"""
