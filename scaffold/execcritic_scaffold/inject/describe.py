"""Describe this Python environment as one JSON object on standard output: version, distributions, importable names."""

import json
import os
import pkgutil
import sys


def distributions():
    try:
        from importlib import metadata
    except ImportError:
        return {}
    found = {}
    for dist in metadata.distributions():
        name = dist.metadata["Name"]
        if name:
            found[name] = dist.version
    return found


def standard_names():
    names = set(getattr(sys, "stdlib_module_names", ())) | set(sys.builtin_module_names)
    stdlib = os.path.dirname(os.__file__)
    return sorted(names | {m.name for m in pkgutil.iter_modules([stdlib])})


def main():
    sys.path.pop(0)
    stdlib = os.path.dirname(os.__file__)
    paths = [p for p in sys.path if os.path.isdir(p) and p != stdlib and not p.endswith("lib-dynload")]
    json.dump(
        {
            "python": "%d.%d.%d" % sys.version_info[:3],
            "implementation": sys.implementation.name,
            "distributions": distributions(),
            "standard": standard_names(),
            "installed": sorted({m.name for m in pkgutil.iter_modules(paths)}),
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
