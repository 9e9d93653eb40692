#!/usr/bin/env bash
# Installs the command and the Python package as README.md says, into a folder of their own that goes away at
# the end, and runs the commands of "First result" and the lines of "In Python" there.
#
# PYTHON  the Python that gets the package (default python3)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD

work=$(mktemp -d "${TMPDIR:-/tmp}/oboro-package.XXXXXX")
trap 'rm -rf "$work"' EXIT

"${PYTHON:-python3}" -m venv "$work/python"
export CARGO_INSTALL_ROOT=$work/cargo
export PATH=$work/cargo/bin:$work/python/bin:$PATH
set -x
eval "$(grep '^cargo install ' README.md)"
eval "$(grep '^pip install ' README.md)"
cd "$work"
"$root/scripts/first-result.sh" command
"$root/scripts/first-result.sh" python
