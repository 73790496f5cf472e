"""The attacks' arenas (tiny repositories in a real sandbox), and the console script with its small data sets."""

from tests.app.batch.conftest import study
from tests.app.conftest import cli, engine, environment, template
from tests.attacks.conftest import cache, make_arena, sandboxes

__all__ = ["cache", "cli", "engine", "environment", "make_arena", "sandboxes", "study", "template"]
