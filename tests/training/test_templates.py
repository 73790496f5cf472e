"""The start-up check and rows with a real tokenizer, under templates that keep, drop and double what was said."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from execcritic_training.records import Message, Turn
from execcritic_training.rows import build_rows
from execcritic_training.templates import DIALOGUE, TOOLS, Finding, Render, check_record, check_template
from tests.training.conftest import CHATML
from tests.training.making import record, sampled

STRIPS = """{%- set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}
{%- set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.role == 'assistant' and loop.index0 > ns.last %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
<think>
{% endif %}"""
"""As Qwen3 does: reasoning is shown since the last message of the user, and dropped before it."""

DOUBLES = """{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.role == 'assistant' %}<think>
</think>
{% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""Made for training: an empty reasoning that nobody sampled."""


def words(messages: Sequence[Message], reply: bool) -> list[int]:
    """A renderer without a tokenizer: each character is a token."""
    text = "".join(f"[{m['role']}]{m['content']}" for m in messages) + ("[assistant]" if reply else "")
    return [ord(letter) for letter in text]


def test_a_faithful_template_has_no_findings() -> None:
    assert check_template(words) == []


def test_a_template_that_shortens_what_was_said_is_found_where_it_does() -> None:
    def forgets(messages: Sequence[Message], reply: bool) -> list[int]:
        kept = [
            m if at >= len(messages) - 2 or m["role"] != "tool" else {**m, "content": ""}
            for at, m in enumerate(messages)
        ]
        return words(kept, reply)

    findings = check_template(forgets)
    assert {finding.kind for finding in findings} == {"rewrites"}
    before = words(DIALOGUE[:3], False)
    assert findings[0].turn == 1 and findings[0].position == len(before) + len("[tool]")
    assert "does not continue turn 1" in str(findings[0]) and "use a template" in str(findings[0])


def test_a_reply_with_another_opening_is_found() -> None:
    def doubles(messages: Sequence[Message], reply: bool) -> list[int]:
        return words([m if m["role"] != "assistant" else {**m, "role": "assistant][x"} for m in messages], reply)

    assert check_template(doubles) == [Finding("opening", 0, len(words(DIALOGUE[:2], True)))]

    def renames(messages: Sequence[Message], reply: bool) -> list[int]:
        return words([{**m, "role": m["role"].replace("assistant", "bot")} for m in messages], reply)

    assert Finding("reply", 0, len(words(DIALOGUE[:2], True)) - len("assistant]")) in check_template(renames)


def test_a_record_is_compared_with_what_was_sampled() -> None:
    user, said = {"role": "user", "content": "x"}, {"role": "assistant", "content": "yes"}
    prompt = words([user], True)
    turn = Turn(keep=0, messages=[user], reply=said, tokens=sampled((prompt, [*map(ord, "yes")])).turns[0].tokens)
    assert check_record(words, record(turn)) == []
    other = turn.model_copy(update={"reply": {"role": "assistant", "content": "yEs"}})
    assert check_record(words, record(other)) == [Finding("reply", 0, len(prompt) + 1)]


# -- with a real tokenizer -------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def tokenizer(smollm2: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(smollm2)


def renderer(tokenizer: Any, template: str) -> Render:
    def render(messages: Sequence[Message], reply: bool) -> list[int]:
        text = tokenizer.apply_chat_template(
            list(messages), tools=TOOLS, chat_template=template, add_generation_prompt=reply, tokenize=False
        )
        ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    return render


@pytest.mark.slow
def test_real_templates(tokenizer: Any) -> None:
    assert check_template(renderer(tokenizer, CHATML.read_text("utf-8"))) == []
    stripped = check_template(renderer(tokenizer, STRIPS))
    assert ("rewrites", 2) in [(finding.kind, finding.turn) for finding in stripped]  # a note of the harness came
    assert [finding.kind for finding in check_template(renderer(tokenizer, DOUBLES))] == ["opening"]
    assert tokenizer.pad_token_id != tokenizer.eos_token_id


texts = st.text(st.characters(codec="utf-8", exclude_characters="<|>"), min_size=1, max_size=12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["keeps", "strips"])
@given(data=st.data())
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_of_a_real_tokenizer(tokenizer: Any, name: str, data: st.DataObject) -> None:
    """An agent over a template that keeps or strips reasoning; the model cuts its text into tokens in its own way."""
    render = renderer(tokenizer, CHATML.read_text("utf-8") if name == "keeps" else STRIPS)
    stop = tokenizer.eos_token_id
    messages: list[Message] = [{"role": "user", "content": data.draw(texts)}]
    turns: list[tuple[list[int], list[int]]] = []
    for _ in range(data.draw(st.integers(1, 4))):
        prompt = render(messages, True)
        text = data.draw(texts)
        at = data.draw(st.integers(0, len(text)))
        pieces = [tokenizer(part, add_special_tokens=False)["input_ids"] for part in (text[:at], text[at:])]
        turns.append((prompt, [*pieces[0], *pieces[1], stop]))
        messages.append({"role": "assistant", "content": text, "reasoning_content": data.draw(texts)})
        messages.append({"role": data.draw(st.sampled_from(["user", "tool"])), "content": data.draw(texts)})
    rows, counts = build_rows([sampled(*turns)], stops={stop})
    spans = [(row, span) for row in rows for span in row.spans]
    for (row, span), (prompt, output) in zip(spans, turns, strict=True):
        assert row.ids[: span.output] == prompt and row.ids[span.output : span.end] == output
        assert row.labels[span.output : span.end] == output
    assert counts.trained == sum(len(output) for _, output in turns)
    followed = sum(b[0][: len(a[0] + a[1])] == a[0] + a[1] for a, b in pairwise(turns))
    assert counts.rows == len(turns) - followed
