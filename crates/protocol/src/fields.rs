//! Fields with structured bytes, validated on arrival from either side.

use crate::v1;
use oboro_format::{
    Damage, DatasetId, DatasetInfo, Digest, MAX_CALLER_CHARS, MAX_NAME_CHARS, Scrubbed,
};
use oboro_ring::{Column, Limb, ParameterError, Parameters};
use thiserror::Error;

/// Error: a field violates the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("malformed message: {field} {problem}; the other side may run another version of Oboro")]
pub struct FieldError {
    pub(crate) field: &'static str,
    pub(crate) problem: &'static str,
}

/// Parses a dataset id.
///
/// # Errors
/// The length is not 16 bytes.
pub fn dataset_id(bytes: &[u8]) -> Result<DatasetId, FieldError> {
    let problem = FieldError {
        field: "dataset",
        problem: "is not 16 bytes",
    };
    bytes.try_into().map(DatasetId).map_err(|_| problem)
}

/// Parses a root hash.
///
/// # Errors
/// The length is not 32 bytes.
pub fn digest(bytes: &[u8]) -> Result<Digest, FieldError> {
    let problem = FieldError {
        field: "root",
        problem: "is not 32 bytes",
    };
    bytes.try_into().map(Digest).map_err(|_| problem)
}

impl From<DatasetInfo> for v1::DatasetInfo {
    fn from(info: DatasetInfo) -> Self {
        Self {
            name: info.name,
            dataset: info.dataset.0.to_vec().into(),
            version: info.version,
            root: info.root.0.to_vec().into(),
            columns: info.columns,
            blocks: info.blocks,
            log_degree: info.parameters.log_degree(),
            limbs: info.parameters.limb_count() as u32,
            plaintext_modulus: info.parameters.plaintext_modulus(),
            max_len: info.max_len.into(),
            stored_bytes: info.stored_bytes,
            key_check: info.key_check.to_vec().into(),
        }
    }
}

impl TryFrom<v1::DatasetInfo> for DatasetInfo {
    type Error = FieldError;

    fn try_from(info: v1::DatasetInfo) -> Result<Self, FieldError> {
        let bad = |field, problem| FieldError { field, problem };
        let unknown_ring =
            |_: ParameterError| bad("parameters", "name a ring that this version does not know");
        // OWNER/NAME.
        if info.name.len() > MAX_CALLER_CHARS + 1 + MAX_NAME_CHARS {
            return Err(bad("name", "is longer than any name"));
        }
        if info.name.chars().any(char::is_control) {
            return Err(bad("name", "has characters that no name has"));
        }
        Ok(Self {
            dataset: dataset_id(&info.dataset)?,
            root: digest(&info.root)?,
            parameters: Parameters::new(
                info.log_degree,
                info.limbs as usize,
                info.plaintext_modulus,
            )
            .map_err(unknown_ring)?,
            key_check: info.key_check[..]
                .try_into()
                .map_err(|_| bad("key_check", "is not 16 bytes"))?,
            max_len: info
                .max_len
                .try_into()
                .map_err(|_| bad("max_len", "is too large"))?,
            name: info.name,
            version: info.version,
            columns: info.columns,
            blocks: info.blocks,
            stored_bytes: info.stored_bytes,
        })
    }
}

impl From<Damage> for v1::Damage {
    /// Drops local paths.
    fn from(damage: Damage) -> Self {
        Self {
            name: damage.name,
            dataset: damage.dataset.map(|id| id.0.to_vec().into()),
            segment: damage.segment,
            panel: damage.panel.map(|(limb, column)| v1::PanelPlace {
                limb: limb.0 as u32,
                column: column.0,
            }),
            problem: damage.problem,
        }
    }
}

impl TryFrom<v1::Damage> for Damage {
    type Error = FieldError;

    fn try_from(damage: v1::Damage) -> Result<Self, FieldError> {
        let words = [damage.name.as_deref(), Some(&*damage.problem)];
        if words
            .into_iter()
            .flatten()
            .any(|it| it.contains(char::is_control))
        {
            return Err(FieldError {
                field: "damage",
                problem: "has characters that no sentence has",
            });
        }
        Ok(Self {
            name: damage.name,
            dataset: damage.dataset.as_deref().map(dataset_id).transpose()?,
            segment: damage.segment,
            panel: damage
                .panel
                .map(|place| (Limb(place.limb as usize), Column(place.column))),
            path: None,
            problem: damage.problem,
        })
    }
}

impl From<Scrubbed> for v1::Scrubbed {
    fn from(scrubbed: Scrubbed) -> Self {
        Self {
            datasets: scrubbed.datasets,
            segments: scrubbed.segments,
            collections: scrubbed.collections,
            parts: scrubbed.parts,
            bytes: scrubbed.bytes,
            damaged: scrubbed.damaged,
        }
    }
}

impl From<v1::Scrubbed> for Scrubbed {
    fn from(scrubbed: v1::Scrubbed) -> Self {
        Self {
            datasets: scrubbed.datasets,
            segments: scrubbed.segments,
            collections: scrubbed.collections,
            parts: scrubbed.parts,
            bytes: scrubbed.bytes,
            damaged: scrubbed.damaged,
        }
    }
}

/// Converts numbers to columns.
pub fn columns(numbers: Vec<u32>) -> Vec<Column> {
    numbers.into_iter().map(Column).collect()
}

/// Converts columns to numbers.
pub fn column_numbers(columns: &[Column]) -> Vec<u32> {
    columns.iter().map(|column| column.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_survive_the_way_and_malformed_ones_do_not() {
        let info = DatasetInfo {
            name: "n".to_owned(),
            dataset: DatasetId([1; 16]),
            version: 2,
            root: Digest([3; 32]),
            columns: 4,
            blocks: 5,
            parameters: Parameters::new(12, 2, 65537).unwrap(),
            stored_bytes: 6,
            key_check: [7; 16],
            max_len: 2,
        };
        let message = v1::DatasetInfo::from(info.clone());
        assert_eq!(DatasetInfo::try_from(message.clone()), Ok(info));
        for bad in [
            v1::DatasetInfo {
                dataset: vec![0; 15].into(),
                ..message.clone()
            },
            v1::DatasetInfo {
                root: vec![0; 33].into(),
                ..message.clone()
            },
            v1::DatasetInfo {
                key_check: vec![].into(),
                ..message.clone()
            },
            v1::DatasetInfo {
                log_degree: 99,
                ..message.clone()
            },
            v1::DatasetInfo {
                limbs: u32::MAX,
                ..message.clone()
            },
            v1::DatasetInfo {
                plaintext_modulus: 4,
                ..message.clone()
            },
            v1::DatasetInfo {
                name: "\u{1b}[2J".to_owned(),
                ..message.clone()
            },
            v1::DatasetInfo {
                max_len: 256,
                ..message.clone()
            },
            v1::DatasetInfo {
                name: "n".repeat(70_000),
                ..message.clone()
            },
        ] {
            assert!(DatasetInfo::try_from(bad).is_err());
        }
    }
    #[test]
    fn damage_survives_the_way_without_its_path() {
        let damage = Damage {
            name: Some("n".to_owned()),
            dataset: Some(DatasetId([1; 16])),
            segment: Some(2),
            panel: Some((Limb(3), Column(4))),
            path: Some("store/segments".into()),
            problem: "a panel is gone".to_owned(),
        };
        let message = v1::Damage::from(damage.clone());
        assert_eq!(
            Damage::try_from(message.clone()),
            Ok(Damage {
                path: None,
                ..damage
            })
        );
        for bad in [
            v1::Damage {
                dataset: Some(vec![0; 15].into()),
                ..message.clone()
            },
            v1::Damage {
                problem: "\u{1b}[2J".to_owned(),
                ..message
            },
        ] {
            assert!(Damage::try_from(bad).is_err());
        }
    }
}
