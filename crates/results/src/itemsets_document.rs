//! Document format of frequent itemsets, with item names instead of numbers.
//!
//! Itemsets are listed by length, then lexicographically. Documents are untrusted input: reading one checks
//! everything that later computations assume.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::release::Release;
use oboro_input::readers::HowRead;
use oboro_input::text::{Names, escaped};
use oboro_input::transactions::compare_names;
use oboro_mining::condensed::Kept;
use oboro_mining::frequent::FrequentItemsets;
use oboro_mining::itemset::{FrequentItemset, Itemset, UnnamedItem, name_items};
use oboro_mining::rules::MAX_TRANSACTIONS;

/// Frequent itemsets by name, as written to and read from JSON:
///
/// ```json
/// {
///   "transactions": 8124,
///   "min_support": 2438,
///   "max_len": null,
///   "itemsets": [
///     {"items": ["81"], "support": 8124},
///     {"items": ["34", "81"], "support": 7914}
///   ]
/// }
/// ```
///
/// `min_support` is a number of transactions. `max_len` is the length limit of the search if it may have cut off
/// longer frequent itemsets, or null. Order: itemsets by length, then name by name. Each itemset's names and the
/// comparison are in [name order](compare_names). These fields depend on the data alone, not on how items were
/// numbered. Readers accept any order and ignore unknown fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemsetsDocument {
    /// The number of transactions mined.
    pub transactions: u64,
    /// The minimum support, as a number of transactions.
    pub min_support: u64,
    /// The length limit of the search, if it may have cut off longer frequent itemsets; `None` if
    /// no longer one is frequent. The field is required.
    #[serde(deserialize_with = "Option::deserialize")]
    pub max_len: Option<usize>,
    /// `true` if the itemsets come from unverified answers of a server. Written only if true.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
    /// The subset of the frequent itemsets that is listed. Written only if not all.
    #[serde(default, skip_serializing_if = "Kept::is_all")]
    pub kept: Kept,
    /// The names of items to which the search was restricted: all listed itemsets contain them. Written only if not
    /// empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containing: Vec<String>,
    /// The changes to the supports for release. Written only if present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<Release>,
    /// The provenance of the data. Written only if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The itemsets.
    pub itemsets: Vec<NamedItemset>,
}

/// Dataset of a result, and how the result was obtained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The name of the dataset at the server.
    pub name: String,
    /// The dataset, equal in all versions.
    pub dataset: String,
    /// The version.
    pub version: u64,
    /// The time in UTC at which that version was uploaded, if the dataset's directory has it.
    #[serde(default)]
    pub uploaded: Option<String>,
    /// `true` if kept cells alone answered, without a server: the version may not be the one that it publishes.
    #[serde(default)]
    pub offline: bool,
    /// The root of its manifest, in hexadecimal, which identifies every byte of its ciphertext.
    pub manifest: String,
    /// The kind of answers: `verified`, `unverified` or `local`.
    pub answers: String,
    /// The routes of supports, each once. Absent in releases, since it depends on all supports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<Vec<String>>,
    /// The interpretation of the first file. Absent in releases, since it has supports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<HowRead>,
}

impl Source {
    /// Removes fields that depend on supports, for release.
    #[must_use]
    pub fn for_release(self) -> Self {
        Self {
            routes: None,
            read: None,
            ..self
        }
    }
}

/// Itemset of an [`ItemsetsDocument`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedItemset {
    /// The names of the items.
    pub items: Vec<String>,
    /// The number of transactions that contain all of them.
    pub support: u64,
}

impl ItemsetsDocument {
    /// Converts itemsets to a document with names instead of numbers; `names[i]` is item `i`.
    ///
    /// # Errors
    /// An item without a name, or a name of two items.
    pub fn new(found: &FrequentItemsets, names: &[String]) -> Result<Self, ItemsetsError> {
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by(|&a, &b| compare_names(&names[a], &names[b]));
        if order
            .windows(2)
            .any(|pair| names[pair[0]] == names[pair[1]])
        {
            return Err(ItemsetsError::SharedName);
        }
        // Ranks compare as names do, and faster.
        let mut ranks = vec![0; names.len()];
        for (rank, &item) in order.iter().enumerate() {
            ranks[item] = rank;
        }
        let mut ranked = Vec::with_capacity(found.len());
        for frequent in found.iter() {
            let items = frequent.itemset.items().iter().map(|&item| {
                let items = names.len();
                let rank = ranks.get(item as usize).copied();
                rank.ok_or(UnnamedItem { item, items })
            });
            let mut items = items.collect::<Result<Vec<usize>, _>>()?;
            items.sort_unstable();
            ranked.push((items, frequent.support));
        }
        ranked.sort_unstable_by(|(a, _), (b, _)| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
        let name = |rank: usize| names[order[rank]].clone();
        let itemsets = ranked.into_iter().map(|(items, support)| NamedItemset {
            items: items.into_iter().map(name).collect(),
            support,
        });
        Ok(Self {
            transactions: found.transactions(),
            min_support: found.min_support_count(),
            max_len: found.max_len(),
            unverified: false,
            kept: Kept::All,
            containing: Vec::new(),
            release: None,
            source: None,
            itemsets: itemsets.collect(),
        })
    }

    /// Reads a document from JSON, without the checks of [`into_itemsets`](Self::into_itemsets).
    ///
    /// # Errors
    /// Text that is not such a document.
    pub fn from_json(json: &[u8]) -> Result<Self, ItemsetsError> {
        serde_json::from_slice(json).map_err(ItemsetsError::Json)
    }

    /// Returns true if all frequent itemsets are listed, up to the length limit.
    pub fn is_whole(&self) -> bool {
        self.kept.is_all() && self.containing.is_empty()
    }

    /// Converts a support to a fraction of all transactions.
    pub fn fraction(&self, support: u64) -> f64 {
        support as f64 / self.transactions as f64
    }

    /// Returns everything but the itemsets, as written at the head of a file.
    pub fn head(&self) -> serde_json::Value {
        let head = Self {
            itemsets: Vec::new(),
            containing: self.containing.clone(),
            release: self.release.clone(),
            source: self.source.clone(),
            ..*self
        };
        let mut fields = serde_json::to_value(&head).unwrap_or_default();
        if let Some(fields) = fields.as_object_mut() {
            fields.remove("itemsets");
        }
        fields
    }

    /// Serializes as indented JSON with a newline at the end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self)
            .expect("numbers, strings and lists of them always have a JSON form");
        text.push('\n');
        text
    }

    /// Checks the document and converts it into itemsets over the names returned, which are in [name
    /// order](compare_names).
    ///
    /// Checks: no itemset is empty, names an item twice or is listed twice. Each support is at least the minimum
    /// support (and 1), at most the number of transactions, and at most that of each listed subset. Missing subsets
    /// are an error only when rules are made.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn into_itemsets(self) -> Result<(Vec<String>, FrequentItemsets), ItemsetsError> {
        if self.transactions > MAX_TRANSACTIONS {
            let transactions = self.transactions;
            return Err(ItemsetsError::TooManyTransactions { transactions });
        }
        let mut names: Vec<String> = (self.itemsets.iter())
            .flat_map(|named| named.items.iter().cloned())
            .collect();
        names.sort_by(|a, b| compare_names(a, b));
        names.dedup();
        let numbers: HashMap<&str, u32> = (names.iter().zip(0u32..))
            .map(|(name, number)| (name.as_str(), number))
            .collect();

        let mut supports: HashMap<Itemset, u64> = HashMap::with_capacity(self.itemsets.len());
        for NamedItemset { items, support } in &self.itemsets {
            if items.is_empty() {
                return Err(ItemsetsError::EmptyItemset);
            }
            let itemset: Itemset = items.iter().map(|name| numbers[name.as_str()]).collect();
            if itemset.len() != items.len() {
                let items = items.clone();
                return Err(ItemsetsError::RepeatedItem { items });
            }
            let least = self.min_support.max(1);
            if *support < least || *support > self.transactions {
                return Err(ItemsetsError::SupportOutOfRange {
                    items: items.clone(),
                    support: *support,
                    least,
                    transactions: self.transactions,
                });
            }
            if supports.insert(itemset, *support).is_some() {
                let items = items.clone();
                return Err(ItemsetsError::RepeatedItemset { items });
            }
        }
        for (itemset, &support) in &supports {
            for subset in itemset.immediate_subsets() {
                if let Some(&subset_support) = supports.get(&subset)
                    && support > subset_support
                {
                    return Err(ItemsetsError::SupportAboveSubset {
                        items: name_items(itemset, &names)?,
                        support,
                        subset: name_items(&subset, &names)?,
                        subset_support,
                    });
                }
            }
        }
        let found = supports
            .into_iter()
            .map(|(itemset, support)| FrequentItemset { itemset, support });
        let is_whole = self.is_whole();
        let longest = self.max_len.unwrap_or(usize::MAX);
        let itemsets =
            FrequentItemsets::collect(self.transactions, self.min_support, longest, found);
        let found = itemsets.levels().len();
        match self.max_len {
            Some(max_len) if (is_whole && itemsets.max_len().is_none()) || found > max_len => {
                Err(ItemsetsError::MaxLen { max_len, found })
            }
            max_len => Ok((names, itemsets.with_max_len(max_len))),
        }
    }
}

const MINE_AGAIN: &str = "the file is altered or was written by another program; mine again";

/// Error in frequent itemsets or a document of them.
#[derive(Debug, thiserror::Error)]
pub enum ItemsetsError {
    /// The text is not JSON or lacks a field.
    #[error(
        "this is not a document of frequent itemsets ({}); give a JSON file as the mining command writes it",
        escaped(&.0.to_string())
    )]
    Json(#[source] serde_json::Error),
    /// More transactions than can be counted exactly.
    #[error("the document claims {transactions} transactions, more than 2^53; {MINE_AGAIN}")]
    TooManyTransactions {
        /// The number claimed.
        transactions: u64,
    },
    /// An itemset without items.
    #[error("the document has an itemset without items; {MINE_AGAIN}")]
    EmptyItemset,
    /// An itemset that names an item twice.
    #[error("the itemset {} names an item twice; {MINE_AGAIN}", Names(items))]
    RepeatedItem {
        /// The names.
        items: Vec<String>,
    },
    /// An itemset listed twice.
    #[error("the itemset {} is listed twice; {MINE_AGAIN}", Names(items))]
    RepeatedItemset {
        /// The names.
        items: Vec<String>,
    },
    /// An impossible support.
    #[error(
        "the itemset {} has support {support}, which is not between {least} and the number of transactions, {transactions}; {MINE_AGAIN}",
        Names(items)
    )]
    SupportOutOfRange {
        /// The names.
        items: Vec<String>,
        /// The support claimed.
        support: u64,
        /// The least support possible.
        least: u64,
        /// The number of transactions.
        transactions: u64,
    },
    /// A support above that of a subset.
    #[error(
        "the itemset {} has support {support}, more than its subset {} with {subset_support}; {MINE_AGAIN}",
        Names(items),
        Names(subset)
    )]
    SupportAboveSubset {
        /// The names.
        items: Vec<String>,
        /// The support claimed.
        support: u64,
        /// The names of the subset.
        subset: Vec<String>,
        /// The subset's support.
        subset_support: u64,
    },
    /// An impossible length limit.
    #[error(
        "the document says that the search ended at itemsets of {max_len} items, but its itemsets, of up to {found}, are not those of such a search; {MINE_AGAIN}"
    )]
    MaxLen {
        /// The length claimed.
        max_len: usize,
        /// The length of the longest itemsets.
        found: usize,
    },
    /// An item number beyond the names.
    #[error(transparent)]
    UnnamedItem(#[from] UnnamedItem),
    /// Two items with the same name.
    #[error("two items share a name; use the names of the dataset that was mined")]
    SharedName,
}

#[cfg(test)]
mod tests {
    use super::*;
    use oboro_mining::testing::found;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn read(json: &str) -> Result<(Vec<String>, FrequentItemsets), ItemsetsError> {
        ItemsetsDocument::from_json(json.as_bytes())?.into_itemsets()
    }

    #[test]
    fn the_document_does_not_depend_on_the_numbering() {
        let one = found(&[(&[0], 5), (&[1], 4), (&[0, 1], 3)]);
        let other = found(&[(&[1], 5), (&[0], 4), (&[0, 1], 3)]);
        let document = ItemsetsDocument::new(&one, &names(&["milk", "7"])).unwrap();
        assert_eq!(
            document,
            ItemsetsDocument::new(&other, &names(&["7", "milk"])).unwrap()
        );
        let compact = serde_json::to_string(&document).unwrap();
        assert_eq!(
            compact,
            r#"{"transactions":10,"min_support":2,"max_len":null,"itemsets":[{"items":["7"],"support":4},{"items":["milk"],"support":5},{"items":["7","milk"],"support":3}]}"#
        );
        let (read_names, read_itemsets) = read(&document.to_json()).unwrap();
        assert_eq!(read_names, ["7", "milk"]);
        assert_eq!(read_itemsets, other);
    }

    #[test]
    fn where_the_search_ended_is_kept_if_longer_itemsets_may_be_frequent() {
        let searched = |longest, sets: &[&[u32]]| {
            let found = sets.iter().map(|&items| FrequentItemset {
                itemset: Itemset::new(items),
                support: 3,
            });
            FrequentItemsets::collect(10, 2, longest, found)
        };
        let pairs: [&[u32]; 6] = [&[0], &[1], &[2], &[0, 1], &[0, 2], &[1, 2]];
        assert_eq!(searched(1, &pairs[..2]).max_len(), Some(1));
        assert_eq!(searched(1, &pairs[..1]).max_len(), None);
        assert_eq!(searched(2, &pairs).max_len(), Some(2));
        assert_eq!(searched(2, &pairs[..5]).max_len(), None);
        assert_eq!(searched(3, &pairs).max_len(), None);

        let names = names(&["a", "b", "c"]);
        let document = ItemsetsDocument::new(&searched(2, &pairs), &names).unwrap();
        let (_, again) = read(&document.to_json()).unwrap();
        assert_eq!(again, searched(2, &pairs));
        for max_len in [0, 1, 3] {
            let claimed = ItemsetsDocument {
                max_len: Some(max_len),
                ..document.clone()
            };
            assert!(matches!(
                claimed.into_itemsets(),
                Err(ItemsetsError::MaxLen { found: 2, .. })
            ));
        }
    }

    #[test]
    fn names_must_be_there_and_distinct() {
        let itemsets = found(&[(&[1], 5)]);
        assert!(matches!(
            ItemsetsDocument::new(&itemsets, &names(&["a"])),
            Err(ItemsetsError::UnnamedItem(UnnamedItem {
                item: 1,
                items: 1
            }))
        ));
        assert!(matches!(
            ItemsetsDocument::new(&itemsets, &names(&["a", "a"])),
            Err(ItemsetsError::SharedName)
        ));
    }

    #[test]
    fn impossible_documents_are_refused() {
        let document = |itemsets: &str| {
            read(&format!(
                r#"{{"transactions":9,"min_support":2,"max_len":null,"itemsets":[{itemsets}]}}"#
            ))
        };
        assert!(document("").unwrap().1.is_empty());
        assert!(matches!(
            document(r#"{"items":[],"support":3}"#),
            Err(ItemsetsError::EmptyItemset)
        ));
        assert!(matches!(
            document(r#"{"items":["a","a"],"support":3}"#),
            Err(ItemsetsError::RepeatedItem { .. })
        ));
        assert!(matches!(
            document(r#"{"items":["a","b"],"support":3},{"items":["b","a"],"support":3}"#),
            Err(ItemsetsError::RepeatedItemset { .. })
        ));
        for support in [0, 1, 10] {
            assert!(matches!(
                document(&format!(r#"{{"items":["a"],"support":{support}}}"#)),
                Err(ItemsetsError::SupportOutOfRange { .. })
            ));
        }
        let error = document(r#"{"items":["a"],"support":3},{"items":["a","b"],"support":4}"#);
        let text = error.unwrap_err().to_string();
        assert!(
            text.contains("itemset {a, b} has") && text.contains("{a} with 3"),
            "{text}"
        );
        for json in [
            "",
            "[]",
            "{}",
            r#"{"transactions":-1,"min_support":1,"max_len":null,"itemsets":[]}"#,
            r#"{"transactions":9,"min_support":1,"itemsets":[]}"#,
        ] {
            assert!(matches!(read(json), Err(ItemsetsError::Json(_))), "{json}");
        }
        let huge =
            r#"{"transactions":18446744073709551615,"min_support":1,"max_len":null,"itemsets":[]}"#;
        assert!(matches!(
            read(huge),
            Err(ItemsetsError::TooManyTransactions { .. })
        ));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_reading_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..64)) {
            let _ = ItemsetsDocument::from_json(&bytes).map(ItemsetsDocument::into_itemsets);
        }
    }
}
