#!/usr/bin/env bash
# Builds the `oboro` of the last release that docs/compatibility.md names, from its commit, and prints the path;
# nothing if it names none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

release='^\| [0-9.]+ \| [0-9-]+ \| .([0-9a-f]{40}). \|$'
commit=
while read -r line; do
    [[ $line =~ $release ]] && commit=${BASH_REMATCH[1]}
done <docs/compatibility.md
if [[ -z $commit ]]; then
    echo 'skipped: docs/compatibility.md names no release yet' >&2
    exit 0
fi
tree=$PWD/target/previous/$commit
oboro=$tree/target/debug/oboro
if [[ ! -x $oboro ]]; then
    rm -rf "$tree"
    mkdir -p "$tree"
    git archive "$commit" | tar -x -C "$tree"
    (cd "$tree" && CARGO_TARGET_DIR=$tree/target cargo build --locked -p oboro --bin oboro >&2)
fi
echo "$oboro"
