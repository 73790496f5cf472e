"""The bash program around an action: it restores the state, waits for its script, runs it and saves the state.

Runs inside sandboxes: standard library only, Python 3.6 and later. All on one line, so that bash counts the lines of
the agent's script from 1.
"""

END = b"#end\n"
SAVE = '{{ export -p; printf "cd -- %q; OLDPWD=%q #end\\n" "$PWD" "${{OLDPWD-}}"; }} >/dev/fd/{state}'
# The script is no argument: `pkill -f` in it must not match its own shell. Saving both in a trap and at the end
# serves scripts that call `exit` and scripts that set a trap of their own. When memory runs out, what the agent
# started is a better victim than the runner.
SHELL = (
    "{{ echo 500 >/proc/self/oom_score_adj; }} 2>/dev/null; . /dev/fd/{state};"
    " read -r <&{go} || exit; exec {go}<&-; IFS= read -r -d '' SCRIPT <&{script}; exec {script}<&-;"
    " trap '" + SAVE + '\' EXIT; eval "unset SCRIPT REPLY; $SCRIPT"; set -- $?; ' + SAVE + "; exit $1"
)
# Without input vim listens to its own stderr, for ever; with a command to carry out it may run.
EDITOR = (
    '__editor() { local word; for word in "${@:2}"; do case $word in -[cesESh]* | +* | --*) command "$@"; return;;'
    ' esac; done; echo "$1: there is no terminal for an editor; write the file with a here-document, sed or a script"'
    " >&2; return 1; }; "
)
EDITORS = "".join('%s() { __editor %s "$@"; }; ' % (name, name) for name in ("vi", "vim", "nvim", "view", "vimdiff"))


def program(state, script, go):
    """The program; its arguments are descriptors: saved state, script, and the pipe whose first line starts it."""
    return EDITOR + EDITORS + SHELL.format(state=state, script=script, go=go)
