"""GitHub in and out: which server, issues with their comments, and a finished run as a pull request.

Nothing is sent but what a command was asked for: reading an issue and, with `--push`, one branch and one pull request.
The token goes to one server only (`server`), and to git through the environment (`execcritic.transport`).
"""
