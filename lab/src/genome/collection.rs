//! The searched data: a user's file, or synthetic data of the same shape.

use crate::output::Failure;
use oboro_genome_server::{
    Collections, Duplicates, Existing, PanelOptions, SyntheticPanel, generate_panel, import_panel,
    import_reference,
};
use rand::rngs::ChaCha20Rng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use std::fs;
use std::path::Path;

/// The source of a collection's data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    File,
    Generated,
}

/// Loads a panel from a file, or generates one of this shape.
pub fn load_panel(
    collections: &Collections,
    name: &str,
    file: Option<&Path>,
    shape: &SyntheticPanel,
) -> Result<Source, Failure> {
    match file {
        Some(file) => {
            let options = PanelOptions {
                region: None,
                duplicates: Duplicates::Refuse,
                existing: Existing::Keep,
            };
            import_panel(collections, name, file, &options)?;
            Ok(Source::File)
        }
        None => {
            generate_panel(collections, name, shape, Existing::Keep)?;
            Ok(Source::Generated)
        }
    }
}

/// Loads a reference from a file, or generates one of `bases` bases, through a file in `scratch`.
pub fn load_reference(
    collections: &Collections,
    name: &str,
    file: Option<&Path>,
    bases: usize,
    scratch: &Path,
) -> Result<Source, Failure> {
    match file {
        Some(file) => {
            import_reference(collections, name, file, Existing::Keep)?;
            Ok(Source::File)
        }
        None => {
            let made = scratch.join(format!("{name}.fa"));
            fs::write(&made, random_fasta(name, bases)).map_err(|error| {
                format!(
                    "cannot write a reference: {error}; check the space in the temporary directory"
                )
            })?;
            import_reference(collections, name, &made, Existing::Keep)?;
            Ok(Source::Generated)
        }
    }
}

/// A random sequence of uniform bases, the same for the same length.
fn random_fasta(name: &str, bases: usize) -> String {
    let mut random = ChaCha20Rng::seed_from_u64(bases as u64);
    let sequence = (0..bases).map(|_| char::from(b"ACGT"[random.random_range(0..4usize)]));
    format!(">{name}\n{}\n", sequence.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_data_have_the_shape_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let collections = Collections::open(&directory.path().join("data"));
        let source = load_reference(&collections, "r", None, 500, directory.path());
        assert_eq!(source.unwrap(), Source::Generated);
        let reference = collections.reference("r").unwrap();
        assert_eq!(reference.bases().len(), 500);
        for base in 0..4 {
            let times = reference.bases().iter().filter(|&&it| it == base).count();
            assert!((80..170).contains(&times), "base {base} {times} times");
        }
    }
}
