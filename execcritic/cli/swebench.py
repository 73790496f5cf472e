"""`swebench`: commands over many instances."""

from __future__ import annotations

import typer

from execcritic.cli import results

app = typer.Typer(name="swebench", help="Many issues at once: SWE-bench and data sets like it.", no_args_is_help=True)
results.add_to(app)
