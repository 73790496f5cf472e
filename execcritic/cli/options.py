"""The options that several commands share, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from execcritic.progress import Mode

MODEL = "Where and with what"
JUDGE = "How the harness judges"
RUN = "Configuration and output"

REPO_HELP = "The checkout (any folder), or a git URL or OWNER/REPO on GitHub to clone."
ISSUE_HELP = "The issue: a text file, a GitHub page, OWNER/REPO#N, N of that repository, or - for stdin."
Repo = Annotated[str, typer.Option("--repo", metavar="PATH|URL", help=REPO_HELP)]
RepoPath = Annotated[str, typer.Option("--repo", metavar="PATH", help="The checkout (any folder).")]
IssueSource = Annotated[str, typer.Option("--issue", metavar="FILE|URL|N|-", help=ISSUE_HELP)]
Ref = Annotated[
    str | None,
    typer.Option(
        "--ref",
        metavar="REV",
        help="Start from this branch, tag, commit or pull/N/head, not from the files as they are.",
    ),
]
Comments = Annotated[
    bool,
    typer.Option("--comments", metavar="", help="Read the GitHub issue's comments too. They often tell the fix."),
]
Push = Annotated[
    bool, typer.Option("--push", metavar="", help="Really push the branch and open the pull request (GITHUB_TOKEN).")
]
BundleDir = Annotated[Path, typer.Option("--bundle", metavar="DIR", help="The folder of a frozen test, or of a run.")]
Model = Annotated[
    str | None,
    typer.Option("--model", metavar="SPEC", help="openai:NAME, replay:FILE or human.", rich_help_panel=MODEL),
]
BaseUrl = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="Endpoint of openai: models.", rich_help_panel=MODEL),
]
SandboxName = Annotated[
    str | None,
    typer.Option(
        "--sandbox", metavar="NAME", help="docker, bubblewrap, or local (no isolation).", rich_help_panel=MODEL
    ),
]
Python = Annotated[
    str | None,
    typer.Option("--python", metavar="EXE", help="Interpreter that runs the tests.", rich_help_panel=MODEL),
]
Image = Annotated[
    str | None, typer.Option("--image", metavar="IMAGE", help="Docker image to run in.", rich_help_panel=MODEL)
]
Setup = Annotated[
    list[str],
    typer.Option(
        "--setup",
        metavar="CMD",
        help="Set-up command (network on; repeatable); auto: found from its files; none.",
        rich_help_panel=MODEL,
    ),
]
SourceRoots = Annotated[
    list[str],
    typer.Option(
        "--source-root", metavar="DIR", help="Folder to import from; found if not given.", rich_help_panel=MODEL
    ),
]
RunnerName = Annotated[
    str | None,
    typer.Option("--runner", metavar="NAME", help="Test runner; found if not given.", rich_help_panel=MODEL),
]
Guard = Annotated[
    str | None,
    typer.Option(
        "--guard",
        metavar="auto|off|FILE",
        help="Existing tests that must still pass: those beside the frozen one, none, or node ids in FILE, one a line.",
        rich_help_panel=JUDGE,
    ),
]
GuardSeconds = Annotated[
    float | None,
    typer.Option("--guard-seconds", metavar="N", help="Time the guard may take.", rich_help_panel=JUDGE),
]
Repeats = Annotated[
    int | None, typer.Option("--repeats", metavar="N", help="Runs that must agree.", rich_help_panel=JUDGE)
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="YAML merged over the defaults.", rich_help_panel=RUN),
]
Sets = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="One configuration key; repeatable.", rich_help_panel=RUN),
]
Confirm = Annotated[
    bool | None,
    typer.Option("--confirm/--no-confirm", metavar="", help="Ask before each command of a model.", rich_help_panel=RUN),
]
ReviewTest = Annotated[
    bool | None,
    typer.Option(
        "--review-test/--no-review-test", metavar="", help="Ask before a test is frozen.", rich_help_panel=RUN
    ),
]
Progress = Annotated[
    Mode,
    typer.Option("--progress", metavar="MODE", help="auto, live, plain, jsonl or quiet.", rich_help_panel=RUN),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="New folder for the record; ./runs/<id> if absent.", rich_help_panel=RUN),
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object on stdout.", rich_help_panel=RUN)]
