"""Versions that are taken from git history, which Base does not have: they are told to the tool that asks for them."""

from __future__ import annotations

import re

from packaging.version import InvalidVersion, Version

from execcritic_scaffold.install.sources import Sources

_TOOLS = {
    r"setuptools[-_]scm|hatch[-_]vcs|flit[-_]scm|vcs[-_]versioning": "SETUPTOOLS_SCM_PRETEND_VERSION",
    r"\bpbr\b": "PBR_VERSION",
    r"poetry-dynamic-versioning": "POETRY_DYNAMIC_VERSIONING_BYPASS",
    r"uv-dynamic-versioning": "UV_DYNAMIC_VERSIONING_BYPASS",
    r"pdm[\s\S]*source\s*=\s*['\"]scm['\"]": "PDM_BUILD_SCM_VERSION",
}
_GENERATED = re.compile(r"(?:[^/]+/){0,3}_?version(?:_info)?\.py")
_NUMBER = re.compile(r"version\s*(?::\s*\w+\s*)?=\s*(?:\w+\s*=\s*)?['\"]([^'\"]+)['\"]")
UNKNOWN = "999.0"
"""More than other distributions may ask of this one: they name a lower bound more often than an upper one."""


def pretended(sources: Sources) -> str:
    """The assignment that goes before an install command (`NAME=VERSION `); empty where no history is asked for.

    An unpacked source distribution holds its version (PKG-INFO); a checkout may have a generated version file.
    """
    if "PKG-INFO" in sources.paths:
        return ""
    text = "\n".join(sources.text(path) for path in ("pyproject.toml", "setup.cfg", "setup.py"))
    variables = [variable for pattern, variable in _TOOLS.items() if re.search(pattern, text)]
    return f"{variables[0]}={_known(sources)} " if variables else ""


def _known(sources: Sources) -> str:
    for path in sorted((p for p in sources.paths if _GENERATED.fullmatch(p)), key=lambda p: (p.count("/"), p)):
        for number in _NUMBER.findall(sources.text(path)):
            try:
                return Version(number).public
            except InvalidVersion:
                continue
    return UNKNOWN
