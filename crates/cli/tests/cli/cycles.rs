//! The files of a crate do not depend on each other in cycles.
//!
//! A file depends on the files that define the names in its `use` items and paths. Re-exports are looked through: a module
//! that only declares and re-exports others depends on none of them. Methods and code under `#[cfg(test)]` do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[test]
fn files_do_not_depend_on_each_other_in_cycles() {
    let mut cycles = String::new();
    let crates = crates();
    for edges in crates.values() {
        for cycle in cycles_in(edges) {
            cycles += &format!("a cycle of {} files:\n", cycle.len());
            for ((from, to), names) in edges {
                if cycle.contains(&&**from) && cycle.contains(&&**to) {
                    cycles += &format!("  {from} uses {names:?} of {to}\n");
                }
            }
        }
    }
    let advice = "move a name that closes a cycle to a file below both";
    assert!(cycles.is_empty(), "{advice}:\n{cycles}");
}

/// Guards the test above, which a search that finds nothing would pass.
#[test]
fn dependencies_between_files_are_found() {
    let crates = crates();
    let names = |from: &str, to: &str| {
        let edges = &crates[from.split('/').next().unwrap_or(from)];
        let names = edges.get(&(from.to_owned(), to.to_owned()));
        names.into_iter().flatten().copied().collect::<Vec<_>>()
    };
    let (error, segment) = ("format/src/error.rs", "format/src/segment.rs");
    assert_eq!(names(error, "format/src/limits.rs"), ["MAX_RECOVERY_BYTES"]);
    let main = names("cli/src/main.rs", "cli/src/commands/keygen.rs");
    assert_eq!(main, ["run"], "by a path");
    let layout = names("format/src/manifest.rs", "format/src/segment/layout.rs");
    assert!(layout.contains(&"sealed_columns"), "by a re-export");
    assert!(names("format/src/manifest.rs", segment).is_empty());
    let is_of_lib = |(from, _): &(String, String)| from == "format/src/lib.rs";
    assert!(!crates["format"].keys().any(is_of_lib));
    let is_of_tests = |(from, _): &(String, String)| from.ends_with("tests.rs");
    assert!(!crates["store"].keys().any(is_of_tests));
}

/// For a file and another one, the names of the second that the first uses.
type Edges = BTreeMap<(String, String), BTreeSet<&'static str>>;

/// The edges within each crate of the product.
fn crates() -> BTreeMap<String, Edges> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut crates = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).expect("the workspace has crates") {
        let name = entry.expect("the entry is readable").file_name();
        let name = name.into_string().expect("crates have ASCII names");
        let mut edges = Edges::new();
        for top in ["lib.rs", "main.rs"].map(|it| format!("{name}/src/{it}")) {
            if folder.join(&top).exists() {
                let mut modules = Modules(folder.clone(), Vec::new());
                modules.load(top, &format!("{name}/src"), None);
                modules.add_edges(&mut edges);
            }
        }
        crates.insert(name, edges);
    }
    crates
}

/// Sets of several files each of which reaches all others.
fn cycles_in(edges: &Edges) -> BTreeSet<Vec<&str>> {
    let mut reach: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in edges.keys() {
        reach.entry(from).or_default().insert(to);
    }
    for middle in reach.clone().into_keys() {
        let further = reach[middle].clone();
        for reached in reach.values_mut().filter(|it| it.contains(middle)) {
            reached.extend(&further);
        }
    }
    let mut cycles = BTreeSet::new();
    for (from, to) in &reach {
        let back = |to: &&str| reach.get(to).is_some_and(|it| it.contains(from));
        cycles.insert(to.iter().copied().filter(back).collect());
    }
    cycles.retain(|it: &Vec<&str>| !it.is_empty());
    cycles
}

/// The modules of a crate, whose file names are relative to a folder.
struct Modules(PathBuf, Vec<Module>);

#[derive(Default)]
struct Module {
    file: String,
    parent: Option<usize>,
    children: BTreeMap<&'static str, usize>,
    defined: BTreeSet<&'static str>,
    uses: Vec<Use>,
    /// Words, paths and signs besides those of `use`.
    rest: Vec<&'static str>,
}

/// What defines a name, besides macros and modules.
const ITEMS: [&str; 8] = [
    "fn", "struct", "enum", "trait", "type", "const", "static", "union",
];

/// A name in scope, `*` for all names of a module.
struct Use {
    path: Vec<&'static str>,
    name: &'static str,
    is_public: bool,
}

impl Modules {
    fn load(&mut self, file: String, folder: &str, parent: Option<usize>) -> usize {
        let text = std::fs::read_to_string(self.0.join(&file));
        let text = text.unwrap_or_else(|error| panic!("cannot read {file}: {error}"));
        self.parse(&without_tests(tokens(text.leak())), file, folder, parent)
    }

    fn parse(
        &mut self,
        tokens: &[&'static str],
        file: String,
        folder: &str,
        parent: Option<usize>,
    ) -> usize {
        let here = self.1.len();
        let mut module = Module::default();
        (module.file, module.parent) = (file, parent);
        self.1.push(Module::default());
        let (mut at, mut depth) = (0, 0);
        while at < tokens.len() {
            let next = |ahead: usize| tokens.get(at + ahead).copied().unwrap_or_default();
            depth += i32::from(next(0) == "{") - i32::from(next(0) == "}");
            match (next(0), next(2)) {
                ("use", _) if next(1) != "<" => {
                    let is_public = at > 0 && ["pub", ")"].contains(&tokens[at - 1]);
                    at = read_use(tokens, at + 1, &[], is_public, &mut module.uses);
                    continue;
                }
                ("mod", sign @ (";" | "{")) if depth == 0 => {
                    let (name, folder) = (next(1), format!("{folder}/{}", next(1)));
                    let end = item_end(tokens, at);
                    let child = if sign == "{" {
                        let body = &tokens[at + 3..end - 1];
                        self.parse(body, module.file.clone(), &folder, Some(here))
                    } else {
                        let files = [format!("{folder}.rs"), format!("{folder}/mod.rs")];
                        let file = files.into_iter().find(|it| self.0.join(it).exists());
                        self.load(file.expect("modules have files"), &folder, Some(here))
                    };
                    module.children.insert(name, child);
                    at = end;
                    continue;
                }
                ("macro_rules", name) if depth == 0 => module.defined.extend([name]),
                (item, _) if depth == 0 && ITEMS.contains(&item) => {
                    module.defined.extend([next(1)])
                }
                _ => {}
            }
            module.rest.push(next(0));
            at += 1;
        }
        // Of two names in scope that are the same, a glob gives way.
        module.uses.sort_by_key(|it| it.name == "*");
        self.1[here] = module;
        here
    }

    /// The module that a path leads to, or that defines the name it leads to. `most` bounds the re-exports on the way.
    fn find(&self, from: usize, path: &[&'static str], most: usize) -> Option<Found> {
        let mut here = from;
        for &word in path {
            let module = &self.1[here];
            let imported = |it: &Use| match it.name {
                "*" => self.find(here, &[&it.path, &[word][..]].concat(), most - 1),
                name if name == word && it.path != [word] => self.find(here, &it.path, most - 1),
                _ => None,
            };
            here = match word {
                "crate" => 0,
                "self" => here,
                "super" => module.parent?,
                _ if module.defined.contains(word) => return Some((here, Some(word))),
                _ if module.children.contains_key(word) => module.children[word],
                _ if most == 0 => return None,
                _ => match module.uses.iter().find_map(imported)? {
                    (module, None) => module,
                    defined => return Some(defined),
                },
            };
        }
        Some((here, None))
    }

    fn add_edges(&self, edges: &mut Edges) {
        for (here, module) in self.1.iter().enumerate() {
            let mut add = |path: &[&'static str]| {
                if let Some((of, Some(name))) = self.find(here, path, 8)
                    && self.1[of].file != module.file
                {
                    let edge = (module.file.clone(), self.1[of].file.clone());
                    edges.entry(edge).or_default().insert(name);
                }
            };
            let paths = module.rest.iter().map(|it| it.split("::"));
            let paths = paths.map(|it| it.filter(|it| !it.is_empty()).collect::<Vec<_>>());
            let words: BTreeSet<&str> = paths.clone().filter_map(|it| Some(*it.first()?)).collect();
            let has_globs = module.uses.iter().any(|it| it.name == "*");
            for (path, token) in paths.zip(&module.rest) {
                if has_globs || token.contains("::") && !token.starts_with("::") {
                    add(&path);
                }
            }
            for used in &module.uses {
                if !used.is_public || words.contains(used.name) {
                    add(&used.path);
                }
            }
        }
    }
}

/// A module, and a name that it defines unless the module itself was meant.
type Found = (usize, Option<&'static str>);

/// Reads a tree of `use` up to its end, which is returned.
fn read_use(
    tokens: &[&'static str],
    mut at: usize,
    before: &[&'static str],
    is_public: bool,
    uses: &mut Vec<Use>,
) -> usize {
    let mut path = before.to_vec();
    path.extend(tokens[at].split("::").filter(|it| is_word(it)));
    if tokens[at].ends_with("::") {
        at += 1;
    }
    if tokens[at] == "{" {
        while tokens[at] != "}" {
            at = read_use(tokens, at + 1, &path, is_public, uses);
        }
        return at + 1;
    }
    if path.last() == Some(&"self") && path.len() > 1 {
        path.pop();
    }
    if let Some(&last) = path.last().filter(|_| tokens[at] != "}") {
        let (name, end) = match (tokens[at], tokens[at + 1]) {
            ("*", _) => ("*", at + 1),
            (_, "as") => (tokens[at + 2], at + 3),
            _ => (last, at + 1),
        };
        let used = Use {
            path,
            name,
            is_public,
        };
        uses.push(used);
        return end;
    }
    at
}

/// The tokens without items under `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn without_tests(tokens: Vec<&'static str>) -> Vec<&'static str> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let rest = &tokens[at..];
        let is_test = matches!(
            rest,
            ["#", "[", "cfg", "(", "test", ")", "]", ..]
                | ["#", "[", "cfg", "(", "all", "(", "test", ",", ..]
        );
        if is_test {
            let length = rest.iter().position(|it| *it == "]").unwrap_or(0);
            at = item_end(&tokens, at + length + 1);
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    kept
}

/// Where the item ends that begins here.
fn item_end(tokens: &[&str], begin: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(begin) {
        depth += i32::from(["{", "(", "["].contains(token));
        depth -= i32::from(["}", ")", "]"].contains(token));
        if depth == 0 && *token == ";" {
            return at + 1;
        }
        if depth == 0 && *token == "}" {
            return at + 1 + usize::from(tokens.get(at + 1) == Some(&";"));
        }
    }
    tokens.len()
}

fn is_word(token: &str) -> bool {
    token.starts_with(|it: char| it.is_alphabetic() || it == '_')
}

/// The paths, words and signs of a file, without comments, literals in quotes and lifetimes.
fn tokens(mut text: &'static str) -> Vec<&'static str> {
    let mut tokens = Vec::new();
    while let Some(first) = text.chars().next() {
        let word = word_length(text);
        let (prefix, behind) = text.split_at(word);
        let hashes = behind.len() - behind.trim_start_matches('#').len();
        let is_literal = ["", "b", "c", "r", "br", "cr"].contains(&prefix);
        let length = if text.starts_with("//") {
            text.find('\n').unwrap_or(text.len())
        } else if is_literal && prefix.ends_with('r') && behind[hashes..].starts_with('"') {
            let (begin, end) = (word + hashes + 1, format!("\"{}", &behind[..hashes]));
            begin + text[begin..].find(&end).unwrap_or(0) + end.len()
        } else if is_literal && behind.starts_with('"') {
            word + quoted(behind)
        } else if is_literal && behind.starts_with('\'') {
            let mut inside = behind.chars().skip(1);
            let is_character = inside.next() == Some('\\') || inside.next() == Some('\'');
            let lifetime = 1 + word_length(&behind[1..]);
            word + if is_character {
                quoted(behind)
            } else {
                lifetime
            }
        } else {
            let mut length = if first == ':' {
                0
            } else {
                word.max(first.len_utf8())
            };
            while text[length..].starts_with("::") {
                length += 2 + word_length(&text[length + 2..]);
            }
            length = length.max(1);
            if !first.is_whitespace() {
                tokens.push(&text[..length]);
            }
            length
        };
        text = &text[length..];
    }
    tokens
}

fn word_length(text: &str) -> usize {
    let end = text.find(|it: char| !it.is_alphanumeric() && it != '_');
    end.unwrap_or(text.len())
}

/// The length of a literal, which ends with the sign that it begins with.
fn quoted(text: &str) -> usize {
    let quote = text.chars().next();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        if character == '\\' {
            characters.next();
        } else if Some(character) == quote {
            return at + 1;
        }
    }
    text.len()
}
