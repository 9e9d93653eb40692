#!/usr/bin/env bash
# Runs the commands of README.md, "First result, by hand", with the `oboro` in PATH: `scripts/first-result.sh command`; or
# the lines of "In Python" with the `python` in PATH: `scripts/first-result.sh python`. Works in the current folder.
set -euo pipefail
readme=${BASH_SOURCE[0]%/*}/../README.md
server=
trap '[[ -z $server ]] || kill "$server"' EXIT

# block HEADING LANGUAGE: the first such block below a heading of README.md.
block() {
    local line below=
    while IFS= read -r line; do
        case $line in
            "## $1") below=heading ;;
            "\`\`\`$2") [[ $below != heading ]] || below=fence ;;
            '```') [[ $below != fence ]] || return 0 ;;
            *) [[ $below != fence ]] || printf '%s\n' "$line" ;;
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

for ((i = 0; i < 1000; i++)); do
    ((i % 3)) && echo bread,butter || echo jam,milk,tea
done >baskets.csv
case ${1:-} in
    command)
        commands=$(block "First result, by hand" sh)
        said=
        while IFS= read -r line; do
            [[ $line != 'cargo install '* ]] || continue
            line=${line%%#*}
            [[ $line != 'oboro serve '*'&'* ]] || line="$line listening"
            echo "+ $line" >&2
            eval "$line" >said
            said+=$(<said)
        done <<<"$commands"
        [[ $said == *bread* ]]
        ;;
    python) python -c "$(block "In Python" python)"$'\nassert len(rules) > 0, itemsets' ;;
    *)
        echo "error: scripts/first-result.sh runs what README.md says for: command, python" >&2
        exit 2
        ;;
esac
