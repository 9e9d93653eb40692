//! For tests: properties of the decoders that must hold for any bytes.
//!
//! One function per decoder. It panics if a property is violated; `Some` means that the bytes were
//! accepted, `None` that they were refused. The programs in `fuzz/` call these functions with bytes
//! from libFuzzer, the test here with those in `fuzz/corpus`.
//!
//! If a digest, a seal or a file's length would reject nearly all inputs, the function computes a
//! valid one, so that the code behind it is reached.

mod files;
mod genomes;
mod search;
mod text;
mod wire;

pub use files::{
    bundle, catalogue, kept_cells, key_file, manifest, owner_record, range, recovery, segment,
};
pub use genomes::{collection, genomes};
pub use search::{search, search_answer, search_query};
pub use text::{itemsets, tokens, transactions, words};
pub use wire::{answer, messages, packing, question};

/// A function to fuzz.
pub type Target = fn(&[u8]) -> Option<()>;

/// Every function by the name of its program and corpus.
pub const TARGETS: [(&str, Target); 22] = [
    ("answer", answer),
    ("bundle", bundle),
    ("catalogue", catalogue),
    ("collection", collection),
    ("genomes", genomes),
    ("itemsets", itemsets),
    ("kept_cells", kept_cells),
    ("key_file", key_file),
    ("manifest", manifest),
    ("messages", messages),
    ("owner_record", owner_record),
    ("packing", packing),
    ("question", question),
    ("range", range),
    ("recovery", recovery),
    ("search", search),
    ("search_answer", search_answer),
    ("search_query", search_query),
    ("segment", segment),
    ("tokens", tokens),
    ("transactions", transactions),
    ("words", words),
];

/// The decoded value, or nothing if it was refused; checks that the error message is not empty and
/// has no control characters.
fn decoded<T, E: std::fmt::Display>(result: Result<T, E>) -> Option<T> {
    result
        .inspect_err(|error| {
            let text = error.to_string();
            assert!(
                !text.is_empty() && !text.contains(char::is_control),
                "{text:?}"
            );
        })
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// The files in a folder below `fuzz/`, sorted.
    fn files(folder: &str) -> Vec<PathBuf> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../../fuzz")
            .join(folder);
        let entries = fs::read_dir(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    #[test]
    fn every_file_of_the_corpus_is_accepted_or_refused() {
        for (name, target) in TARGETS {
            let accepted = files(&format!("corpus/{name}"))
                .into_iter()
                .filter(|path| {
                    // The last line of a failed test's output names the file.
                    println!("{}", path.display());
                    target(&fs::read(path).unwrap()).is_some()
                })
                .count();
            assert!(accepted > 0, "no file of {name} reaches what lies behind");
        }
    }

    #[test]
    fn every_target_has_its_program_and_its_corpus() {
        let names = |folder| -> Vec<String> {
            let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
            files(folder).into_iter().map(stem).collect()
        };
        let targets = TARGETS.map(|(name, _)| name);
        assert_eq!(names("corpus"), targets);
        assert_eq!(names("fuzz_targets"), targets);
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap();
        for name in targets {
            let path = format!("path = \"fuzz_targets/{name}.rs\"");
            assert!(manifest.contains(&path), "fuzz/Cargo.toml lacks {name}");
            let program = files("fuzz_targets")
                .into_iter()
                .find(|path| path.file_stem().unwrap() == name)
                .map(|path| fs::read_to_string(path).unwrap());
            let call = format!("oboro_fuzz::{name}(");
            assert!(program.unwrap().contains(&call), "{name}");
        }
    }
}
