#!/usr/bin/env bash
# Runs the commands of README.md, "First result", with the `oboro` in PATH: `scripts/first-result.sh command`; or the
# lines of "In Python" with the `python` in PATH: `scripts/first-result.sh python`. Works in the current folder.
set -euo pipefail
readme=${BASH_SOURCE[0]%/*}/../README.md
server=
trap '[[ -z $server ]] || kill "$server"' EXIT

# blocks HEADING LANGUAGE: such blocks below a heading of README.md, up to the next heading.
blocks() {
    local line below='' inside=''
    while IFS= read -r line; do
        case $line in
            "## $1") below=yes ;;
            '## '*) below= ;;
            "\`\`\`$2") inside=$below ;;
            '```') inside= ;;
            *) [[ -z $inside ]] || printf '%s\n' "$line" ;;
        esac
    done <"$readme"
}

# Returns once the server of README.md listens.
listening() {
    server=$!
    until (: <>/dev/tcp/127.0.0.1/7171) 2>/dev/null; do
        kill -0 "$server"
        sleep 0.05
    done
}

commands=$(blocks "First result" sh)
case ${1:-} in
    command)
        set -x
        eval "$(sed '/^oboro serve .*&$/s/$/ listening/' <<<"$commands")" >said
        { set +x; } 2>/dev/null
        [[ $(<said) == *'{kidney disease} => {diabetes'* ]]
        ;;
    python)
        eval "$(sed '/>stays.csv$/q' <<<"$commands")"
        python -c "$(blocks "In Python" python)"$'\nassert len(rules) > 0, itemsets'
        ;;
    *)
        echo "error: scripts/first-result.sh runs what README.md says for: command, python" >&2
        exit 2
        ;;
esac
