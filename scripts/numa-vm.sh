#!/usr/bin/env bash
# Runs a command on a machine of four NUMA nodes, of one core and 512 MiB each, under scripts/vm.sh, whose options
# and exit statuses it has. It shows where memory lies, not how fast it is.
#
#     scripts/numa-vm.sh [--file FILE]... [--disk SIZE]... COMMAND [ARGUMENT]...
#     scripts/numa-vm.sh --probe    only finds out whether it can be had
#
# As the runner of cargo it takes the tests of a crate there:
#     CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=$PWD/scripts/numa-vm.sh cargo test -p oboro-arena --lib
exec "$(dirname "${BASH_SOURCE[0]}")/vm.sh" --nodes 4 "$@"
