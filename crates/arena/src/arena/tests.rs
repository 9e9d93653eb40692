//! Tests of the placement, contents and residency of blocks.

use super::*;
use std::collections::HashSet;

const MIB: usize = 1 << 20;
/// Words of a block of 1 MiB.
const MIB_WORDS: usize = MIB / 4;

fn threads(count: usize) -> NonZero<usize> {
    NonZero::new(count).unwrap()
}

fn small(bytes: usize) -> Arena {
    let backing = Backing {
        pages: Pages::Small,
        ..Backing::default()
    };
    Arena::reserve(bytes, backing).unwrap()
}

#[test]
fn blocks_begin_on_the_lines_of_their_positions() {
    let arena = Arena::reserve(64 * ArenaBlock::footprint(1000), Backing::default()).unwrap();
    let blocks: Vec<ArenaBlock> = (0..64).map(|p| arena.block(1000, p).unwrap()).collect();
    let lines: HashSet<usize> = blocks.iter().map(|p| p.as_ptr().addr() % 4096).collect();
    assert_eq!(lines.len(), 64);
    assert!(lines.iter().all(|line| line % 64 == 0));
}

#[test]
fn blocks_made_in_order_begin_in_different_sets_of_the_second_level_cache() {
    const SETS: usize = 1024;
    let arena = Arena::reserve(SETS * ArenaBlock::footprint(2048), Backing::default()).unwrap();
    let blocks: Vec<ArenaBlock> = (0..SETS).map(|p| arena.block(2048, p).unwrap()).collect();
    let sets: HashSet<usize> = blocks
        .iter()
        .map(|p| p.as_ptr().addr() / 64 % SETS)
        .collect();
    assert_eq!(sets.len(), SETS);
    // A few of them are spread, too: no two of sixteen within two pages of a cache way of 64 KiB.
    let mut pages: Vec<usize> = blocks[..16]
        .iter()
        .map(|p| p.as_ptr().addr() / 4096 % 16)
        .collect();
    pages.sort_unstable();
    pages.dedup();
    assert!(pages.len() >= 8, "{pages:?}");
}

#[test]
fn two_words_are_one_integer() {
    let arena = Arena::reserve(ArenaBlock::footprint(5), Backing::default()).unwrap();
    let mut block = arena.block(5, 1).unwrap();
    block.integers_mut().copy_from_slice(&[1 << 40, u64::MAX]);
    assert_eq!(block.integers(), [1 << 40, u64::MAX]);
    let ends: u64 = block.iter().map(|&word| u64::from(word)).sum();
    assert_eq!(ends, (1 << 8) + 2 * u64::from(u32::MAX));
    assert_eq!(block[4], 0);
}

#[test]
fn a_dropped_block_makes_room_for_the_next_which_holds_zeros() {
    let arena = Arena::reserve(ArenaBlock::footprint(5000), Backing::default()).unwrap();
    let mut first = arena.block(5000, 3).unwrap();
    assert!(first.iter().all(|&word| word == 0));
    first.fill(u32::MAX);
    let place = first.as_ptr();
    drop(first);
    let again = arena.block(5000, 3).unwrap();
    assert_eq!(again.as_ptr(), place);
    assert!(again.iter().all(|&word| word == 0));
}

#[test]
fn a_gap_goes_to_the_block_that_fits_it() {
    let arena = Arena::reserve(8 * MIB, Backing::default()).unwrap();
    let [large, _between, exact, _after] =
        [9000, 100, 3000, 100].map(|len| arena.block(len, 0).unwrap());
    let (large_place, exact_place) = (large.as_ptr(), exact.as_ptr());
    drop((large, exact));
    assert_eq!(arena.block(3000, 0).unwrap().as_ptr(), exact_place);
    assert_eq!(arena.block(9000, 0).unwrap().as_ptr(), large_place);
}

#[test]
fn an_unplaced_block_takes_what_it_holds() {
    let arena = small(1 << 16);
    let blocks: Vec<ArenaBlock> = std::iter::from_fn(|| arena.unplaced_block(1000).ok()).collect();
    assert!(arena.block(16, 0).is_err());
    let taken = blocks.iter().map(|block| block.as_ptr().addr() % LINE);
    assert_eq!(Vec::from_iter(taken), vec![0; arena.reserved() / 4032]);
}

#[test]
fn a_full_arena_says_so_and_is_whole_again_once_its_blocks_are_dropped() {
    let arena = Arena::reserve(4 * ArenaBlock::footprint(4096), Backing::default()).unwrap();
    let blocks: Vec<ArenaBlock> = (0..4).map(|p| arena.block(4096, p).unwrap()).collect();
    let error = arena.block(4096, 4).unwrap_err().to_string();
    assert!(
        error.contains("20416 bytes in one piece") && error.contains("Drop blocks"),
        "{error}"
    );
    let mut blocks = blocks.into_iter();
    drop((blocks.next_back(), blocks.next(), blocks.next()));
    drop(blocks);
    let words = arena.reserved() / 4 - 64 * 16;
    assert_eq!(arena.block(words, 0).unwrap().len(), words);
    assert!(matches!(
        arena.block(usize::MAX, 0),
        Err(ArenaError::Full { .. })
    ));
}

#[test]
fn what_no_block_uses_is_not_memory() {
    let arena = Arena::reserve(1 << 34, Backing::default()).unwrap();
    assert_eq!(arena.resident().unwrap(), 0);
    let mut block = arena.block(MIB_WORDS, 0).unwrap();
    block.fill(1);
    let resident = arena.resident().unwrap();
    // A block may lie across two huge pages.
    assert!((MIB..=4 * MIB).contains(&resident), "{resident}");
    let opened = arena.opened();
    assert!(opened.contains(&block.as_ptr().cast()));
    assert!(opened.end.addr() - opened.start.addr() <= 4 * MIB);
}

#[test]
fn the_last_page_ends_with_the_arena() {
    let arena = Arena::reserve(MIB, Backing::default()).unwrap();
    arena.grow(MIB, threads(1)).unwrap();
    assert_eq!((arena.reserved(), arena.resident().unwrap()), (MIB, MIB));
}

#[test]
fn a_grown_arena_is_in_memory_before_blocks_use_it() {
    let arena = small(64 * MIB);
    drop(arena.block(100, 0).unwrap());
    arena.block(100, 0).unwrap().fill(1);
    let bytes = 6 * ArenaBlock::footprint(MIB_WORDS);
    arena.grow(bytes, threads(3)).unwrap();
    let before = arena.resident().unwrap();
    assert!((bytes..bytes + 2 * MIB).contains(&before), "{before}");
    let blocks: Vec<ArenaBlock> = (0..6)
        .map(|p| {
            let mut block = arena.block(MIB_WORDS, p).unwrap();
            assert!(block.iter().all(|&word| word == 0));
            block.fill(1);
            block
        })
        .collect();
    assert_eq!(blocks.len(), 6);
    assert_eq!(arena.resident().unwrap(), before);
    arena.grow(0, threads(2)).unwrap();
    assert!(matches!(
        arena.grow(64 * MIB, threads(2)),
        Err(ArenaError::Full { .. })
    ));
}

/// Kibibytes on huge pages, according to the kernel, of the mappings that intersect the arena.
fn huge_kib(arena: &Arena) -> usize {
    let opened = arena.opened();
    let opened = opened.start.addr()..opened.end.addr();
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut inside, mut kib) = (false, 0);
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (name, value) = (words.next().unwrap(), words.next());
        match name {
            "AnonHugePages:" | "Private_Hugetlb:" if inside => {
                kib += value.unwrap().parse::<usize>().unwrap();
            }
            _ => {
                if let Some((start, end)) = name.split_once('-') {
                    let [start, end] = [start, end].map(|hex| usize::from_str_radix(hex, 16));
                    inside = start.is_ok_and(|start| start < opened.end)
                        && end.is_ok_and(|end| opened.start < end);
                }
            }
        }
    }
    kib
}

#[test]
fn huge_pages_are_used_where_the_kernel_gives_them() {
    let arena = Arena::reserve(32 * MIB, Backing::default()).unwrap();
    arena.grow(16 * MIB, threads(2)).unwrap();
    if arena.pages() == Pages::Transparent {
        assert!(huge_kib(&arena) > 0, "no huge page among 16 MiB");
    }
    let arena = small(32 * MIB);
    arena.grow(16 * MIB, threads(2)).unwrap();
    assert_eq!(arena.pages(), Pages::Small);
}

#[test]
fn explicit_pages_are_used_or_replaced() {
    let backing = Backing {
        pages: Pages::Explicit,
        ..Backing::default()
    };
    let arena = Arena::reserve(3 * MIB, backing.clone()).unwrap();
    let block = arena.block(MIB_WORDS, 0).unwrap();
    assert!(block.iter().all(|&word| word == 0));
    if arena.pages() == Pages::Explicit {
        assert_eq!(arena.reserved(), 4 * MIB);
        assert_eq!(huge_kib(&arena), 2 * 1024);
    } else {
        assert_eq!(arena.reserved(), 3 * MIB);
    }
    // No machine has sixteen tebibytes of them.
    let arena = Arena::reserve(1 << 44, backing).unwrap();
    assert_ne!(arena.pages(), Pages::Explicit);
}

/// Nodes of this machine; none if its kernel does not distinguish nodes.
fn nodes() -> Vec<u32> {
    let path = |node: &u32| format!("/sys/devices/system/node/node{node}");
    let exists = |node: &u32| std::fs::exists(path(node)).unwrap();
    (0..64).filter(exists).collect()
}

#[test]
fn memory_lies_on_the_node_that_was_asked_for() {
    for node in nodes() {
        for policy in [MemoryPolicy::Bind(node), MemoryPolicy::Prefer(node)] {
            let backing = Backing {
                policy: policy.clone(),
                ..Backing::default()
            };
            let arena = Arena::reserve(16 * MIB, backing).unwrap();
            arena.grow(4 * MIB, threads(2)).unwrap();
            for _ in 0..2 {
                let blocks = [0, 1, 2].map(|position| {
                    let mut block = arena.block(MIB_WORDS, position).unwrap();
                    block.fill(1);
                    block
                });
                let resident = arena.resident().unwrap();
                assert!(resident >= 4 * MIB, "{resident}");
                assert_eq!(
                    arena.resident_by_node().unwrap(),
                    [(node, resident)].into(),
                    "{policy:?}"
                );
                drop(blocks);
            }
        }
    }
}

#[test]
fn interleaved_memory_lies_on_all_nodes_alike() {
    let nodes = nodes();
    if nodes.is_empty() {
        return;
    }
    let backing = Backing {
        pages: Pages::Small,
        policy: MemoryPolicy::Interleave(nodes.clone()),
    };
    let arena = Arena::reserve(16 * MIB, backing).unwrap();
    arena.grow(16 * MIB, threads(2)).unwrap();
    let resident = arena.resident_by_node().unwrap();
    assert!(resident.keys().eq(&nodes), "{resident:?}");
    let share = 16 * MIB / nodes.len();
    for (node, bytes) in resident {
        assert!(bytes.abs_diff(share) <= share / 100, "{bytes} on {node}");
    }
}

#[test]
fn nodes_that_are_not_there_are_named() {
    let place = |policy| {
        let backing = Backing {
            policy,
            ..Backing::default()
        };
        Arena::reserve(MIB, backing).unwrap_err().to_string()
    };
    for node in [1023, 1024, u32::MAX] {
        let error = place(MemoryPolicy::Bind(node));
        assert!(error.contains(&format!("NUMA node {node}:")), "{error}");
    }
    let error = place(MemoryPolicy::Interleave(vec![1022, 1023]));
    assert!(error.contains("NUMA node 1022 or 1023:"), "{error}");
}

#[test]
fn address_space_that_is_not_there_is_refused() {
    for bytes in [1 << 60, usize::MAX] {
        let error = Arena::reserve(bytes, Backing::default()).unwrap_err();
        assert!(error.to_string().contains("refused to reserve"), "{error}");
    }
}

#[test]
fn address_space_goes_with_the_last_block() {
    // More in all than the address space of a process.
    for _ in 0..1 << 9 {
        let arena = Arena::reserve(1 << 40, Backing::default()).unwrap();
        let block = arena.block(16, 5).unwrap();
        drop(arena);
        assert_eq!(*block, [0; 16]);
    }
}

#[test]
fn blocks_of_many_threads_are_their_own() {
    let arena = Arena::reserve(16 * MIB, Backing::default()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let arena = &arena;
            scope.spawn(move || {
                let mut kept: Vec<ArenaBlock> = Vec::new();
                for round in 0..400 {
                    let len = 50 + (round * 7919 + thread as usize * 104_729) % 9000;
                    let mut block = arena.block(len, round).unwrap();
                    assert!(block.iter().all(|&word| word == 0));
                    block.fill(thread + 1);
                    kept.push(block);
                    if kept.len() == 20 {
                        let old = kept.swap_remove(round % 20);
                        assert!(old.iter().all(|&word| word == thread + 1));
                    }
                }
            });
        }
    });
}
