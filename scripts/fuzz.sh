#!/usr/bin/env bash
# Gives the decoders bytes that libFuzzer makes from fuzz/corpus: `fuzz.sh [TARGET...]`, by default
# all, each for FUZZ_SECONDS. What it finds out about the code stays in fuzz/target/corpus for the
# next run; bytes that break a promise are kept in fuzz/artifacts, and the message says how to run
# them again. CARGO_FUZZ is the program cargo-fuzz.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

: "${CARGO_FUZZ:?is the path of cargo-fuzz; run make fuzz}"
: "${FUZZ_SECONDS:=5}"
# No sanitizer: those need a nightly compiler, and the code in Rust that they would watch is safe.
build=(--dev --sanitizer none)
# A decoder that allocates what its input claims fails on this much address space.
address_space_kib=$((2 << 20))

# Without this, cargo-fuzz would change a stale fuzz/Cargo.lock.
cargo fetch --quiet --locked --manifest-path fuzz/Cargo.toml || {
    echo "error: fuzz/Cargo.lock does not fit the crates; run: cargo update --workspace --manifest-path fuzz/Cargo.toml" >&2
    exit 1
}
"$CARGO_FUZZ" fuzz build "${build[@]}"

if [ $# -eq 0 ]; then
    mapfile -t targets < <("$CARGO_FUZZ" fuzz list)
    set -- "${targets[@]}"
fi
ulimit -v "$address_space_kib"
for target in "$@"; do
    echo "==> $target: $FUZZ_SECONDS s"
    found=fuzz/target/corpus/$target
    mkdir -p "$found"
    log=fuzz/target/$target.log
    "$CARGO_FUZZ" fuzz run "${build[@]}" "$target" "$found" "fuzz/corpus/$target" -- \
        -max_total_time="$FUZZ_SECONDS" -timeout=10 -rss_limit_mb=1024 -max_len=65536 \
        >"$log" 2>&1 || {
        tail -n 60 "$log" >&2
        exit 1
    }
    grep '^Done' "$log" || tail -n 1 "$log"
done
