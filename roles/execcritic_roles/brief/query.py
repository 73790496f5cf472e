"""What an issue names: identifiers, words, files, modules. Read by shape only, so that no mark-up is trusted.

Every expression here takes time in proportion to the text; the text is bounded.
"""

from __future__ import annotations

import keyword
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

LONGEST = 60_000
"""Characters of an issue that are read."""
TERMS = 400
"""Identifiers and words that are searched for, the heaviest first."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}(?:\.[A-Za-z_][A-Za-z0-9_]{0,79})*")
_PATH = re.compile(r"[\w.+\-/\\]+")
_FILE = (".py", ".pyx", ".pyi", ".cfg", ".toml", ".ini", ".html", ".js", ".txt", ".rst")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_STOP = frozenset(
    """a about above actual actually after again all already also although always an and another any anything are as at
    be because been before behavior behaviour being below besides best both bug but by call called can case
    cases cause causes change changed code correct could current currently describe description did different do
    does doing done due each either else error even every example exception expect expected fail failing fails
    file first fix following for from get gets getting give given gives going got had happen happens has have he
    help her here how however i if in information input instead into is issue it its itself just kind know last
    latest least less let like line lines look looks made make makes many may maybe me might more most much must
    my need needed never new no non not nothing now number occurs of off often on once one only or other our out
    output over own people please possible pr probably problem produces pull python raise raised raises rather
    really recent report reproduce request result results return returned returns right run running same second
    see seem seems several should show shows similar since so some someone something specific steps still such
    support system take test tested tests than that the their them then there these they thing things think this
    those though through time to too traceback try trying two under until up us use used user users uses using
    value values version very want wanted was way we well were what when where whether which while who why will
    with within without work working works would wrong you your""".split()
)
_NOISE = frozenset({*keyword.kwlist, *keyword.softkwlist, "self", "cls", "print", "str", "int", "args", "kwargs"})


@dataclass(frozen=True)
class Query:
    """What to look for, with weights: exact identifiers, lower-case words, and files and modules as written."""

    identifiers: Mapping[str, float]
    words: Mapping[str, float]
    paths: tuple[str, ...]
    """In the order of the text, `/`-separated; absolute ones and parts of addresses too."""
    dotted: tuple[str, ...]
    """Names with a dot in them: `package.module.Class`."""


def read(issue: str) -> Query:
    """What `issue` names. The first line counts twice: it is the title."""
    text = issue[:LONGEST]
    title, _, rest = text.lstrip().partition("\n")
    written = (found.replace("\\", "/").strip(".") for found in _PATH.findall(text))
    paths = [found for found in written if "/" in found or found.endswith(_FILE)]
    identifiers: Counter[str] = Counter()
    words: Counter[str] = Counter()
    dotted: dict[str, None] = {}
    for part, times in ((title, 2), (rest, 1)):
        for found in _NAME.finditer(part):
            chain = found[0].split(".")
            called = part[found.end() : found.end() + 1] == "("
            quoted = part[found.start() - 1 : found.start()] == "`"
            if len(chain) > 1:
                dotted[found[0]] = None
            for name in chain:
                if len(name) < 3 or name.lower() in _NOISE:
                    continue
                if len(chain) > 1 or called or quoted or is_code(name):
                    identifiers[name] += times
                for word in parts(name):
                    if word not in _STOP and len(word) > 2:
                        words[word] += times
    return Query(_weighed(identifiers), _weighed(words), tuple(dict.fromkeys(paths)), tuple(dotted))


def is_code(name: str) -> bool:
    """Whether a name is no word of prose: it has an underscore, a digit, or a capital inside."""
    return (
        "_" in name
        or any(c.isdigit() for c in name)
        or (name != name.capitalize() and not name.islower() and not name.isupper())
    )


def parts(name: str) -> list[str]:
    """The words that a name is made of: `BaseModelFormSet` and `base_model_formset`; each also without a plural s."""
    return [stem(part.lower()) for part in _PARTS.findall(name)]


def stem(word: str) -> str:
    """A word without its plural s."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _weighed(counts: Counter[str]) -> dict[str, float]:
    """Repetition counts, but less and less."""
    return {term: 1 + math.log(count) for term, count in counts.most_common(TERMS)}
