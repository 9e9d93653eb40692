#!/usr/bin/env bash
# Installs the command and the Python package as README.md says, into a folder of their own that goes away at
# the end, and runs the commands of "First result, by hand" and the lines of "In Python" there.
#
# PYTHON  the Python that gets the package (default python3)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d "${TMPDIR:-/tmp}/oboro-package.XXXXXX")
server=
finish() {
    [[ -z $server ]] || kill "$server"
    rm -rf "$work"
}
trap finish EXIT

# block HEADING LANGUAGE: the first such block below a heading of README.md.
block() {
    awk -v heading="## $1" -v fence="\`\`\`$2" '
        inside && $0 == "```" { exit }
        inside { print }
        $0 == heading { below = 1 }
        below && $0 == fence { inside = 1 }' README.md
}

# Returns once the server of README.md listens.
listening() {
    server=$!
    until (: <>/dev/tcp/127.0.0.1/7171) 2>"$work/refused"; do
        kill -0 "$server"
        sleep 0.05
    done
}

"${PYTHON:-python3}" -m venv "$work/python"
export CARGO_INSTALL_ROOT=$work/cargo
export PATH=$work/cargo/bin:$work/python/bin:$PATH
commands=$(block "First result, by hand" sh)
lines=$(block "In Python" python)
set -x
eval "$(grep '^cargo install ' <<<"$commands")"
eval "$(block "In Python" sh | grep '^pip install ')"
cd "$work"
awk 'BEGIN { for (i = 0; i < 1000; i++) print i % 3 ? "bread,butter" : "jam,milk,tea" }' >baskets.csv
eval "$(sed -e '/^cargo install /d' -e 's/^\(oboro serve .*\) &.*/\1 \& listening/' <<<"$commands")" >said
grep -q bread said
python - <<<"$lines"$'\nassert len(rules) > 0, itemsets'
