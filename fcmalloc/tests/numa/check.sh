#!/bin/sh
# Runs the tests of placement on a machine of four nodes: all of them with fcmalloc, and those of
# memory used again with the C library's malloc too, which has to fail there.
# Usage: check.sh PLACEMENT LIBRARY
set -eu
placement=$1
library=$2
huge_pages=/sys/kernel/mm/transparent_hugepage/enabled

fcmalloc() {
    env LD_PRELOAD="$library" FC_TEST_ALLOCATOR=libfcmalloc "$@"
}

# holds NAME COMMAND...: the command succeeds.
holds() {
    name=$1
    shift
    "$@" || {
        echo "$name: fails"
        exit 1
    }
    echo "$name: holds"
}

# refuted NAME COMMAND...: the command fails, which shows that the test can.
refuted() {
    name=$1
    shift
    if why=$("$@" 2>&1); then
        echo "$name: holds, so that the test shows nothing"
        exit 1
    fi
    echo "$name: refuted, as it must be: ${why#*not so: }"
}

# numactl_asks OPTION NODES: NODES is a number whose bits are the nodes.
numactl_asks() {
    NODES_ASKED=$2 fcmalloc numactl "$1" "$placement" blocks_lie_where_numactl_asks
}

touched_ahead="memory_touched_ahead_of_use_lies_where_it_is_used
    memory_touched_ahead_is_left_to_threads_by_a_main_thread_that_moved
    memory_touched_ahead_is_left_to_threads_by_a_main_thread_that_moved_with_large_blocks"

for size in always never; do
    echo "$size" >$huge_pages
    echo "Transparent huge pages: $size"
    fcmalloc "$placement"
    for reserve in 256M main=4M,core=64M; do
        holds "memory touched ahead by FCMALLOC_RESERVE=$reserve" \
            fcmalloc FCMALLOC_RESERVE=$reserve "$placement" \
            memory_touched_ahead_of_use_lies_where_it_is_used
    done
    for recorded in fresh_blocks_lie_on_the_node_of_their_thread \
        threads_begin_after_the_main_thread_moved; do
        fcmalloc FCMALLOC_RECORD=/tmp/plan "$placement" $recorded
        for test in $touched_ahead; do
            holds "FCMALLOC_PLAN of $recorded, $test" \
                fcmalloc FCMALLOC_PLAN=/tmp/plan "$placement" "$test"
        done
    done
    holds "memory of another node when no other is left" \
        fcmalloc FCMALLOC_LIMIT=64M "$placement" \
        memory_of_another_node_is_exchanged_when_no_other_is_left
    holds "numactl --membind=1" numactl_asks --membind=1 0x2
    holds "numactl --preferred=3" numactl_asks --preferred=3 0x8
    holds "numactl --localalloc" numactl_asks --localalloc 0
done
for test in $touched_ahead; do
    refuted "no FCMALLOC_PLAN, $test" fcmalloc "$placement" "$test"
done
# Huge pages are interleaved as such, and these blocks lie on few of them.
holds "numactl --interleave=all" numactl_asks --interleave=all 0xf
holds "numactl --interleave=1,2" numactl_asks --interleave=1,2 0x6
holds "interleaving by libnuma" fcmalloc "$placement" \
    blocks_used_again_are_interleaved_as_libnuma_asks

for test in blocks_used_again_lie_on_the_node_that_the_thread_moved_to \
    blocks_freed_on_another_node_are_not_used_again_there \
    what_ended_threads_leave_is_used_again_on_their_nodes \
    blocks_used_again_lie_where_libnuma_asks \
    threads_of_different_policies_do_not_get_each_others_memory \
    of_several_nodes_bound_to_the_nearest_is_used; do
    refuted "the C library, $test" "$placement" "$test"
done
NODES_ASKED=0 refuted "the C library, numactl --localalloc" \
    numactl --localalloc "$placement" blocks_lie_where_numactl_asks
