//! Guesses from the names of columns: do they identify transactions, or hold items, people, dates or amounts? A name
//! only raises or settles a doubt; the cells are examined as well.

/// Names of a transaction, alone or before a word like "id".
const TRANSACTIONS: [&str; 14] = [
    "transaction",
    "trans",
    "order",
    "basket",
    "cart",
    "invoice",
    "receipt",
    "ticket",
    "bill",
    "session",
    "visit",
    "encounter",
    "admission",
    "hadm",
];
/// Names of a transaction only before a word like "id".
const NUMBERED: [&str; 4] = ["t", "stay", "case", "sample"];
/// Places that number their transactions independently.
const PLACES: [&str; 3] = ["store", "shop", "branch"];
const PEOPLE: [&str; 9] = [
    "patient",
    "subject",
    "member",
    "customer",
    "client",
    "user",
    "person",
    "household",
    "participant",
];
const ITEMS: [&str; 20] = [
    "item",
    "items",
    "product",
    "products",
    "article",
    "articles",
    "sku",
    "stock",
    "icd",
    "icd9",
    "icd10",
    "diagnosis",
    "dx",
    "drug",
    "medication",
    "ndc",
    "procedure",
    "movie",
    "gene",
    "variant",
];
const AMOUNTS: [&str; 10] = [
    "quantity", "qty", "value", "count", "amount", "present", "active", "status", "result", "flag",
];

/// Returns a name in lower case, without word separators.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(|c| !" _-.()#".contains(*c));
    letters.flat_map(char::to_lowercase).collect()
}

/// Returns the part before the first of these suffixes that matches.
fn before<'a>(name: &'a str, ends: &[&str]) -> Option<&'a str> {
    ends.iter().find_map(|end| name.strip_suffix(end))
}

/// Returns true if a column of this name may identify transactions.
pub(super) fn is_transaction_name(name: &str) -> bool {
    let plain = plain(name);
    let stem = before(&plain, &["id", "no", "nr", "num", "number", "code"]);
    TRANSACTIONS.contains(&plain.as_str())
        || stem.is_some_and(|stem| TRANSACTIONS.contains(&stem) || NUMBERED.contains(&stem))
        || PLACES.contains(&stem.unwrap_or(&plain))
        || is_person(&plain)
        || plain == "id"
        || ends_in_id(name) && !is_item(&plain)
}

/// Returns true if the last word is "id", unlike in "acid".
fn ends_in_id(name: &str) -> bool {
    let end = name.len().saturating_sub(2);
    let (Some(stem), Some(end)) = (name.get(..end), name.get(end..)) else {
        return false;
    };
    end.eq_ignore_ascii_case("id")
        && (stem.ends_with([' ', '_', '-', '.'])
            || end.starts_with('I') && stem.ends_with(char::is_lowercase))
}

/// Returns true if columns of these names may have a transaction and an item in each row.
pub fn are_of_long_form<'a>(mut names: impl Iterator<Item = &'a str> + Clone) -> bool {
    names.clone().any(is_transaction_name) && names.any(is_item_name)
}

/// Returns true if the name refers to people, who may have several transactions.
pub(super) fn is_person_name(name: &str) -> bool {
    is_person(&plain(name))
}

fn is_person(plain: &str) -> bool {
    let stem = before(plain, &["id", "no", "nr", "num", "number"]);
    PEOPLE.contains(&stem.unwrap_or(plain))
}

pub(super) fn is_item_name(name: &str) -> bool {
    is_item(&plain(name))
}

fn is_item(plain: &str) -> bool {
    let stem = before(plain, &["id", "no", "code", "name", "description"]);
    ITEMS.contains(&plain)
        || stem.is_some_and(|stem| {
            stem.is_empty() && plain != "id" && plain != "no" || ITEMS.contains(&stem)
        })
}

/// Returns true if the column may hold the amount or the presence of an item.
pub(super) fn is_amount_name(name: &str) -> bool {
    AMOUNTS.contains(&plain(name).as_str())
}

/// Returns true if the column holds the sum of a row.
pub(super) fn is_total_name(name: &str) -> bool {
    [
        "total",
        "totals",
        "grandtotal",
        "rowtotal",
        "sum",
        "rowsum",
        "gesamtergebnis",
        "summe",
    ]
    .contains(&plain(name).as_str())
}

pub(super) fn is_date_name(name: &str) -> bool {
    let name = plain(name);
    ["date", "time", "day", "month", "year"]
        .iter()
        .any(|it| name.starts_with(it) || name.ends_with(it))
}

/// Returns true if the column numbers rows or identifies their subject.
pub(super) fn is_id_name(name: &str) -> bool {
    let plain = plain(name);
    ["id", "index", "rowid", "row", "rownames", "nr", "no"].contains(&plain.as_str())
        || name.starts_with("Unnamed: ")
        || ends_in_id(name)
        || is_transaction_name(name)
}
