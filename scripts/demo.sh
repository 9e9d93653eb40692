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

# shellcheck source=scripts/demo-stage.sh
source "$(dirname "${BASH_SOURCE[0]}")/demo-stage.sh"

echo "== The server: its own process, its own directory, no key =="
serve store
export OBORO_KEY=$work/oboro.key

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
