//! Results as tables, for spreadsheets and data frames. In CSV (RFC 4180), names of several items are one cell: a CSV
//! record of its own, which [`columns_in`](oboro_input::readers::columns_in) parses. In Parquet, they are a list.

use crate::itemsets_document::ItemsetsDocument;
use csv::{QuoteStyle, Terminator, Writer, WriterBuilder};
use oboro_mining::rules::{Metric, NamedRule};
use std::io::{self, Write};

#[cfg(feature = "arrow")]
pub use parquet::{itemsets_parquet, rules_parquet};
#[cfg(feature = "arrow")]
mod parquet;

/// The columns of a table of itemsets.
const ITEMSETS: [&str; 4] = ["items", "length", "transactions", "support"];
/// The columns of a table of rules before the metrics.
const SIDES: [&str; 2] = ["antecedents", "consequents"];
/// An additional column for unverified answers.
const UNVERIFIED: &str = "unverified";

/// Writes one row per itemset, in the document's order: `items`, `length`, the number of `transactions` with it, and
/// its `support` as a fraction of all. Unverified itemsets have an additional column that marks each row.
pub fn itemsets_csv(document: &ItemsetsDocument) -> Vec<u8> {
    let unverified = document.unverified.then(|| "true".to_owned());
    let mut heading = ITEMSETS.to_vec();
    heading.extend(unverified.iter().map(|_| UNVERIFIED));
    let rows = document.itemsets.iter().map(|itemset| {
        let fraction = document.fraction(itemset.support);
        let row = [
            names(&itemset.items),
            itemset.items.len().to_string(),
            itemset.support.to_string(),
            fraction.to_string(),
        ];
        row.into_iter().chain(unverified.clone()).collect()
    });
    table(&heading, rows)
}

/// Writes one row per rule, in order: `antecedents`, `consequents` and every metric; an infinite one is `Infinity`.
///
/// # Errors
/// Errors of `to`.
pub fn rules_csv(
    rules: impl Iterator<Item = NamedRule>,
    unverified: bool,
    to: impl Write,
) -> io::Result<()> {
    let mut writer = Writer::from_writer(to);
    let unverified = unverified.then(|| "true".to_owned());
    let mut heading = SIDES.to_vec();
    heading.extend(Metric::ALL.map(Metric::name));
    heading.extend(unverified.iter().map(|_| UNVERIFIED));
    writer.write_record(&heading)?;
    for rule in rules {
        let value = |metric| match rule.metrics.get(metric) {
            f64::INFINITY => "Infinity".to_owned(),
            value => value.to_string(),
        };
        let sides = [names(&rule.antecedents), names(&rule.consequents)];
        let row = sides.into_iter().chain(Metric::ALL.map(value));
        writer.write_record(row.chain(unverified.clone()))?;
    }
    writer.flush()
}

/// Writes a table of these columns and rows, each as long as the heading.
pub fn table(heading: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Vec<u8> {
    let mut writer = Writer::from_writer(Vec::new());
    write(&mut writer, heading);
    for row in rows {
        write(&mut writer, &row);
    }
    into_bytes(writer)
}

/// Formats the names as one record.
fn names(names: &[String]) -> String {
    // Spaces around a name are preserved only if it is quoted.
    let is_spaced = |name: &String| name.trim() != name;
    let quotes = if names.iter().any(is_spaced) {
        QuoteStyle::Always
    } else {
        QuoteStyle::Necessary
    };
    let mut writer = WriterBuilder::new()
        .quote_style(quotes)
        // Any terminator will do: it is cut off.
        .terminator(Terminator::Any(b'\n'))
        .from_writer(Vec::new());
    write(&mut writer, names);
    let mut record = into_bytes(writer);
    record.pop();
    String::from_utf8(record).expect("names and commas are text")
}

fn write(writer: &mut Writer<Vec<u8>>, record: &[impl AsRef<[u8]>]) {
    let written = writer.write_record(record);
    written.expect("memory can be written to, and all records are equally long");
}

fn into_bytes(writer: Writer<Vec<u8>>) -> Vec<u8> {
    writer.into_inner().expect("memory can be written to")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::itemsets_document::NamedItemset;
    use oboro_input::readers::columns_in;
    use oboro_mining::condensed::Kept;
    use oboro_mining::rules::RuleMetrics;
    use proptest::prelude::*;

    pub(super) fn document(unverified: bool) -> ItemsetsDocument {
        let itemset = |items: &[&str], support| NamedItemset {
            items: items.iter().map(|&item| item.to_owned()).collect(),
            support,
        };
        ItemsetsDocument {
            transactions: 4,
            min_support: 1,
            max_len: None,
            unverified,
            kept: Kept::All,
            containing: Vec::new(),
            release: None,
            source: None,
            itemsets: vec![
                itemset(&["Milch, 3,5%"], 3),
                itemset(&["Käse", "Milch, 3,5%"], 2),
            ],
        }
    }

    #[test]
    fn a_row_is_an_itemset() {
        let text = |unverified| String::from_utf8(itemsets_csv(&document(unverified))).unwrap();
        assert_eq!(
            text(false),
            "items,length,transactions,support\n\
             \"\"\"Milch, 3,5%\"\"\",1,3,0.75\n\
             \"Käse,\"\"Milch, 3,5%\"\"\",2,2,0.5\n"
        );
        assert!(text(true).lines().skip(1).all(|row| row.ends_with(",true")));
    }

    #[test]
    fn a_row_is_a_rule() {
        let rules = [NamedRule {
            antecedents: vec!["a".to_owned()],
            consequents: vec!["b".to_owned(), "c".to_owned()],
            metrics: RuleMetrics::from_counts(2, 3, 2, 4),
        }];
        let text = |unverified| {
            let mut bytes = Vec::new();
            rules_csv(rules.iter().cloned(), unverified, &mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        let unverified = text(true);
        let text = text(false);
        let (heading, row) = text.split_once('\n').unwrap();
        let columns = heading.split(',').count();
        assert_eq!(columns, 2 + Metric::ALL.len());
        assert!(row.starts_with("a,\"b,c\",0.5,0.75,0.5,1,"), "{row}");
        // The confidence is 1, so the conviction is infinite.
        assert!(row.contains(",Infinity,"), "{row}");
        assert!(unverified.ends_with(",true\n"), "{unverified}");
    }

    proptest! {
        // Names have no control characters except for line breaks: readers reject others.
        #[test]
        fn names_come_apart_again(list in proptest::collection::vec("( |,|\"|\n|[a-c]|\\PC)*", 1..5)) {
            prop_assert_eq!(columns_in(&names(&list)).unwrap(), list);
        }
    }
}
