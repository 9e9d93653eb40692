//! Text written by people and other programs.

use crate::decoded;
use oboro_format::{DatasetId, Digest};
use oboro_input::readers::{Bin, Missing, Unicode};
use oboro_input::writers::write_fimi;
use oboro_input::{Format, MinSupport, ReadOptions, Transactions, read};
use oboro_mining::{Metric, RuleOptions, association_rules};
use oboro_results::ItemsetsDocument;
use oboro_server::Token;
use std::fmt::{Debug, Display};
use std::str::FromStr;

/// The most rules to generate.
const RULES: usize = 1 << 10;

/// A file of transactions, its format and options in the first byte. If FIMI can express it, it reads back
/// equal.
pub fn transactions(bytes: &[u8]) -> Option<()> {
    let (&format, bytes) = bytes.split_first()?;
    let (others, format) = (
        usize::from(format) / Format::NAMES.len(),
        usize::from(format) % Format::NAMES.len(),
    );
    let given = |bit: usize| others >> bit & 1 == 1;
    let options = ReadOptions {
        missing: given(0).then_some(Missing::Item),
        unicode: given(1).then_some(Unicode::Nfkc),
        item_separator: given(2).then(|| "comma".parse().expect("it is a separator")),
        skip_last: given(3).then_some(1),
        ..ReadOptions::of(Format::NAMES[format].1)
    };
    let transactions = decoded(read(bytes, "file", &options))?.0;
    let items = transactions.item_count();
    assert!(items > 0 && !transactions.is_empty());
    for basket in transactions.iter() {
        assert!(basket.is_sorted_by(|a, b| a < b));
        assert!(basket.iter().all(|&item| (item as usize) < items));
    }
    let mut text = Vec::new();
    if write_fimi(&transactions, &mut text).is_ok() {
        let again = read(&text[..], "file", &ReadOptions::of(Format::Fimi));
        let again = again.expect("it was written as FIMI").0;
        assert!(named(&again).eq(named(&transactions)));
    }
    Some(())
}

/// The transactions as names, sorted.
fn named(transactions: &Transactions) -> impl Iterator<Item = Vec<&str>> {
    let name = |&item: &u32| transactions.names()[item as usize].as_str();
    transactions.iter().map(move |basket| {
        let mut names: Vec<&str> = basket.iter().map(name).collect();
        names.sort_unstable();
        names
    })
}

/// A document of frequent itemsets, and rules from it.
pub fn itemsets(json: &[u8]) -> Option<()> {
    let document = decoded(ItemsetsDocument::from_json(json))?;
    let again = ItemsetsDocument::from_json(document.to_json().as_bytes());
    assert_eq!(again.expect("it was written as JSON"), document);
    let kept = document.kept;
    let (names, itemsets) = decoded(document.into_itemsets())?;
    let document = ItemsetsDocument {
        kept,
        ..ItemsetsDocument::new(&itemsets, &names).expect("names are distinct")
    };
    let again = document.into_itemsets().expect("it was checked before");
    assert_eq!(again, (names.clone(), itemsets.clone()));
    let options = RuleOptions {
        max_rules: RULES,
        ..RuleOptions::new(Metric::Lift, 0.0)
    };
    let rules = decoded(association_rules(&itemsets, &names, options))?;
    assert!(
        rules
            .iter()
            .is_sorted_by(|a, b| a.metrics.lift >= b.metrics.lift)
    );
    Some(())
}

/// A file of tokens.
pub fn tokens(bytes: &[u8]) -> Option<()> {
    let tokens = decoded(Token::parse_all(str::from_utf8(bytes).ok()?))?;
    let lines: Vec<String> = tokens.iter().map(Token::to_string).collect();
    let again = Token::parse_all(&lines.join("\n"));
    assert_eq!(again.expect("it was written from tokens"), tokens);
    Some(())
}

/// A value on a command line or in a document.
pub fn words(bytes: &[u8]) -> Option<()> {
    let text = str::from_utf8(bytes).ok()?;
    let minimum = word::<MinSupport>(text).inspect(|minimum| {
        let threshold = minimum.threshold(1000);
        assert!(threshold > 0 && (threshold <= 1000 || matches!(minimum, MinSupport::Count(_))));
    });
    let others = [
        word::<Format>(text).map(drop),
        word::<Metric>(text).map(drop),
        word::<Bin>(text).map(drop),
        word::<DatasetId>(text).map(drop),
        word::<Digest>(text).map(drop),
    ];
    let is_known = minimum.is_some() || others.iter().any(Option::is_some);
    is_known.then_some(())
}

/// A value, which must format as it was parsed.
fn word<T: FromStr<Err: Display> + Display + Debug + PartialEq>(text: &str) -> Option<T> {
    let value: T = decoded(text.parse())?;
    assert_eq!(value.to_string().parse().ok().as_ref(), Some(&value));
    Some(value)
}
