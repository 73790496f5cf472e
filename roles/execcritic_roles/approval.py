"""A person's word before each command of a model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from execcritic_roles.models.protocol import Quit
from execcritic_roles.printable import printable
from execcritic_roles.terminal import Terminal

_QUESTION = "Run it? y(es), n(o) REASON, a(lways), v(iew all), q(uit, keeps the patch) > "


class Approval:
    """Asks about the commands of one role. Only commands: the other tools run nothing but the harness's own work.

    `declined`: what was said no to in an earlier attempt of the run, by the SHA-256 of the command, with the reasons in
    their order. It is said no to again, because the replies that are played again came after that. A yes is not
    remembered: a run may come from elsewhere, and its record would decide what runs here. `note` records an answer.
    """

    def __init__(
        self,
        terminal: Terminal,
        role: str,
        note: Callable[[str, Mapping[str, Any]], None],
        declined: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._terminal, self._role, self._note = terminal, role, note
        self._declined = {digest: list(reasons) for digest, reasons in (declined or {}).items()}
        self._always = False

    def __call__(self, command: str, seconds: float) -> str | None:
        """None where the command may run, else the reason (possibly empty) why not. Raises Quit."""
        digest = hashlib.sha256(command.encode("utf-8", "surrogatepass")).hexdigest()
        if reasons := self._declined.get(digest):
            return reasons.pop(0)
        if self._always:
            return None
        with self._terminal.floor():
            answer, reason = self._ask(command, seconds)
        self._note("confirm", {"role": self._role, "command": digest, "answer": answer, "reason": reason})
        if answer == "quit":
            raise Quit("the person at the terminal ended it")
        self._always = answer == "always"
        return reason if answer == "no" else None

    def _ask(self, command: str, seconds: float) -> tuple[str, str]:
        escaped = "; what a terminal would not show is escaped" if printable(command) != command else ""
        indented = "    " + command.replace("\n", "\n    ")
        self._terminal.show(f"The {self._role.capitalize()} agent wants to run (at most {seconds:g} s{escaped}):")
        self._terminal.excerpt(indented)
        while True:
            try:
                word, _, rest = self._terminal.line(_QUESTION, answer=True).strip().partition(" ")
                match word.lower():
                    case "y" | "yes":
                        return "yes", ""
                    case "a" | "always":
                        return "always", ""
                    case "n" | "no":
                        return "no", rest.strip() or self._terminal.line("Why (for the model)? ", answer=True).strip()
                    case "v" | "view":
                        self._terminal.page(indented)
                    case "q" | "quit":
                        return "quit", ""
            except EOFError:
                return "quit", ""
