# What demonstrations have in common, to be sourced: a directory that goes away at the end, a server, and
# commands shown as a user would type them. `oboro` names the command.
# shellcheck shell=bash

work=$(mktemp -d "${TMPDIR:-/tmp}/oboro-demo.XXXXXX")
server=
finish() {
    if [[ -n $server ]]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap finish EXIT

# Shows a command, then runs it.
step() {
    local shown="$*"
    shown=${shown//"$oboro"/oboro}
    printf '\n$ %s\n' "${shown//"$work/"/}"
    "$@"
}

# serve DIRECTORY [OPTION...]: starts a server whose data are in a directory of the work, and waits until it
# listens; OBORO_SERVER then tells the commands that follow.
serve() {
    local directory=$1
    shift
    printf '\n$ oboro serve --data %s &\n' "$directory --listen 127.0.0.1:0${*:+ $*}"
    OBORO_LOG=warn "$oboro" serve --data "$work/$directory" --listen 127.0.0.1:0 "$@" \
        >"$work/serve.out" 2>"$work/serve.err" &
    server=$!
    until grep -q '^listening on ' "$work/serve.out"; do
        if ! kill -0 "$server" 2>/dev/null; then
            cat "$work/serve.err" >&2
            exit 1
        fi
        sleep 0.05
    done
    cat "$work/serve.out"
    OBORO_SERVER=$(sed 's/^listening on //' "$work/serve.out")
    export OBORO_SERVER
}
