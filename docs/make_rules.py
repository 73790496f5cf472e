"""Write the tables of docs/harness.md from rules.yaml, so that they cannot drift. `--check` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from execcritic_scaffold import ruletable

BEGIN, END = "<!-- rules: begin -->\n", "<!-- rules: end -->\n"
PAGE = Path(__file__).with_name("harness.md")


def main() -> int:
    text = PAGE.read_text("utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    new = before + BEGIN + render() + END + after
    if "--check" in sys.argv:
        if new != text:
            print("docs/harness.md differs from rules.yaml; run `python docs/make_rules.py`.", file=sys.stderr)
        return int(new != text)
    PAGE.write_text(new, "utf-8")
    return 0


def render() -> str:
    rows = ["| rule | code | says | agent | person | switch |", "|---|---|---|---|---|---|"]
    examples: list[str] = []
    for rule in ruletable.table().values():
        switch = "fixed" if rule.fixed else "yes"
        rows.append(f"| {rule.rule} | `{rule.code}` | {rule.says} | {rule.agent} | {rule.person} | {switch} |")
        if rule.fails:
            files = {"tests/test_new.py": rule.fails} if isinstance(rule.fails, str) else rule.fails
            examples += [f"\n### {rule.code} ({rule.rule})", "", rule.says]
            for path, content in files.items():
                if path != "node":
                    examples += ["", f"`{path}`", "", "```python", content.rstrip(), "```"]
    document = ruletable.document()
    plain = [
        "",
        "An example that keeps every rule, on the repository below:",
        "",
        "```python",
        document["plain"].rstrip(),
    ]
    plain += ["```", "", "The repository and the issue of the examples:", ""]
    for path, content in document["repository"].items():
        plain += [f"`{path}`", "", "```python", content.rstrip(), "```", ""]
    plain += ["```text", document["issue"].rstrip(), "```", "", "## Examples that break a rule"]
    return "\n".join([*rows, *plain, *examples]) + "\n\n"


if __name__ == "__main__":
    sys.exit(main())
