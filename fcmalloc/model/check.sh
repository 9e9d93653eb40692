#!/usr/bin/env bash
# Model-checks the channels: channel.pml keeps its properties, and every variant that breaks the
# protocol is refuted. Takes a minute and 1 GiB; ends with 77 where spin is not installed.
set -euo pipefail
model=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/channel.pml
variants=(FLAG_BEFORE_PUSH LOAD_AND_STORE CLEAR_AFTER_TAKE DIE_WITHOUT_FLUSH ABSORB_WITHOUT_CACHE
    KEEP_ABSORBED KEEP_INTERCEPTED TAKE_FIRST_ONLY)

if ! command -v spin >/dev/null; then
    echo "skipped: spin is not installed; the channels were not model-checked (apt-get install spin)"
    exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/fcmalloc-model.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

# search NAME "MODEL OPTIONS" "VERIFIER'S COMPILER OPTIONS" [VERIFIER OPTIONS]: the output of the
# exhaustive search is in the file report.
search() {
    local name=$1 model_options compiler_options
    read -ra model_options <<<"$2"
    read -ra compiler_options <<<"$3"
    shift 3
    spin "${model_options[@]}" -a "$model" >spin.out || {
        cat spin.out
        exit 1
    }
    "${CC:-cc}" -w -O2 -DCOLLAPSE "${compiler_options[@]}" -o verify pan.c
    timeout 600 ./verify -m1000000 "$@" >report 2>&1 || true
    if ! grep -q 'errors: [0-9]' report || grep -q 'max search depth too small' report; then
        echo "$name: the search did not finish:"
        cat report
        exit 1
    fi
}

holds() {
    search "$@"
    if ! grep -q 'errors: 0' report; then
        echo "$1: fails:"
        cat report
        spin -k channel.pml.trail -p "$model" | tail -n 60
        exit 1
    fi
    echo "$1: holds in all $(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' report) states"
}

# The search before came to every line of the model: what it says, it says of all of it.
covered() {
    if ! grep -A1 'unreached in proctype heap' report | grep -q '(0 of'; then
        echo "the search left parts of the model out:"
        cat report
        exit 1
    fi
}

refuted() {
    search "$@"
    if grep -q 'errors: 0' report; then
        echo "$1: not refuted; the properties are too weak to see it"
        exit 1
    fi
    echo "$1: refuted, as it must be: $(sed -n '0,/^pan:1: /s/^pan:1: \(.*\) (at depth.*/\1/p' report)"
}

safety="-DSAFETY -DNOCLAIM"
holds "none lost, none twice, none unseen" "" "$safety"
covered
holds "come home" "-DINTERCEPTIONS=1" "" -a
for variant in "${variants[@]}"; do
    refuted "$variant" "-D$variant" "$safety"
done
