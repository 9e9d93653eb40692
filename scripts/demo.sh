#!/usr/bin/env bash
# The main job end to end, as two parties would do it: an owner with a key, a server without one. Itemsets are
# found in both ways, and whatever the server sends is verified: what it counts on ciphertext, pairs by sums and of
# generated data triples and quadruples by moments; and itemsets of any length in sealed cells.
#
# OBORO            the command to run
# DATA             a file of transactions for both ways (default: for sums, 1,943,424 generated ones over 18 items,
#                  which take half a minute and 520 MB; for cells, 2,000 over 30)
# MIN_SUPPORT      what counts as frequent (default 0.2; of generated ones also 0.02, and 0.01 for all pairs)
# MAX_LEN          the longest itemsets by cells (default 4; of generated ones any); by sums there are pairs
set -euo pipefail

oboro=${OBORO:?OBORO must name the oboro command; run make demo}
min_support=${MIN_SUPPORT:-0.2}
if [[ -n ${DATA:-} && ! -r ${DATA} ]]; then
    echo "error: cannot read DATA=${DATA}; give the path of a FIMI or CSV file" >&2
    exit 1
fi

# shellcheck source=scripts/demo-stage.sh
source "$(dirname "${BASH_SOURCE[0]}")/demo-stage.sh"

heading() { printf '\n== %s ==\n' "$*"; }
size() { du -sb "$1" | cut -f1; }
sizes() { printf '%-28s %12d bytes\n' "$@"; }

heading "The server: its own process, its own directory, no key"
serve store
export OBORO_KEY=$work/oboro.key

heading "The owner: makes a key, encrypts, uploads"
data=${DATA:-$work/transactions.dat}
max_len=${MAX_LEN:-4}
counted_len=2
if [[ -z ${DATA:-} ]]; then
    step "$oboro" generate "$data"
    max_len=${MAX_LEN:-30}
    counted_len=4
fi
step "$oboro" keygen
step "$oboro" encrypt "$data" --max-len "$counted_len" --out "$work/demo.oboro"
step "$oboro" upload "$work/demo.oboro"
step "$oboro" datasets

heading "First way: the server counts on ciphertext, and what it computes is verified: pairs of large data"
pairs=$work/demo.oboro
counted=$data
pair_support=$min_support
if [[ -z ${DATA:-} ]]; then
    pairs=$work/pairs.oboro
    counted=$work/pairs.dat
    pair_support=${MIN_SUPPORT:-0.01}
    step "$oboro" generate "$counted" --transactions 1943424 --items 18 --transaction-length 6
    step "$oboro" encrypt "$counted" --max-len 2 --out "$pairs"
    step "$oboro" upload "$pairs"
fi
step "$oboro" mine "$pairs" --min-support "$pair_support" --max-len 2 --answers moments --verify "$counted"

if [[ -z ${DATA:-} ]]; then
    heading "The same for the papers' 2,000 transactions over 30 items, as far as lengths go: triples and quadruples"
    step "$oboro" mine "$work/demo.oboro" --min-support "$min_support" --max-len "$counted_len" --answers moments \
        --verify "$data"
fi

heading "Second way, for itemsets of any length: sealed cells are fetched, verified and counted in at the owner"
cells() {
    step "$oboro" mine "$work/demo.oboro" --max-len "$max_len" --answers cells --verify "$data" "$@"
}
cells --min-support "$min_support" --out "$work/itemsets.json"
step "$oboro" rules "$work/itemsets.json" --metric lift --min 1.2 --top 10
if [[ -z ${DATA:-}${MIN_SUPPORT:-} ]]; then
    heading "The same, deeper: only columns that are not here yet are fetched"
    cells --min-support 0.02
fi

heading "Sizes"
sizes "transactions" "$(size "$data")" "encrypted, at the owner" "$(size "$work/demo.oboro")"
if [[ -z ${DATA:-} ]]; then
    sizes "transactions, pairs" "$(size "$counted")" "encrypted, at the owner" "$(size "$pairs")"
fi
sizes "encrypted, at the server" "$(size "$work/store")"
