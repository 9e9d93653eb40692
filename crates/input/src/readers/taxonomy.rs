//! Taxonomy of items, such as chapters of codes. Each line of its file has an item, its parent, the parent of that,
//! and so on. A transaction with an item also gets all ancestors of the item.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::compression;
use super::detect::separator_of_file;
use super::error::{Excerpt, Position, ReadError};
use super::lines::Lines;
use super::names::normal;
use super::record::Records;
use super::values::{Encoding, Unicode};
use crate::text::{described, invisible_in};
use crate::transactions::{Transactions, TransactionsBuilder, TransactionsError};
use oboro_format::Digest;

/// The largest number of ancestors of an item: more are a mistake in the file.
const MOST_ANCESTORS: usize = 1000;

/// Taxonomy: the parents of each name.
pub(super) struct Taxonomy {
    file: String,
    parents: BTreeMap<String, BTreeSet<String>>,
}

/// Taxonomy as applied to data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedTaxonomy {
    /// The digest of all pairs of name and parent, independent of the order of lines.
    pub digest: String,
    /// The number of items of the data with ancestors.
    pub items: usize,
    /// The number of items added: the ancestors of those.
    pub added: usize,
}

impl Taxonomy {
    pub(super) fn read(path: &Path, form: Unicode) -> Result<Self, ReadError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| ReadError::Io {
            file: name.clone(),
            error,
        })?;
        Self::of(file, &name, form)
    }

    /// Reads a file, named `file` in messages, and converts its names to a Unicode form.
    pub(super) fn of(
        input: impl std::io::Read,
        file: &str,
        form: Unicode,
    ) -> Result<Self, ReadError> {
        let mut lines = Lines::new(compression::open(input, file)?, file);
        let separator = separator_of_file(&mut lines).map_err(in_taxonomy)?;
        let mut records = Records::new(&mut lines, separator, Encoding::Utf8);
        let file = file.to_owned();
        let mut parents: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        while let Some(line) = records.next().map_err(in_taxonomy)? {
            let names: Vec<&str> = records.cells.iter().filter(|it| !it.is_empty()).collect();
            let names: Vec<_> = names.iter().map(|it| normal(it, form)).collect();
            for name in &names {
                let Some(character) = invisible_in(name).filter(|_| form != Unicode::AsIs) else {
                    continue;
                };
                return Err(ReadError::Invisible {
                    file,
                    line,
                    name: Excerpt::new(name.as_bytes()),
                    character: described(character),
                });
            }
            if !names.is_empty() && records.cells.cell(0).is_empty() {
                return Err(ReadError::TaxonomyLine { file, line });
            }
            for pair in names.windows(2).filter(|pair| pair[0] != pair[1]) {
                let of_item = parents.entry(pair[0].to_string()).or_default();
                of_item.insert(pair[1].to_string());
            }
        }
        if parents.is_empty() {
            return Err(ReadError::EmptyTaxonomy { file });
        }
        let taxonomy = Self { file, parents };
        taxonomy.check_cycles()?;
        Ok(taxonomy)
    }

    /// Rejects names that are their own ancestors.
    fn check_cycles(&self) -> Result<(), ReadError> {
        // Removes roots until nothing is left or only cycles and their descendants.
        let mut open: HashMap<&str, usize> = HashMap::new();
        let mut children: HashMap<&str, Vec<&str>> = HashMap::new();
        for (name, parents) in &self.parents {
            open.insert(name, parents.len());
            for parent in parents {
                children.entry(parent).or_default().push(name);
            }
        }
        let is_root = |name: &&&str| !self.parents.contains_key(**name);
        let mut ready: Vec<&str> = children.keys().filter(is_root).copied().collect();
        while let Some(name) = ready.pop() {
            for &child in children.get(name).into_iter().flatten() {
                let left = open.get_mut(child).expect("a child has parents");
                *left -= 1;
                if *left == 0 {
                    ready.push(child);
                }
            }
        }
        let in_cycle = |name: &&str| open.get(name).is_some_and(|&left| left > 0);
        let Some(mut name) = open.keys().copied().filter(in_cycle).min() else {
            return Ok(());
        };
        let mut way = vec![name];
        loop {
            let above = self.parents[name].iter().map(String::as_str);
            name = above.filter(in_cycle).min().expect("the way goes on");
            if let Some(start) = way.iter().position(|it| *it == name) {
                way.drain(..start);
                way.push(name);
                let (first, rest) = way.split_at(way.len().min(4));
                let way =
                    first.join(", which belongs to ") + if rest.is_empty() { "" } else { ", …" };
                return Err(ReadError::Cycle {
                    file: self.file.clone(),
                    way: Excerpt::new(way),
                });
            }
            way.push(name);
        }
    }

    /// Returns all ancestors of an item.
    fn ancestors(&self, item: &str) -> Result<BTreeSet<&str>, ReadError> {
        let mut found = BTreeSet::new();
        let mut open = vec![item];
        while let Some(name) = open.pop() {
            for parent in self.parents.get(name).into_iter().flatten() {
                if found.insert(parent.as_str()) {
                    open.push(parent);
                }
            }
            if found.len() > MOST_ANCESTORS {
                return Err(ReadError::TooManyAncestors {
                    file: self.file.clone(),
                    item: Excerpt::new(item),
                    limit: MOST_ANCESTORS,
                });
            }
        }
        Ok(found)
    }

    fn digest(&self) -> String {
        let edges: Vec<(&String, &BTreeSet<String>)> = self.parents.iter().collect();
        let json = serde_json::to_vec(&edges).expect("names always have a JSON form");
        Digest::of(&json).to_string()
    }

    /// Adds the ancestors of its items to each transaction. Items keep their order, and added ones follow. Only the
    /// items of further files may all lack ancestors.
    pub(super) fn apply(
        &self,
        data: Transactions,
        is_further: bool,
    ) -> Result<(Transactions, AppliedTaxonomy), ReadError> {
        let too_many = |error: TransactionsError| ReadError::Items {
            file: self.file.clone(),
            line: Position::Schema,
            error,
        };
        let names = data.names().to_vec();
        let builder = TransactionsBuilder::with_lists_of(data.memory_of_items());
        let mut builder = builder.with_items(names).map_err(too_many)?;
        let mut above: Vec<Vec<u32>> = Vec::with_capacity(data.item_count());
        for name in data.names() {
            let ancestors = self.ancestors(name)?;
            let numbers = ancestors.iter().map(|it| builder.item(it));
            above.push(numbers.collect::<Result<_, _>>().map_err(too_many)?);
        }
        let items = above.iter().filter(|it| !it.is_empty()).count();
        if items == 0 && !is_further {
            let name = |name: &String| Excerpt::new(name);
            return Err(ReadError::UselessTaxonomy {
                file: self.file.clone(),
                named: self
                    .parents
                    .keys()
                    .next()
                    .map(name)
                    .expect("it is not empty"),
                item: data.names().first().map(name).expect("there are items"),
            });
        }
        for basket in data.iter() {
            let added = basket.iter().flat_map(|&item| &above[item as usize]);
            builder
                .push(basket.iter().chain(added).copied())
                .map_err(too_many)?;
        }
        let row_ids = data.row_ids().to_vec();
        let whole = builder.finish();
        let applied = AppliedTaxonomy {
            digest: self.digest(),
            items,
            added: whole.item_count() - data.item_count(),
        };
        let whole = if row_ids.is_empty() {
            whole
        } else {
            let whole = whole.with_row_ids(row_ids);
            whole.expect("they were there before")
        };
        Ok((whole, applied))
    }
}

/// Converts an error in a taxonomy, which options about data cannot remedy.
fn in_taxonomy(error: ReadError) -> ReadError {
    match error {
        ReadError::Doubtful { file, .. } => ReadError::UnclearTaxonomy { file },
        ReadError::InvalidUtf8 { file, line } => ReadError::TaxonomyEncoding { file, line },
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taxonomy(text: &str) -> Result<Taxonomy, ReadError> {
        Taxonomy::of(text.as_bytes(), "codes", Unicode::Nfc)
    }

    fn applied(text: &str, baskets: &[&[&str]]) -> (Vec<Vec<String>>, AppliedTaxonomy) {
        let data = Transactions::from_named(baskets.iter().map(|it| it.iter())).unwrap();
        let (data, applied) = taxonomy(text).unwrap().apply(data, false).unwrap();
        let name = |&item: &u32| data.names()[item as usize].clone();
        let named = |basket: &[u32]| {
            let mut names: Vec<String> = basket.iter().map(name).collect();
            names.sort();
            names
        };
        (data.iter().map(named).collect(), applied)
    }

    #[test]
    fn items_bring_all_that_they_belong_to() {
        let text = "code,category,chapter\nI10,hypertension,circulatory\nI11,hypertension\nE11,diabetes,endocrine\n";
        let (baskets, applied) = applied(text, &[&["I11", "E11"], &["Z00"], &[], &["I10", "I11"]]);
        let expected: [&[&str]; 4] = [
            &[
                "E11",
                "I11",
                "circulatory",
                "diabetes",
                "endocrine",
                "hypertension",
            ],
            &["Z00"],
            &[],
            &["I10", "I11", "circulatory", "hypertension"],
        ];
        assert_eq!(baskets, expected);
        assert_eq!((applied.items, applied.added), (3, 4));
    }

    #[test]
    fn what_is_an_item_itself_is_not_added_twice() {
        let (baskets, applied) = applied("skim milk;milk\nmilk;dairy\n", &[&["skim milk", "milk"]]);
        assert_eq!(baskets, [["dairy", "milk", "skim milk"]]);
        assert_eq!((applied.items, applied.added), (2, 1));
    }

    proptest! {
        #[test]
        fn any_text_is_a_taxonomy_or_refused(text in "([abcdef]?[,;\"\n]?){0,40}") {
            if let Ok(taxonomy) = taxonomy(&text) {
                let data = Transactions::from_named([["a", "b"], ["c", "x"]]).unwrap();
                if let Ok((whole, applied)) = taxonomy.apply(data.clone(), false) {
                    prop_assert_eq!(whole.item_count(), data.item_count() + applied.added);
                    for (with, without) in whole.iter().zip(data.iter()) {
                        prop_assert!(without.iter().all(|item| with.contains(item)));
                    }
                }
            }
        }
    }

    #[test]
    fn the_order_of_lines_changes_no_digest() {
        let digest = |text| taxonomy(text).unwrap().digest();
        assert_eq!(digest("a,b\nc,b\n"), digest("c\tb\na\tb\na\tb\n"));
        assert_ne!(digest("a,b\nc,b\n"), digest("a,b\nc,d\n"));
    }

    #[test]
    fn what_is_no_taxonomy_is_refused() {
        let refused = |text: &str, part: &str| {
            let message = taxonomy(text).err().expect(text).to_string();
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        };
        refused("", "names nothing");
        refused("a\nb\n", "names nothing");
        refused(
            " ,b\na,b\n",
            "codes, line 1: the line begins without an item",
        );
        refused(
            "a,b\nb,c\nc,b\n",
            "b, which belongs to c, which belongs to b",
        );
        refused("a,\u{200b}b\n", "line 1");
        refused("a,b;c\n", "write it with commas");
        let latin1 = Taxonomy::of(&b"a,b\ntea,caf\xe9\n"[..], "codes", Unicode::Nfc);
        let message = latin1.err().unwrap().to_string();
        assert!(
            message.contains("line 2: the text is not UTF-8, as a taxonomy"),
            "{message}"
        );
        let deep: String = (0..2000).map(|it| format!("{it},{}\n", it + 1)).collect();
        let data = Transactions::from_named([["0"]]).unwrap();
        let message = taxonomy(&deep)
            .unwrap()
            .apply(data, false)
            .unwrap_err()
            .to_string();
        assert!(message.contains("more than 1000"), "{message}");
        let data = Transactions::from_named([["I10"]]).unwrap();
        let message = taxonomy("I1.0,I\n")
            .unwrap()
            .apply(data, false)
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("\"I1.0\"") && message.contains("\"I10\""),
            "{message}"
        );
    }
}
