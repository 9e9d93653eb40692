//! The documents' claims about the build, checked on the build itself: which crates may see a secret, that dependencies
//! point downward, that every dependency is explained, and that libraries do not name options of the programs.
//!
//! The facts come from `cargo metadata` and `cargo tree` for the host's platform, never from a copy kept here. Licences
//! and sources of packages are checked by cargo-deny (`deny.toml`), `unsafe` and random number generators by lints
//! (`Cargo.toml`, `clippy.toml`).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde::Deserialize;

/// The crates from lowest to highest; those of one row do not depend on each other.
const LAYERS: &[&[&str]] = &[
    &[
        "fcmalloc",
        "oboro-arena",
        "oboro-ring",
        "oboro-system",
        "oboro-faults",
        "oboro-relay",
    ],
    &["oboro-rlwe", "oboro-genome", "oboro-format"],
    &["oboro-residency"],
    &["oboro-store", "oboro-engine", "oboro-genome-server"],
    &["oboro-input"],
    &["oboro-mining"],
    &["oboro-dataset", "oboro-results"],
    &["oboro-protocol"],
    &["oboro-edge"],
    &["oboro-server", "oboro-client"],
    &["oboro", "oboro-python", "oboro-fuzz"],
];

/// The allocator's binding, and the only crate that may link it: the program chooses its allocator, and a Python module
/// is not a program.
const ALLOCATOR: &str = "fcmalloc";
const WITH_ALLOCATOR: &str = "oboro";

/// The only crate whose code touches secrets.
const SECRETS: &str = "oboro-rlwe";

/// Crates of the server, of the data that is sent to it, and those of the owner that need no secret.
const WITHOUT_SECRETS: &[&str] = &[
    "fcmalloc",
    "oboro-arena",
    "oboro-ring",
    "oboro-system",
    "oboro-genome",
    "oboro-genome-server",
    "oboro-format",
    "oboro-residency",
    "oboro-store",
    "oboro-engine",
    "oboro-input",
    "oboro-mining",
    "oboro-results",
    "oboro-protocol",
    "oboro-edge",
    "oboro-server",
];

/// Crates of the owner's side, which need secrets.
const WITH_SECRETS: &[&str] = &["oboro-dataset", "oboro-client", "oboro", "oboro-python"];

/// Crates of the owner's side, which must not depend on the server's storage.
const WITHOUT_A_STORE: &[&str] = &[
    "oboro-format",
    "oboro-input",
    "oboro-mining",
    "oboro-dataset",
    "oboro-results",
    "oboro-protocol",
    "oboro-client",
];

/// The server's storage.
const STORE: &[&str] = &[
    "oboro-store",
    "oboro-residency",
    "rusqlite",
    "object_store",
    "io-uring",
];

/// Crates whose messages may name options and subcommands of the command.
const IN_THE_COMMANDS_WORDS: &[&str] = &["cli", "python", "testing"];

/// Where all other crates get option names from.
const WORDING: &str = "crates/format/src/wording.rs";

/// Separate workspaces, for code that is not part of the product.
const WORKSPACES_BESIDE: &[&str] = &["fuzz", "lab", "lab/alloc/fhe", "lab/alloc/peers"];

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

/// Guards the test above: a search that finds nothing would pass it.
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

/// An owner's build contains neither a server's store nor its dependencies.
#[test]
fn the_owners_side_builds_without_a_store() {
    let graph = Graph::of_workspace();
    for name in WITHOUT_A_STORE {
        for part in STORE {
            if let Some(path) = graph.path(name, part) {
                panic!(
                    "{name} must not depend on {part}, but does: {}",
                    path.join(" -> ")
                );
            }
        }
    }
    for part in STORE {
        assert!(
            graph.path("oboro-server", part).is_some(),
            "a server should have {part}"
        );
    }
}

#[test]
fn an_owners_build_of_the_command_has_no_server() {
    let without = ["--no-default-features", "--features", "arrow"];
    let packages = |options: &[&str]| -> BTreeSet<String> {
        let tree = tree_with("oboro", "{p}", options);
        let names = tree.lines().filter_map(|line| line.split(' ').next());
        names.map(str::to_owned).collect()
    };
    let server = [
        STORE,
        &["oboro-server", "oboro-genome-server", "oboro-arena"],
    ]
    .concat();
    for name in server {
        assert!(packages(&[]).contains(name), "a server should have {name}");
        assert!(!packages(&without).contains(name), "an owner has {name}");
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

/// A feature that only one of them enables would compile everything above that crate twice.
#[test]
fn the_command_and_the_python_package_share_a_build() {
    let features = |package| {
        let mut features = BTreeMap::<_, BTreeSet<_>>::new();
        for line in tree(package, "{p}|{f}").lines() {
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
            // The command may have it with other features besides, for its own use.
            assert!(
                enabled.is_subset(others),
                "{package}: {enabled:?} {others:?}"
            );
        }
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

/// A library's messages are read by users of the command and of Python, whose options have different names.
#[test]
fn no_library_names_an_option_of_the_command() {
    let mut named = Vec::new();
    for file in library_sources() {
        let text = read(&file);
        let product = text.lines().take_while(|line| *line != "mod tests {");
        for (number, line) in (1..).zip(product) {
            if !line.trim_start().starts_with("//") && names_an_option(line) {
                named.push(format!("{}:{number}: {}", file.display(), line.trim()));
            }
        }
    }
    assert!(
        named.is_empty(),
        "take the names of settings and actions from {WORDING}:\n{}",
        named.join("\n")
    );
}

/// Guards the test above: a search that finds nothing would pass it.
#[test]
fn an_option_of_the_command_is_found() {
    assert!(names_an_option("    \"choose a smaller --max-len\""));
    assert!(names_an_option("    \"make one with `oboro keygen`\""));
    assert!(!names_an_option("    \"-----BEGIN CERTIFICATE-----\""));
    let sources = library_sources();
    assert!(sources.contains(&PathBuf::from("crates/store/src/error.rs")));
    assert!(!sources.contains(&PathBuf::from(WORDING)));
}

/// Whether a line contains `--option` or "`oboro …`".
fn names_an_option(line: &str) -> bool {
    let option = |(at, _): (usize, &str)| {
        let is_begun = !line[..at].ends_with(|it: char| it == '-' || it.is_alphanumeric());
        is_begun && line[at + 2..].starts_with(|it: char| it.is_ascii_lowercase())
    };
    line.contains("`oboro ") || line.match_indices("--").any(option)
}

/// The sources of libraries, without their tests.
fn library_sources() -> Vec<PathBuf> {
    let mut sources = Vec::new();
    for member in entries(Path::new("crates")) {
        if !IN_THE_COMMANDS_WORDS.iter().any(|it| member.ends_with(it)) {
            add_sources(&member.join("src"), &mut sources);
        }
    }
    sources.retain(|file| !file.ends_with("tests.rs") && file != Path::new(WORDING));
    sources
}

fn add_sources(path: &Path, sources: &mut Vec<PathBuf>) {
    if root().join(path).is_dir() {
        entries(path)
            .iter()
            .for_each(|entry| add_sources(entry, sources));
    } else if path.extension().is_some_and(|it| it == "rs") {
        sources.push(path.to_owned());
    }
}

/// The entries of a folder of the workspace.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder))
        .unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display()));
    entries
        .map(|entry| folder.join(entry.expect("an entry can be read").file_name()))
        .collect()
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
    dependencies: Vec<Declared>,
}

/// A dependency as declared in a manifest; one without a source is in this workspace.
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
    /// The graph of this workspace, read once for all tests.
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

    /// The names along a shortest chain of dependencies from one of our crates to another package.
    fn path(&self, from: &str, to: &str) -> Option<Vec<&str>> {
        let is_known = self.packages.values().any(|package| package.name == to);
        assert!(is_known, "nothing depends on {to}");
        let mut chains = VecDeque::from([vec![self.member(from)]]);
        let mut seen = BTreeSet::new();
        while let Some(chain) = chains.pop_front() {
            let end = chain[chain.len() - 1];
            if end.name == to {
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
}

/// Runs `cargo metadata` for the host's platform, the only one whose packages a build has fetched.
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

/// A line of this format for each normal and build dependency of a package on the host.
fn tree(package: &str, format: &str) -> String {
    tree_with(package, format, &[])
}

/// The same with options about features.
fn tree_with(package: &str, format: &str, options: &[&str]) -> String {
    let asked = [
        "tree",
        "--offline",
        "--locked",
        "--edges=normal,build",
        "--prefix=none",
        "--format",
        format,
        "--package",
        package,
    ];
    cargo(&[&asked, options].concat())
}

/// The packages of a separate workspace in a folder of the repository.
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

/// Runs the Cargo that built this test in the root of the workspace; returns its output.
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

// Documents.

/// The crates in backticks in the first cell of a row of a Markdown table.
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

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a file of the workspace.
fn read(file: &Path) -> String {
    std::fs::read_to_string(root().join(file))
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()))
}
