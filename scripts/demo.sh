#!/usr/bin/env bash
# The main job end to end, as two parties would do it: an owner with a key, a server without one.
#
# OBORO            the command to run
# DATA             a file of transactions (default: 2,000 generated ones over 30 items)
# MIN_SUPPORT      what counts as frequent (default 0.2)
# MAX_LEN          the longest itemsets (default 4)
set -euo pipefail

oboro=${OBORO:?OBORO must name the oboro command; run make demo}
min_support=${MIN_SUPPORT:-0.2}
max_len=${MAX_LEN:-4}
if [[ -n ${DATA:-} && ! -r ${DATA} ]]; then
    echo "error: cannot read DATA=${DATA}; give the path of a FIMI or CSV file" >&2
    exit 1
fi

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

# Shows a command as a user would type it, then runs it.
step() {
    local shown="$*"
    shown=${shown//"$oboro"/oboro}
    printf '\n$ %s\n' "${shown//"$work/"/}"
    "$@"
}

echo "== The server: its own process, its own directory, no key =="
printf '\n$ oboro serve --data store --listen 127.0.0.1:0 &\n'
OBORO_LOG=warn "$oboro" serve --data "$work/store" --listen 127.0.0.1:0 >"$work/serve.out" 2>"$work/serve.err" &
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
export OBORO_SERVER OBORO_KEY=$work/oboro.key

printf '\n== The owner: makes a key, encrypts, uploads ==\n'
data=${DATA:-$work/transactions.dat}
if [[ -z ${DATA:-} ]]; then
    step "$oboro" generate "$data"
fi
step "$oboro" keygen
step "$oboro" encrypt "$data" --max-len "$max_len" --out "$work/demo.oboro"
step "$oboro" upload "$work/demo.oboro"
step "$oboro" datasets

printf '\n== The owner asks, the server counts ciphertext, the owner decrypts supports ==\n'
step "$oboro" mine "$work/demo.oboro" --min-support "$min_support" --max-len "$max_len" \
    --out "$work/itemsets.json" --verify "$data"
step "$oboro" rules "$work/itemsets.json" --metric lift --min 1.2 --top 10

printf '\n== Sizes ==\n'
size() { du -sb "$1" | cut -f1; }
printf '%-28s %12d bytes\n' \
    "transactions" "$(size "$data")" \
    "encrypted, at the owner" "$(size "$work/demo.oboro")" \
    "encrypted, at the server" "$(size "$work/store")"
