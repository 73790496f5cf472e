"""The issue of a task: from what the hidden tests saw, with no name of a test and no line of the fix."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass

from execcritic_scaffold import syntax
from execcritic_scaffold.outcome import NodeResult, Outcome
from execcritic_scaffold.sandbox.protocol import WORKDIR
from execcritic_training.factory import snippet

LONGEST = 1200
"""Characters of what is shown of a failure."""


@dataclass(frozen=True)
class Evidence:
    """What is known of the failing behaviour. `subject` is what was called, `code` does it again, `came` is what came
    of it, `expected` what should have."""

    subject: str
    code: str
    came: str
    expected: str


Writer = Callable[[Evidence], str]
"""Makes the text of an issue."""

ASKED = """Write the issue that a user of a Python package would file about the behaviour below: a title line, a blank
line, then the report in a few plain sentences with the code to reproduce it, what happens and what should. Speak
neither of tests nor of how it might be fixed.

{evidence}"""


def template(evidence: Evidence) -> str:
    """The plain text, the same for the same evidence."""
    return (
        f"`{evidence.subject}` {_title(evidence)}\n\nThis code:\n\n```python\n{evidence.code}\n```\n\n"
        f"What happens:\n\n```\n{evidence.came}\n```\n\n{evidence.expected}\n"
    )


def by_model(complete: Callable[[str], str]) -> Writer:
    """A writer that asks a model; `complete` is given the whole prompt."""

    def write(evidence: Evidence) -> str:
        return complete(ASKED.format(evidence=json.dumps(asdict(evidence), indent=1))).strip() + "\n"

    return write


def write(
    failing: Mapping[str, NodeResult], texts: Mapping[str, bytes], secret: Collection[str], writer: Writer
) -> str | None:
    """The issue from the first failing test of which one can be written that holds none of `secret`; the template's
    where the writer's own does. None where there is none. `texts` are the test files."""
    for evidence in evidences(failing, texts):
        for make in (writer, template):
            text = _steady(make(evidence))
            if not leaks(text, secret):
                return text
    return None


def _steady(text: str) -> str:
    """Without what differs from run to run: addresses, and the folder of the sandbox."""
    return re.sub(r"0x[0-9a-fA-F]{6,}", "0x...", text.replace(f"{WORKDIR}/", ""))


def leaks(text: str, secret: Collection[str]) -> bool:
    """Whether a text holds one of these words or lines, white space aside."""
    plain = " ".join(text.split())
    return any(re.search(rf"(?<!\w){re.escape(' '.join(one.split()))}(?!\w)", plain) for one in secret if one.strip())


def secrets(nodes: Iterable[str], fixed: Iterable[bytes]) -> set[str]:
    """What an issue must not say: names of hidden tests and their classes, and the lines that the fix brings back."""
    names = {part for node in nodes for part in node.split("[")[0].split("::")[1:]}
    lines = {line.decode(errors="replace").strip() for line in fixed}
    return names | {line for line in lines if len(re.findall(r"\w+", line)) > 1}


def evidences(failing: Mapping[str, NodeResult], texts: Mapping[str, bytes]) -> Iterable[Evidence]:
    """What each failing test shows, where its statement can be read."""
    for node, result in failing.items():
        path, *names = node.split("[")[0].split("::")
        module = syntax.parse(texts.get(path, b""))
        function = syntax.locate(module, names) if module else None
        if module is None or function is None or result.failure is None:
            continue
        end = function.end_lineno or function.lineno
        lines = [f.line for f in result.failure.frames if f.path == path and function.lineno <= f.line <= end]
        found = snippet.of(module, function, lines[-1]) if lines else None
        if found is not None and "self." not in found.code:
            yield Evidence(found.subject, found.code, came := _came(result), _expected(found, came))


def _came(result: NodeResult) -> str:
    failure = result.failure
    assert failure is not None
    message = failure.message.strip()
    if result.outcome is Outcome.FAILED_EXCEPTION:
        message = f"{failure.kind.removeprefix('builtins.')}: {message}"
    elif message.startswith("DID NOT RAISE") or "not raised" in message:
        message = "No exception is raised."
    else:
        message = re.sub(r"^(AssertionError: )?(assert )?", "", message)
    return message if len(message) <= LONGEST else f"{message[:LONGEST]}..."


def _expected(found: snippet.Snippet, came: str) -> str:
    if found.raises:
        return f"It should raise `{found.raises}`."
    if found.expected is None:
        same = "==" in came or "!=" in came
        return "The two sides shown should be the same." if same else "It should work."
    if found.expected in ("True", "False"):
        return f"The last expression should be {'true' if found.expected == 'True' else 'false'}."
    return f"The last expression should give `{found.expected}`."


def _title(evidence: Evidence) -> str:
    if evidence.came == "No exception is raised.":
        return "accepts what it should refuse"
    error = re.match(r"([\w.]+): ", evidence.came)
    if error and evidence.came.partition(":")[0].endswith(("Error", "Exception", "Iteration")):
        return f"fails with {error[1]}"
    return "gives a wrong result"
