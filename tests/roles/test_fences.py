"""Which action a reply in plain text makes, and that any doubt is none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execcritic_roles.models.fences import Fault, FencedCall, find_call

TOOLS = ("bash", "check", "submit")


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("```bash\nls\n```", "ls"),
        ("I look around first.\n\n```bash\nls -l\ncat f\n```\nThen I go on.", "ls -l\ncat f"),
        ("```sh\nls\n```", "ls"),
        ("~~~ bash\necho '```'\n~~~", "echo '```'"),
        ("```Bash\r\nls\r\n```\r\n", "ls"),
        ("````bash\ncat > f.md <<'E'\n```\nx\n```\nE\n````", "cat > f.md <<'E'\n```\nx\n```\nE"),
        ("   ```bash\nls\n   ```", "ls"),
        ("The bug:\n```python\n1 / 0\n```\nSo:\n```bash\nls\n```", "ls"),
        ("<think>\nrun this?\n```bash\nrm -rf .\n```\n</think>\n\n```bash\nls\n```", "ls"),
        ("<reasoning>no ``` end</reasoning>```bash\nls\n```", "ls"),
        ("half a ``` thought\n```bash\nrm\n</think>\n\n```bash\nls\n```", "ls"),  # the template wrote the first <think>
        ("```bash\ngrep '</think>' log\n```", "grep '</think>' log"),
        ("```bash\ncat <<E\n</think>\nE\n```", "cat <<E\n</think>\nE"),
        ("```bash\n```", ""),
    ],
)
def test_a_command(text: str, command: str) -> None:
    found = find_call(text, TOOLS)
    assert isinstance(found, FencedCall) and found.name == "bash"
    assert json.loads(found.arguments) == {"command": command}


def test_a_command_with_its_time_limit() -> None:
    found = find_call("```bash timeout=300 title=x\nmake\n```", TOOLS)
    assert isinstance(found, FencedCall)
    assert json.loads(found.arguments) == {"command": "make", "timeout": 300, "title": "x"}


def test_other_tools_get_what_the_block_holds() -> None:
    assert find_call('```submit\n{"reason": "done"}\n```', TOOLS) == FencedCall("submit", '{"reason": "done"}')
    assert find_call("```check\n```", TOOLS) == FencedCall("check", "")
    assert find_call("```submit\n{broken\n```", TOOLS) == FencedCall("submit", "{broken")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("", "none"),
        ("I have fixed it.", "none"),
        ("Run `ls` please", "none"),
        ("```bash ls```", "none"),
        ("```bash\nls\n```\n```bash\npwd\n```", "several"),
        ("```bash\nls\n```\n```check\n```", "several"),
        ("```bash\nls", "unclosed"),
        ("```bash\nls\n``` and so on", "unclosed"),
        ("```bash\nls\n```\nand\n```", "unclosed"),
        ("````bash\nls\n```", "unclosed"),
        ("```python\nprint(1)\n```", "language"),
        ("```\nls\n```", "language"),
        ("```console\n$ ls\n```", "language"),
        ("<think>\n```bash\nls\n```\n", "thinking"),
        # Scripts that hold fences themselves: only a part of each would be run.
        ("```bash\ncat > f.md <<'E'\n```\nx\n```\nE\n```", "unnamed"),
        ("```bash\ncat > f.md <<'E'\n```python\nx\n```\nE\n```", "unclosed"),
        ("```bash\ncat > f.md <<'E'\n```py\nx\n```\n```py\ny\n```\nE\n```", "unclosed"),
        ("```bash\ncat > f.md <<'E'\n```py\nx\n```\n```\ny\n```\nE\n```", "unclosed"),
    ],
)
def test_no_action(text: str, key: str) -> None:
    found = find_call(text, TOOLS)
    assert isinstance(found, Fault) and found.key == key


PIECES = st.sampled_from(
    ["```", "```bash", "````bash", "```py", "~~~", "~~~bash", "</think>", "<think>", "ls", "", " "]
)


@given(st.lists(PIECES, max_size=12))
def test_what_is_found_stands_in_the_reply_from_an_opening_to_its_closing(lines: list[str]) -> None:
    text = "\n".join(lines)
    found = find_call(text, TOOLS)
    if isinstance(found, FencedCall):
        command = json.loads(found.arguments)["command"]
        inside = f"{command}\n" if command else ""
        assert any(f"{fence}bash\n{inside}{fence}" in text for fence in ("```", "````", "~~~"))


@given(st.text())
def test_any_text_has_an_answer(text: str) -> None:
    assert isinstance(find_call(text, TOOLS), FencedCall | Fault)
