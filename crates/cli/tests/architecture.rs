//! What the documents promise about the build, checked on the build itself: which crate may
//! see a secret, that dependencies point downward, what licences are shipped, that every
//! dependency is explained, and where `unsafe` may stand.
//!
//! The facts come from `cargo metadata` for the host's platform and from the sources, never
//! from a copy kept here.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde::Deserialize;

/// The crates from lowest to highest; those of one row do not know each other.
const LAYERS: &[&[&str]] = &[
    &[
        "fcmalloc",
        "oboro-arena",
        "oboro-ring",
        "oboro-sample",
        "oboro-faults",
    ],
    &["oboro-tasks"],
    &["oboro-rlwe", "oboro-genome"],
    &["oboro-store"],
    &["oboro-engine", "oboro-genome-panel"],
    &["oboro-genome-query"],
    &["oboro-mining"],
    &["oboro-protocol"],
    &["oboro-server", "oboro-client"],
    &["oboro", "oboro-python", "oboro-fuzz"],
];

/// The allocator's binding, and the only crate that may link it: the allocator is the program's choice, and a Python
/// module is no program.
const ALLOCATOR: &str = "fcmalloc";
const WITH_ALLOCATOR: &str = "oboro";

/// The only crate whose code touches secrets.
const SECRETS: &str = "oboro-rlwe";

/// What has a generator live on in the process: every fork of it would draw the same.
const LASTING_GENERATORS: &[&str] = &[
    "rng()",
    "rand::random",
    "ThreadRng",
    "thread_rng",
    "fastrand",
];

/// Crates that run on the server or describe what it is sent.
const WITHOUT_SECRETS: &[&str] = &[
    "fcmalloc",
    "oboro-arena",
    "oboro-ring",
    "oboro-sample",
    "oboro-tasks",
    "oboro-genome",
    "oboro-genome-panel",
    "oboro-store",
    "oboro-engine",
    "oboro-protocol",
    "oboro-server",
];

/// Crates of the owner's side, which could not work without secrets.
const WITH_SECRETS: &[&str] = &[
    "oboro-mining",
    "oboro-genome-query",
    "oboro-client",
    "oboro",
    "oboro-python",
];

/// Workspaces of their own, for what must not be part of what is built for use.
const WORKSPACES_BESIDE: &[&str] = &["fuzz", "lab/alloc/fhe", "lab/alloc/peers"];

/// Licences that allow anyone to use, change and pass on what is built from them.
const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// The files that may contain `unsafe`: the vector kernels, the code that chooses them, arenas, the
/// allocator's binding, the kernel's rings of requests, and the calls of the C library that tests put before
/// its own.
const UNSAFE_FILES: &[&str] = &[
    "crates/arena/src/arena.rs",
    "crates/arena/src/arena/region.rs",
    "crates/faults/src/calls.rs",
    "crates/mining/src/bitmap.rs",
    "crates/ring/src/avx2.rs",
    "crates/ring/src/avx512.rs",
    "crates/ring/src/fraction.rs",
    "crates/ring/src/ntt.rs",
    "crates/ring/src/vector.rs",
    "crates/ring/src/vector/avx2.rs",
    "crates/ring/src/vector/avx512.rs",
    "crates/ring/src/vector/neon.rs",
    "crates/sample/src/lib.rs",
    "crates/store/src/reader/ring.rs",
    "fcmalloc/rust/src/allocator.rs",
    "fcmalloc/rust/src/ffi.rs",
];

#[test]
fn no_crate_of_the_server_reaches_a_secret() {
    let graph = Graph::of_workspace();
    for name in WITHOUT_SECRETS {
        if let Some(path) = graph.path(name, SECRETS) {
            panic!(
                "{name} must not depend on {SECRETS}, but does: {}",
                path.join(" -> ")
            );
        }
    }
}

/// Keeps the test above honest: a search that finds nothing would pass it.
#[test]
fn the_owners_crates_reach_the_secrets() {
    let graph = Graph::of_workspace();
    for name in WITH_SECRETS {
        assert!(
            graph.path(name, SECRETS).is_some(),
            "{name} should depend on {SECRETS}"
        );
    }
}

#[test]
fn the_allocator_is_known_to_the_command_alone() {
    let graph = Graph::of_workspace();
    for package in graph.members() {
        let path = graph.path(&package.name, ALLOCATOR);
        match package.name.as_str() {
            ALLOCATOR => {}
            WITH_ALLOCATOR => assert!(path.is_some(), "the command has lost its allocator"),
            name => assert!(
                path.is_none(),
                "{name} must not depend on {ALLOCATOR}, but does: {}",
                path.unwrap_or_default().join(" -> ")
            ),
        }
    }
}

#[test]
fn dependencies_between_our_crates_point_downward() {
    let graph = Graph::of_workspace();
    let layer = |name: &str| {
        LAYERS
            .iter()
            .position(|row| row.contains(&name))
            .unwrap_or_else(|| panic!("{name} has no place in LAYERS yet"))
    };
    for package in graph.members() {
        for dependency in graph.neighbours(&package.id) {
            if graph.is_member(&dependency.id) {
                assert!(
                    layer(&dependency.name) < layer(&package.name),
                    "{} must not depend on {}, which lies beside or above it",
                    package.name,
                    dependency.name,
                );
            }
        }
    }
    for name in LAYERS.iter().copied().flatten() {
        graph.member(name);
    }
}

/// A feature that only one of them has would compile everything above that crate twice.
#[test]
fn the_command_and_the_python_package_share_a_build() {
    let features = |package| -> BTreeMap<String, BTreeSet<String>> {
        let tree = cargo(&[
            "tree",
            "--offline",
            "--locked",
            "--edges=normal,build",
            "--prefix=none",
            "--format={p}|{f}",
            "--package",
            package,
        ]);
        let mut features = BTreeMap::<_, BTreeSet<_>>::new();
        for line in tree.lines() {
            let (package, enabled) = line.split_once('|').expect("as in --format");
            let enabled = enabled.trim_end_matches(" (*)").to_owned();
            features
                .entry(package.to_owned())
                .or_default()
                .insert(enabled);
        }
        features
    };
    let command = features("oboro");
    for (package, enabled) in features("oboro-python") {
        if let Some(others) = command.get(&package) {
            assert_eq!(&enabled, others, "{package}");
        }
    }
}

#[test]
fn everything_shipped_has_a_permissive_licence() {
    let graph = Graph::of_workspace();
    let shipped = graph.reachable_from_members();
    assert!(
        shipped.len() > graph.members().count(),
        "the walk found no third-party package"
    );
    let offenders: Vec<String> = shipped
        .into_iter()
        .filter(|package| !package.license.as_deref().is_some_and(is_permissive))
        .map(|package| {
            let license = package.license.as_deref().unwrap_or("none declared");
            format!("{} {}: {license}", package.name, package.version)
        })
        .collect();
    assert!(
        offenders.is_empty(),
        "not permissive:\n{}",
        offenders.join("\n")
    );
}

#[test]
fn licence_expressions_are_read_as_spdx_means_them() {
    for accepted in [
        "MIT",
        "MIT/Apache-2.0",
        "Unlicense / MIT",
        "GPL-3.0-only OR MIT",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception",
        "MIT OR GPL-3.0-only AND LGPL-2.1-only",
    ] {
        assert!(is_permissive(accepted), "{accepted}");
    }
    for refused in [
        "",
        "GPL-3.0-only",
        "MIT AND GPL-3.0-only",
        "(MIT OR Apache-2.0) AND BSD-3-Clause-Clear",
        "GPL-2.0-only WITH Classpath-exception-2.0",
        "MIT AND",
        "(MIT",
        "MIT MIT",
    ] {
        assert!(!is_permissive(refused), "{refused}");
    }
}

#[test]
fn every_direct_dependency_is_explained_and_nothing_else() {
    let beside: Vec<Package> = WORKSPACES_BESIDE
        .iter()
        .flat_map(|folder| packages_in(folder))
        .collect();
    let declared: BTreeSet<String> = Graph::of_workspace()
        .members()
        .chain(&beside)
        .flat_map(|package| &package.dependencies)
        .filter(|dependency| dependency.source.is_some())
        .map(|dependency| dependency.name.clone())
        .collect();
    let explained = crates_in_tables(&read(Path::new("docs/dependencies.md")));

    let missing: Vec<_> = declared.difference(&explained).collect();
    assert!(
        missing.is_empty(),
        "docs/dependencies.md has no line for {missing:?}"
    );
    let stale: Vec<_> = explained.difference(&declared).collect();
    assert!(
        stale.is_empty(),
        "docs/dependencies.md explains {stale:?}, which nothing uses"
    );
}

#[test]
fn unsafe_stands_in_kernels_only() {
    let found = unsafe_lines_by_file();
    let allowed: BTreeSet<&str> = UNSAFE_FILES.iter().copied().collect();

    let offenders: Vec<String> = found
        .iter()
        .filter(|(file, _)| !allowed.contains(file.as_str()))
        .map(|(file, lines)| format!("{file}, lines {lines:?}"))
        .collect();
    assert!(
        offenders.is_empty(),
        "unsafe outside the kernels:\n{}",
        offenders.join("\n")
    );
    for file in allowed {
        assert!(
            found.contains_key(file),
            "{file} holds no unsafe: strike it from UNSAFE_FILES"
        );
    }
}

#[test]
fn no_generator_lives_on_in_the_process() {
    for file in rust_sources() {
        let code = code_of(&read(&file));
        for name in LASTING_GENERATORS {
            assert!(
                !code.contains(name),
                "{} uses {name}, which repeats itself in a fork: take oboro_sample::fresh_generator()",
                file.display()
            );
        }
    }
}

#[test]
fn the_scan_for_unsafe_reads_code_and_nothing_else() {
    let harmless = r####"
        //! unsafe in a doc comment
        #![deny(unsafe_op_in_unsafe_fn)]
        /* unsafe /* nested unsafe */ unsafe */
        fn quotes<'a>(x: &'a str) -> char { '"' }
        const TEXT: &str = "unsafe \" unsafe";
        const RAW: &str = r#"unsafe " unsafe"#;
        const BYTES: &[u8] = br"unsafe\";
        const ESCAPE: char = '\'';
        let not_unsafe = unsafely;
    "####;
    assert_eq!(lines_with_unsafe(harmless), Vec::<usize>::new());
    let mixed = "// unsafe\nunsafe fn f() {}\nlet c = '\"'; unsafe { g() }\n\"\n\nunsafe\"\n\
                 #[unsafe(no_mangle)]\n";
    assert_eq!(lines_with_unsafe(mixed), [2, 3, 7]);
}

// The dependency graph.

/// The part of `cargo metadata` that these tests read.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    dependencies: Vec<Declared>,
}

/// A dependency as a manifest declares it; one without a source lies in this workspace.
#[derive(Deserialize)]
struct Declared {
    name: String,
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

/// `None` is a normal dependency; the others are "build" and "dev".
#[derive(Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

/// Packages and the normal and build dependencies between them, as Cargo resolved them.
struct Graph {
    packages: HashMap<String, Package>,
    members: BTreeSet<String>,
    edges: HashMap<String, Vec<String>>,
}

impl Graph {
    /// The graph of this workspace, asked of Cargo once for all tests.
    fn of_workspace() -> &'static Self {
        static GRAPH: OnceLock<Graph> = OnceLock::new();
        GRAPH.get_or_init(|| Self::new(cargo_metadata()))
    }

    fn new(metadata: Metadata) -> Self {
        let edges = metadata.resolve.nodes.into_iter().map(|node| {
            let shipped = |edge: &Edge| {
                edge.dep_kinds
                    .iter()
                    .any(|kind| kind.kind.as_deref() != Some("dev"))
            };
            (
                node.id,
                node.deps
                    .into_iter()
                    .filter(shipped)
                    .map(|edge| edge.pkg)
                    .collect(),
            )
        });
        Self {
            edges: edges.collect(),
            members: metadata.workspace_members.into_iter().collect(),
            packages: metadata
                .packages
                .into_iter()
                .map(|p| (p.id.clone(), p))
                .collect(),
        }
    }

    fn is_member(&self, id: &str) -> bool {
        self.members.contains(id)
    }

    fn members(&self) -> impl Iterator<Item = &Package> {
        self.members.iter().map(|id| &self.packages[id])
    }

    /// The workspace crate of this name, which must exist.
    fn member(&self, name: &str) -> &Package {
        self.members()
            .find(|package| package.name == name)
            .unwrap_or_else(|| panic!("the workspace has no crate {name}"))
    }

    fn neighbours(&self, id: &str) -> impl Iterator<Item = &Package> {
        self.edges[id].iter().map(|id| &self.packages[id])
    }

    /// The names along a shortest chain of dependencies from one crate of ours to another.
    fn path(&self, from: &str, to: &str) -> Option<Vec<&str>> {
        let goal = self.member(to).id.as_str();
        let mut chains = VecDeque::from([vec![self.member(from)]]);
        let mut seen = BTreeSet::new();
        while let Some(chain) = chains.pop_front() {
            let end = chain[chain.len() - 1];
            if end.id == goal {
                return Some(chain.iter().map(|package| package.name.as_str()).collect());
            }
            for next in self.neighbours(&end.id) {
                if seen.insert(&next.id) {
                    chains.push_back(chain.iter().copied().chain([next]).collect());
                }
            }
        }
        None
    }

    fn reachable_from_members(&self) -> Vec<&Package> {
        let mut pending: Vec<&Package> = self.members().collect();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut reached = Vec::new();
        while let Some(package) = pending.pop() {
            if seen.insert(&package.id) {
                reached.push(package);
                pending.extend(self.neighbours(&package.id));
            }
        }
        reached
    }
}

/// Asks Cargo for the graph on the host's platform, for which alone a build has fetched the
/// packages.
fn cargo_metadata() -> Metadata {
    let version = cargo(&["--version", "--verbose"]);
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .expect("cargo --version --verbose names the host");
    let metadata = cargo(&[
        "metadata",
        "--format-version=1",
        "--offline",
        "--locked",
        "--filter-platform",
        host,
    ]);
    serde_json::from_str(&metadata).expect("cargo metadata prints the documented JSON")
}

/// The packages of a workspace of its own, which stands in a folder of the repository.
fn packages_in(folder: &str) -> Vec<Package> {
    #[derive(Deserialize)]
    struct Manifests {
        packages: Vec<Package>,
    }
    let metadata = cargo(&[
        "metadata",
        "--format-version=1",
        "--offline",
        "--no-deps",
        &format!("--manifest-path={folder}/Cargo.toml"),
    ]);
    let Manifests { packages } =
        serde_json::from_str(&metadata).expect("cargo metadata prints the documented JSON");
    packages
}

/// Runs the Cargo that built this test in the root of the workspace and returns what it prints.
fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("the Cargo that built this test still exists");
    assert!(
        output.status.success(),
        "cargo {} failed; if packages are missing, run `cargo fetch --locked` first:\n{}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr),
    );
    String::from_utf8(output.stdout).expect("Cargo prints UTF-8")
}

// Licences.

/// Whether an SPDX expression can be satisfied with permissive licences alone. What cannot be
/// parsed is refused.
fn is_permissive(expression: &str) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    matches!(any_of(&tokens), Some((true, [])))
}

/// Whether an expression is satisfied, and the tokens after it; `None` if it is malformed.
type Parsed<'t, 's> = Option<(bool, &'t [&'s str])>;

fn any_of<'t, 's>(tokens: &'t [&'s str]) -> Parsed<'t, 's> {
    let (mut satisfied, mut rest) = all_of(tokens)?;
    while let ["OR", after @ ..] = rest {
        let (next, remaining) = all_of(after)?;
        satisfied |= next;
        rest = remaining;
    }
    Some((satisfied, rest))
}

fn all_of<'t, 's>(tokens: &'t [&'s str]) -> Parsed<'t, 's> {
    let (mut satisfied, mut rest) = one(tokens)?;
    while let ["AND", after @ ..] = rest {
        let (next, remaining) = one(after)?;
        satisfied &= next;
        rest = remaining;
    }
    Some((satisfied, rest))
}

fn one<'t, 's>(tokens: &'t [&'s str]) -> Parsed<'t, 's> {
    match tokens {
        ["(", inside @ ..] => match any_of(inside)? {
            (satisfied, [")", rest @ ..]) => Some((satisfied, rest)),
            _ => None,
        },
        [license, "WITH", exception, rest @ ..] => {
            let with_exception = format!("{license} WITH {exception}");
            Some((PERMISSIVE.contains(&with_exception.as_str()), rest))
        }
        [license, rest @ ..] => Some((PERMISSIVE.contains(license), rest)),
        [] => None,
    }
}

// Documents and sources.

/// The crates that stand between backticks in the first cell of a row of a Markdown table.
fn crates_in_tables(markdown: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in markdown.lines() {
        let first_cell = line.strip_prefix('|').and_then(|row| row.split('|').next());
        let name = first_cell
            .and_then(|cell| cell.trim().strip_prefix('`'))
            .and_then(|cell| cell.strip_suffix('`'));
        if let Some(name) = name {
            assert!(names.insert(name.to_owned()), "two lines explain {name}");
        }
    }
    names
}

/// Every source file of the workspace that contains the keyword `unsafe`, with the lines.
fn unsafe_lines_by_file() -> BTreeMap<String, Vec<usize>> {
    let mut found = BTreeMap::new();
    for file in rust_sources() {
        let lines = lines_with_unsafe(&read(&file));
        if !lines.is_empty() {
            found.insert(
                file.to_str().expect("our paths are UTF-8").to_owned(),
                lines,
            );
        }
    }
    found
}

/// All `.rs` files in a folder `src` of the workspace, relative to the workspace's root.
fn rust_sources() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("crates"), PathBuf::from("fcmalloc/rust")];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in root()
            .join(&folder)
            .read_dir()
            .expect("a folder of the workspace")
        {
            let entry = entry.expect("an entry of a folder of the workspace");
            let path = folder.join(entry.file_name());
            if entry.file_type().expect("an entry has a type").is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && path.components().any(|part| part.as_os_str() == "src")
            {
                sources.push(path);
            }
        }
    }
    sources
}

/// The numbers of the lines, from 1, whose code contains the keyword `unsafe`.
fn lines_with_unsafe(source: &str) -> Vec<usize> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code_of(source)
        .lines()
        .enumerate()
        .filter(|(_, line)| line.split(|c| !is_word(c)).any(|word| word == "unsafe"))
        .map(|(index, _)| index + 1)
        .collect()
}

/// The source without its comments, strings and characters, line by line as it was.
fn code_of(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let in_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let hidden = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if first == '"' {
            quoted(rest, '"')
        } else if first == '\'' {
            character(rest)
        } else if matches!(first, 'r' | 'b' | 'c') && !in_word {
            raw_string(rest)
        } else {
            0
        };
        if hidden == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            code.push(' ');
            code.extend(rest[..hidden].matches('\n'));
            rest = &rest[hidden..];
        }
    }
    code
}

/// The length of the block comment, with those nested in it, at the start of `text`.
fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let step = if text[at..].starts_with("/*") {
            depth += 1;
            2
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            2
        } else {
            text[at..].chars().next().map_or(1, char::len_utf8)
        };
        at += step;
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of the literal with escapes at the start of `text`, up to its closing quote.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// The length of the character literal at the start of `text`, or 0 for a lifetime.
fn character(text: &str) -> usize {
    let mut after = text.chars().skip(1);
    match (after.next(), after.next()) {
        (Some('\\'), _) => quoted(text, '\''),
        (Some(c), Some('\'')) => 2 + c.len_utf8(),
        _ => 0,
    }
}

/// The length of the raw string at the start of `text`, or 0 if none begins there.
fn raw_string(text: &str) -> usize {
    let Some(marked) = text
        .strip_prefix(['b', 'c'])
        .unwrap_or(text)
        .strip_prefix('r')
    else {
        return 0;
    };
    let content = marked.trim_start_matches('#');
    if !content.starts_with('"') {
        return 0;
    }
    let closing = format!("\"{}", "#".repeat(marked.len() - content.len()));
    let begin = text.len() - content.len() + 1;
    text[begin..]
        .find(&closing)
        .map_or(text.len(), |at| begin + at + closing.len())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a file of the workspace.
fn read(file: &Path) -> String {
    std::fs::read_to_string(root().join(file))
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()))
}
