#!/usr/bin/env bash
# A Docker engine of our own on a private socket: no network set-up, no TCP, nothing outside DIR.
#
#   engine.sh start DIR    start it and print its DOCKER_HOST (keep DIR short: a socket's path has at most 107 bytes)
#   engine.sh stop DIR     stop it cleanly and remove DIR
set -euo pipefail

action=$1 dir=$2

alive() { [ -s "$dir/pid" ] && kill -0 "$(cat "$dir/pid")" 2>/dev/null; }

answers() {
    python3 - "$dir/s" <<'PY' 2>/dev/null
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.settimeout(5)
connection.connect(sys.argv[1])
connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
sys.exit(b" 200 " not in connection.recv(64))
PY
}

case $action in
start)
    mkdir -p "$dir"
    # In a session of its own: a Ctrl-C in the terminal must not stop it before the tests have cleaned up.
    setsid dockerd --data-root "$dir/data" --exec-root "$dir/exec" --host "unix://$dir/s" --pidfile "$dir/pid" \
        --iptables=false --ip6tables=false --bridge=none >"$dir/log" 2>&1 </dev/null &
    for _ in $(seq 300); do
        if answers; then
            echo "unix://$dir/s"
            exit 0
        fi
        kill -0 $! 2>/dev/null || break
        sleep 0.1
    done
    tail -n 20 "$dir/log" >&2
    echo "dockerd did not start; it needs root, cgroups and overlayfs or room for copies (its log is above)." >&2
    exit 1
    ;;
stop)
    if alive; then
        pid=$(cat "$dir/pid")
        kill "$pid"
        for _ in $(seq 300); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
    fi
    if alive; then
        echo "dockerd ($pid) does not stop; see $dir/log" >&2
        exit 1
    fi
    rm -rf "$dir"
    ;;
*)
    echo "usage: engine.sh start|stop DIR" >&2
    exit 2
    ;;
esac
