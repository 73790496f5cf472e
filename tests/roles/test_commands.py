"""What a model sees of its commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from execcritic_scaffold.agents import StopKind
from execcritic_scaffold.errors import SandboxError
from execcritic_scaffold.inject import spool
from execcritic_scaffold.sandbox.protocol import Session
from tests.openai_server import Server
from tests.roles.episodes import bash, tool_replies


def test_long_output_keeps_head_and_tail_and_says_what_is_missing(
    server: Server, session: Session, repairer: Any
) -> None:
    server.call(bash("echo START; seq 5000; echo THE-ERROR; exit 3"))
    server.call(bash("printf 'a%.0s' $(seq 60000); echo END")).call(bash("head -c 3000000 /dev/zero | tr '\\0' y"))
    server.call(("check", {}))
    repairer(output_chars=1000).work(session, 10)
    lines, one_line, flood = (text for _, text in tool_replies(server))
    assert lines.startswith("START\n1\n") and lines.endswith("THE-ERROR\n[exit code 3]")
    assert "lines) and" in lines or "lines) left out" in lines
    assert one_line.startswith("aaa") and one_line.endswith("END\n[exit code 0]") and "characters" in one_line
    assert "bytes left out: all of it is in /" in flood
    assert all(len(text) < 1300 for text in (lines, one_line, flood))


def test_what_is_left_out_can_be_read_again(server: Server, session: Session, repairer: Any) -> None:
    server.call(bash("seq 5000")).call(bash(f"head -c {spool.FILE + 7} /dev/zero | tr '\\0' y"))
    server.call(bash("sed -n 2500p $TMPDIR/execcritic-outputs/output-1.txt")).call(("check", {}))
    repairer(output_chars=1000).work(session, 10)
    short, flood, again = (text for _, text in tool_replies(server))
    assert "left out: all of it is in /" in short and "/output-1.txt: read parts of it …]" in short
    assert f"its first {spool.FILE} bytes are in /" in flood and "; 7 bytes were dropped …]" in flood
    assert again == "2500\n[exit code 0]"


def test_what_runs_on_in_the_background_is_said(server: Server, session: Session, repairer: Any) -> None:
    server.call(bash("sleep 1000 & echo started")).call(bash("for n in $(seq 20); do sleep 1000 & done"))
    server.call(bash("true")).call(("check", {}))
    repairer().work(session, 10)
    one, many, none = (text for _, text in tool_replies(server))
    assert re.search(r"\[1 process still running in the background: sleep 1000 \(pid \d+\)\]$", one)
    assert "[20 processes still running" in many and "and 12 more]" in many and len(many) < 500
    assert none == "(no output)\n[exit code 0]"


def test_programs_for_people_end_with_a_message(server: Server, session: Session, repairer: Any) -> None:
    server.call(bash("vi f")).call(bash("python3")).call(bash("sleep 60", timeout=1)).call(("check", {}))
    repairer().work(session, 10)
    editor, repl, late = (text for _, text in tool_replies(server))
    assert "no terminal for an editor" in editor and editor.endswith("[exit code 1]")
    assert "its input was empty" in repl
    assert "timed out after 1 s" in late and "editors, pagers, prompts" in late


def test_bytes_that_are_no_text(server: Server, session: Session, repairer: Any) -> None:
    server.call(bash(r"printf 'a\377\376\000\033[31mb'")).call(bash("cat /bin/true")).call(("check", {}))
    assert repairer().work(session, 10).kind is StopKind.CHECK
    text = tool_replies(server)[0][1]
    assert text == "a\ufffd\ufffd\ufffd\ufffd[31mb\n[exit code 0]"


def test_a_command_that_waits_for_input_gets_none(server: Server, session: Session, repairer: Any) -> None:
    server.call(bash("cat; sed p; read x; echo $?; echo piped | cat; cat <<< here")).call(("check", {}))
    repairer().work(session, 10)
    assert tool_replies(server)[0][1].split() == ["1", "piped", "here", "[exit", "code", "0]"]


def test_time_limits_of_a_command(server: Server, session: Session, workspace: Path, repairer: Any) -> None:
    server.call(bash("sleep 60")).call(bash("sleep 60", timeout=1e9)).call(bash("sleep 0.6; echo woke", timeout=5))
    server.call(("check", {}))
    repairer(action_seconds=0.5, action_seconds_max=1.5).work(session, 10)
    first, second, third = (text for _, text in tool_replies(server))
    assert "timed out after 1 s" in first and "timed out after 1.5 s" in second
    assert third == "woke\n[exit code 0]"


def test_a_dead_sandbox_is_an_error_and_not_a_result(server: Server, session: Session, repairer: Any) -> None:
    server.call(bash("echo alive"))
    session.close()
    with pytest.raises(SandboxError):
        repairer().work(session, 10)
