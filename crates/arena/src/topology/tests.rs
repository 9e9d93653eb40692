//! Tests with machines as trees of files, and with this one.

use super::*;
use std::fs;
use tempfile::TempDir;

/// Copy of `/sys`.
struct Sys(TempDir);

impl Sys {
    /// Makes a tree with processors `cpus`, all online, each a core.
    fn with_cpus(cpus: &str) -> Self {
        let sys = Self(tempfile::tempdir().unwrap());
        sys.write("cpu/online", cpus);
        sys
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join("devices/system").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn node(&self, number: u32, cpus: &str, mib: u64, distances: &str) {
        let folder = format!("node/node{number}");
        let kib = mib << 10;
        self.write(&format!("{folder}/cpulist"), cpus);
        self.write(&format!("{folder}/distance"), distances);
        self.write(
            &format!("{folder}/meminfo"),
            &format!("Node {number} MemTotal:  {kib} kB\nNode {number} MemFree:  1 kB"),
        );
    }

    fn siblings(&self, file: &str, cores: &[&str]) {
        for core in cores {
            for cpu in crate::list::parse(core).unwrap() {
                self.write(&format!("cpu/cpu{cpu}/topology/{file}"), core);
            }
        }
    }

    fn read(&self, allowed: &Allowed) -> Result<Topology, TopologyError> {
        Topology::read(self.0.path(), allowed)
    }
}

/// Makes two processors per node, two pairs of neighbours.
fn four_nodes() -> Sys {
    let sys = Sys::with_cpus("0-7");
    sys.node(0, "0-1", 512, "10 16 22 22");
    sys.node(1, "2-3", 512, "16 10 22 22");
    sys.node(2, "4-5", 512, "22 22 10 16");
    sys.node(3, "6-7", 512, "22 22 16 10");
    sys
}

fn all() -> Allowed {
    Allowed::cpus(0..64)
}

/// Number of each node, and the processors of its cores.
fn layout(topology: &Topology) -> Vec<(u32, Vec<Vec<u32>>)> {
    let cores = |node: &Node| node.cores.iter().map(|core| core.cpus.clone()).collect();
    let nodes = topology.nodes.iter();
    nodes.map(|node| (node.number, cores(node))).collect()
}

fn assignments(topology: &Topology, threads: usize) -> Vec<(usize, Vec<u32>)> {
    let workers = topology.workers(NonZero::new(threads).unwrap());
    workers.into_iter().map(|s| (s.node, s.cpus)).collect()
}

#[test]
fn one_node_has_all_cores() {
    let sys = Sys::with_cpus("0-1");
    sys.node(0, "0-1", 24_000, "10");
    let topology = sys.read(&all()).unwrap();
    assert_eq!(layout(&topology), [(0, vec![vec![0], vec![1]])]);
    assert_eq!(topology.nodes()[0].memory_bytes, 24_000 << 20);
    assert_eq!(*topology.distances(), Distances::one_node());
    assert_eq!(
        assignments(&topology, 3),
        [(0, vec![0]), (0, vec![1]), (0, vec![0])]
    );
}

#[test]
fn threads_are_dealt_over_four_nodes_and_then_their_cores() {
    let topology = four_nodes().read(&all()).unwrap();
    assert_eq!(topology.nodes().len(), 4);
    assert_eq!(topology.distances().nearest_first(2), [2, 3, 0, 1]);
    let cpus: Vec<_> = assignments(&topology, 10).into_iter().collect();
    let expected = [0, 2, 4, 6, 1, 3, 5, 7, 0, 2].map(|cpu| (cpu as usize / 2, vec![cpu]));
    assert_eq!(cpus, expected);
}

#[test]
fn an_assignment_may_have_its_whole_node_which_keeps_nothing_where_there_is_one() {
    let on_nodes = |topology: &Topology| -> Vec<(usize, Vec<u32>)> {
        let assignments = topology.workers(NonZero::new(2).unwrap()).into_iter();
        let whole = assignments.map(|assignment| topology.whole_node(assignment));
        whole
            .map(|assignment| (assignment.node, assignment.cpus))
            .collect()
    };
    let four = four_nodes().read(&all()).unwrap();
    assert_eq!(on_nodes(&four), [(0, vec![0, 1]), (1, vec![2, 3])]);
    let one = four_nodes().read(&Allowed::cpus(2..4)).unwrap();
    assert_eq!(on_nodes(&one), [(0, vec![]), (0, vec![])]);
}

#[test]
fn nodes_with_fewer_cores_sit_out_later_turns() {
    let sys = Sys::with_cpus("0-3");
    sys.node(0, "0", 512, "10 20");
    sys.node(1, "1-3", 512, "20 10");
    let topology = sys.read(&all()).unwrap();
    let nodes: Vec<usize> = assignments(&topology, 5)
        .iter()
        .map(|assignment| assignment.0)
        .collect();
    assert_eq!(nodes, [0, 1, 1, 1, 0]);
}

#[test]
fn threads_of_one_core_stay_together() {
    for file in ["core_cpus_list", "thread_siblings_list"] {
        let sys = Sys::with_cpus("0-7");
        sys.node(0, "0-1,4-5", 512, "10 21");
        sys.node(1, "2-3,6-7", 512, "21 10");
        sys.siblings(file, &["0,4", "1,5", "2,6", "3,7"]);
        let topology = sys.read(&all()).unwrap();
        let expected = [
            (0, vec![vec![0, 4], vec![1, 5]]),
            (1, vec![vec![2, 6], vec![3, 7]]),
        ];
        assert_eq!(layout(&topology), expected, "{file}");
        assert_eq!(
            assignments(&topology, 2),
            [(0, vec![0, 4]), (1, vec![2, 6])]
        );
    }
}

#[test]
fn what_is_offline_is_not_used() {
    let sys = four_nodes();
    // An old kernel leaves an offline processor in its node's list.
    sys.write("cpu/online", "0,2-5");
    let topology = sys.read(&all()).unwrap();
    let expected = [
        (0, vec![vec![0]]),
        (1, vec![vec![2], vec![3]]),
        (2, vec![vec![4], vec![5]]),
    ];
    assert_eq!(layout(&topology), expected);
    assert_eq!(topology.distances().nearest_first(2), [2, 0, 1]);
}

#[test]
fn a_cpuset_leaves_two_of_eight_processors() {
    let sys = four_nodes();
    let topology = sys.read(&Allowed::cpus([3, 6])).unwrap();
    assert_eq!(layout(&topology), [(1, vec![vec![3]]), (3, vec![vec![6]])]);
    assert_eq!(topology.distances().between(0, 1), 22);

    // With half a core each.
    sys.siblings("core_cpus_list", &["2-3", "6-7"]);
    let topology = sys.read(&Allowed::cpus([3, 6])).unwrap();
    assert_eq!(layout(&topology), [(1, vec![vec![3]]), (3, vec![vec![6]])]);
}

#[test]
fn gaps_between_the_kernels_numbers_are_closed() {
    let sys = Sys::with_cpus("0-1,8-9");
    sys.node(0, "0-1", 512, "10 40 40");
    sys.node(8, "8-9", 512, "40 10 20");
    sys.node(252, "", 512, "40 20 10");
    let topology = sys.read(&all()).unwrap();
    let expected = [(0, vec![vec![0], vec![1]]), (8, vec![vec![8], vec![9]])];
    assert_eq!(layout(&topology), expected);
    assert_eq!(topology.distances().nodes(), 2);
    assert_eq!(topology.distances().between(1, 0), 40);
}

#[test]
fn a_node_without_memory_uses_the_nearest() {
    let sys = four_nodes();
    sys.node(0, "0-1", 0, "10 22 16 22");
    let topology = sys.read(&all()).unwrap();
    let numbers: Vec<u32> = topology.nodes().iter().map(|node| node.number).collect();
    assert_eq!(numbers, [2, 1, 2, 3]);
    assert_eq!(topology.nodes()[0].memory_bytes, 512 << 20);
    assert_eq!(topology.nodes()[0].cores.len(), 2);
}

#[test]
fn memory_that_may_not_be_used_is_not_named() {
    let topology = four_nodes().read(&all().with_memory_on([1, 3])).unwrap();
    let numbers: Vec<u32> = topology.nodes().iter().map(|node| node.number).collect();
    assert_eq!(numbers, [1, 1, 3, 3]);
}

#[test]
fn memory_without_processors_serves_those_that_lack_it() {
    let sys = Sys::with_cpus("0-1");
    sys.node(0, "0-1", 0, "10 17");
    sys.node(1, "", 2048, "17 10");
    let topology = sys.read(&all()).unwrap();
    assert_eq!(layout(&topology), [(1, vec![vec![0], vec![1]])]);
    assert_eq!(*topology.distances(), Distances::one_node());
}

#[test]
fn a_kernel_that_knows_no_nodes_has_one() {
    let sys = Sys::with_cpus("0-3");
    sys.siblings("core_cpus_list", &["0-1", "2-3"]);
    let topology = sys.read(&Allowed::cpus([0, 1, 2])).unwrap();
    assert_eq!(layout(&topology), [(0, vec![vec![0, 1], vec![2]])]);
    assert_eq!(topology.nodes()[0].memory_bytes, 0);
    assert_eq!(*topology.distances(), Distances::one_node());
}

#[test]
fn nothing_at_all_makes_one_node_of_the_allowed_processors() {
    let empty = tempfile::tempdir().unwrap();
    let allowed = Allowed::cpus([1, 5]);
    let topology = Topology::read(empty.path(), &allowed).unwrap();
    assert_eq!(layout(&topology), [(0, vec![vec![1], vec![5]])]);
    assert_eq!(topology, Topology::flat(&allowed));
}

#[test]
fn caches_are_listed_once_with_those_who_share_them() {
    let sys = Sys::with_cpus("0-3");
    for cpu in 0..4 {
        let index = |index: u32, level: &str, kind: &str, size: &str, shared: &str| {
            let folder = format!("cpu/cpu{cpu}/cache/index{index}");
            for (file, text) in [
                ("level", level),
                ("type", kind),
                ("size", size),
                ("shared_cpu_list", shared),
                ("coherency_line_size", "64"),
            ] {
                sys.write(&format!("{folder}/{file}"), text);
            }
        };
        let pair = if cpu < 2 { "0-1" } else { "2-3" };
        index(0, "1", "Data", "48K", pair);
        index(1, "1", "Instruction", "32K", pair);
        index(3, "3", "Unified", "46080K", "0-3");
        // The kernel does not report the size of this one.
        sys.write(&format!("cpu/cpu{cpu}/cache/index2/level"), "2");
    }
    let topology = sys.read(&Allowed::cpus([0, 1, 3])).unwrap();
    let cache = |level, kind, cpus: &[u32], kib: u64| Cache {
        level,
        kind,
        cpus: cpus.to_vec(),
        bytes: kib << 10,
        line_bytes: 64,
    };
    let expected = [
        cache(1, CacheKind::Data, &[0, 1], 48),
        cache(1, CacheKind::Data, &[3], 48),
        cache(1, CacheKind::Instruction, &[0, 1], 32),
        cache(1, CacheKind::Instruction, &[3], 32),
        cache(3, CacheKind::Unified, &[0, 1, 3], 46_080),
    ];
    assert_eq!(topology.caches(), expected);
}

#[test]
fn what_cannot_be_understood_is_named() {
    let refused = |spoil: fn(&Sys)| {
        let sys = four_nodes();
        spoil(&sys);
        sys.read(&all()).unwrap_err().to_string()
    };
    let error = refused(|sys| sys.write("node/node1/cpulist", "two"));
    assert!(error.contains("node1/cpulist holds \"two\""), "{error}");
    let error = refused(|sys| sys.write("node/node2/distance", "22 22 10"));
    assert!(error.contains("from node 2 are 3"), "{error}");
    let error = refused(|sys| sys.write("node/node3/meminfo", "much"));
    assert!(error.contains("account of memory"), "{error}");
    let error = refused(|sys| sys.write("cpu/online", "8-9"));
    assert!(error.contains("none of the processors"), "{error}");
}

#[test]
fn this_machine_has_nodes_with_cores() {
    let topology = Topology::of_this_machine();
    assert_eq!(topology.distances().nodes(), topology.nodes().len());
    let read = Topology::read(Path::new("/sys"), &Allowed::of_this_process()).unwrap();
    assert_eq!(topology, read);
    let threads = std::thread::available_parallelism().unwrap();
    let cores = topology.nodes().iter().flat_map(|node| &node.cores);
    assert!(cores.map(|core| core.cpus.len()).sum::<usize>() >= threads.get());
}

/// Checks the machine of `scripts/numa-vm.sh`, which passes the number of nodes on the kernel's command line.
#[test]
fn the_emulated_machine_has_four_nodes() {
    let boot = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    if !boot.contains("oboro.nodes=4") {
        return println!("skipped: not on the emulated machine");
    }
    let topology = Topology::of_this_machine();
    let expected: Vec<_> = (0..4).map(|node| (node, vec![vec![node]])).collect();
    assert_eq!(layout(&topology), expected);
    assert_eq!(topology.distances().nearest_first(3), [3, 2, 0, 1]);
    assert_eq!(topology.distances().between(0, 3), 22);
    for node in topology.nodes() {
        assert!((400 << 20..=512 << 20).contains(&node.memory_bytes));
    }
}
