#!/usr/bin/env bash
# Runs README's two commands in a clone of the present commit, as a new user would: with an empty home directory, so
# without packages of Cargo and pip that earlier builds fetched. Rust's toolchain is the one that is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d "${TMPDIR:-/tmp}/oboro-fresh.XXXXXX")
trap 'rm -rf "$work"' EXIT
export RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
# Variables by which a caller's make, Cargo or pip would show through.
unset DATA MIN_SUPPORT MAX_LEN VCF PYTEST MAKEFLAGS MAKEOVERRIDES MFLAGS CARGO_HOME CARGO_TARGET_DIR BUILD_PROFILE PIP_CACHE_DIR XDG_CACHE_HOME XDG_CONFIG_HOME

git clone --quiet --no-local . "$work/oboro"
mkdir "$work/home"
export HOME=$work/home
cd "$work/oboro"
commands=$(sed -n '/^## Where to go next/,/^## /s/^\(make [a-z]*\)  *#.*/\1/p' README.md)
[[ $(wc -l <<<"$commands") == 2 ]] || { echo 'error: README.md has no two commands under "Where to go next"' >&2; exit 1; }
while read -r command; do
    echo "==> $command"
    $command </dev/null
done <<<"$commands"
