"""The attacks' arenas: tiny repositories in a real sandbox."""

from tests.attacks.conftest import cache, make_arena, sandboxes

__all__ = ["cache", "make_arena", "sandboxes"]
