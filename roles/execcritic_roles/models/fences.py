"""Finding the one action in a reply that is plain text: a fenced block whose opening line names a tool.

Whatever leaves a doubt about what is meant is no action: a script of which a part is taken for the whole may do harm.
Blocks in other languages are illustrations. A block without a name is not: where a script holds fences of its own, the
rest of it looks like one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass

_OPENING = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`]*)")
_NAMED = re.compile(r"^ {0,3}(?:`{3,}|~{3,})[ \t]*\w", re.MULTILINE)
_THINKING = re.compile(r"\s*<(think|thinking|thought|reasoning)>(?:.*?(</\1>))?", re.DOTALL)
_THOUGHT = re.compile(r"</(?:think|thinking|thought|reasoning)>\s*")
_SHELL = "bash"
_ALIASES = {"sh": _SHELL, "shell": _SHELL}
_OPTION = re.compile(r"(\w+)=(\S+)")


@dataclass(frozen=True)
class FencedCall:
    """`arguments` is JSON as the model wrote it, for a command the JSON made of the block."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Fault:
    """Why a reply holds no action: the key of its correction in prompts/text_protocol.yaml, and what was found."""

    key: str
    found: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Block:
    words: tuple[str, ...]
    """The opening line after the fence."""
    body: str


def find_call(text: str, tools: Collection[str]) -> FencedCall | Fault:
    """The call that a reply makes, or what is wrong with it. Blocks inside the model's thinking do not count."""
    said = _after_thinking(text.replace("\r\n", "\n"))
    if said is None:
        return Fault("thinking")
    blocks, closed = _blocks(said)
    if not closed:
        return Fault("unclosed")
    actions = [(name, block) for block in blocks if (name := _tool(block)) in tools]
    if len(actions) > 1:
        return Fault("several", (str(len(actions)),))
    if not blocks:
        return Fault("none")
    if not actions:
        return Fault("language", tuple(" ".join(block.words[:1])[:20] for block in blocks[:5]))
    if any(not block.words for block in blocks):
        return Fault("unnamed")
    name, block = actions[0]
    return FencedCall(name, _command(block) if name == _SHELL else block.body)


def _after_thinking(text: str) -> str | None:
    """What a reply says after its thinking; None where the thinking has no end.

    Where the chat template opened the thinking itself, the reply holds only its end.
    """
    if opened := _THINKING.match(text):
        return text[opened.end() :] if opened[2] else None
    ended = _THOUGHT.search(text)
    return text[ended.end() :] if ended and _NAMED.search(text, ended.end()) else text


def _blocks(text: str) -> tuple[list[_Block], bool]:
    """The fenced blocks by the rules of CommonMark, and whether the last one is closed."""
    blocks: list[_Block] = []
    fence, words, body = "", (), list[str]()
    for line in text.split("\n"):
        marked = _OPENING.fullmatch(line)
        if not fence:
            if marked:
                fence, words, body = marked[1], tuple(marked[2].split()), []
        elif marked and marked[1].startswith(fence) and not marked[2].strip():
            blocks.append(_Block(words, "\n".join(body)))
            fence = ""
        else:
            body.append(line)
    return blocks, not fence


def _tool(block: _Block) -> str:
    name = block.words[0].lower() if block.words else ""
    return _ALIASES.get(name, name)


def _command(block: _Block) -> str:
    """The arguments of a command: the block, with `timeout=300` and the like from its opening line."""
    options = {match[1]: _number(match[2]) for word in block.words[1:] if (match := _OPTION.fullmatch(word))}
    return json.dumps({**options, "command": block.body})


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
