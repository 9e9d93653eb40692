#!/usr/bin/env bash
# Installs fcmalloc into a folder of its own and builds and runs a program with it, once by way of
# CMake for each library and once by way of pkg-config where that is there.
#
# check.sh BUILD-FOLDER
set -euo pipefail

build=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

cmake --install "$build" --prefix "$stage/usr" >"$stage/log"
cmake -S "$here" -B "$stage/consumer" -DCMAKE_PREFIX_PATH="$stage/usr" >>"$stage/log"
cmake --build "$stage/consumer" >>"$stage/log" || { cat "$stage/log"; exit 1; }
for kind in fcmalloc static prefixed secure; do
    "$stage/consumer/with-$kind"
done

if ! command -v pkg-config >/dev/null; then
    echo "pkg-config is not installed: fcmalloc.pc is not checked"
    exit 0
fi
PKG_CONFIG_PATH=$(dirname "$(find "$stage/usr" -name fcmalloc.pc)")
export PKG_CONFIG_PATH
read -ra flags < <(pkg-config --cflags --libs fcmalloc)
cc "$here/consumer.c" "${flags[@]}" -o "$stage/with-pkg-config"
LD_LIBRARY_PATH=$(pkg-config --variable=libdir fcmalloc) "$stage/with-pkg-config"
