"""Tests of the loop have agents that write one file, `fix`; its bytes are the patch."""

from __future__ import annotations

from execcritic_scaffold.sandbox.protocol import Session


def written(session: Session) -> bytes:
    """The patch of such a workspace."""
    try:
        return session.read("fix")
    except FileNotFoundError:
        return b""
