#!/usr/bin/env bash
# Builds the S3 server of the tests, unless it is there, below target/s3, and prints its path.
#
# It is versitygw (Apache-2.0), which keeps objects as files of a directory. Ends with 77 where it cannot be
# had: Go builds it, and fetches what it is made of the first time.
set -euo pipefail

VERSION=v1.8.0
directory=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/target/s3/$VERSION

skip() {
    echo "skipped: $1; nothing ran against an S3 server" >&2
    exit 77
}

mkdir -p "$directory"
server=$directory/versitygw
if [[ ! -x $server ]]; then
    go=$(command -v go || command -v /usr/local/go/bin/go) ||
        skip "Go is not installed (apt-get install --no-install-recommends golang-go)"
    GOBIN=$directory "$go" install "github.com/versity/versitygw/cmd/versitygw@$VERSION" >"$directory.log" 2>&1 ||
        skip "versitygw $VERSION cannot be built (see $directory.log)"
fi
echo "$server"
