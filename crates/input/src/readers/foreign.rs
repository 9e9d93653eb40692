//! Recognises text files of other programs that would be misread as transactions.

use super::error::ReadError;
use super::footer::above;
use super::lines::is_blank;
use super::options::ReadOptions;
use super::values::Format;

/// The number of lines examined for a drawn table.
const DRAWN_LINES: usize = 4;

/// Unsupported kind of file, with a remedy.
struct Foreign {
    kind: &'static str,
    remedy: &'static str,
}

const ARFF: Foreign = Foreign {
    kind: "an ARFF file of Weka",
    remedy: "save it there as CSV, or put one line with the names of the attributes, separated by commas, in the place of all lines up to @data",
};
const DRAWN: Foreign = Foreign {
    kind: "a drawn table, as of Markdown or of the shell of a database",
    remedy: r"export it as CSV, or take out the drawing with `sed -e '/^[-+|:= ]*$/d' -e 's/^ *|//' -e 's/| *$//'` and read the rest with the separator pipe and spaces trimmed",
};
const ALIGNED: Foreign = Foreign {
    kind: "a table of aligned columns, as of the shell of a database",
    remedy: "export it as CSV",
};
const BOX: Foreign = Foreign {
    kind: "a table drawn with lines, as of the shell of a database",
    remedy: "export it as CSV, since such tables are shortened for display",
};
const JSON: Foreign = Foreign {
    kind: "JSON",
    remedy: "convert it to CSV; if each line is a list of items, take out the brackets with `tr -d '[]'`; in Python give pandas.read_json(path), with lines=True for JSON lines",
};
const LISTS: Foreign = Foreign {
    kind: "a file of lists in brackets, as of Python or a database",
    remedy: r#"take out brackets and quotes, for instance with `sed -e "s/[][(){}'\"]//g" -e 's/, */,/g'`"#,
};
const HTML: Foreign = Foreign {
    kind: "HTML or XML, as of tables that programs save under a name like .xls",
    remedy: "open it in a spreadsheet and save it as CSV; in Python give pandas.read_html(path)[0]",
};
const SQL: Foreign = Foreign {
    kind: "a file of SQL",
    remedy: "load it into its database, and export the table as CSV",
};
const VCF: Foreign = Foreign {
    kind: "a file of genetic variants (VCF)",
    remedy: "load it into a collection of genomes",
};
const SEQUENCES: Foreign = Foreign {
    kind: "a file of sequences of SPMF, in which -1 ends an itemset and -2 a sequence, and transactions have no order",
    remedy: "take the marks out, for instance with `sed -e 's/ -[12]//g' -e 's/<[^>]*> *//g'`; each sequence is a transaction then",
};
const UTILITIES: Foreign = Foreign {
    kind: "a file of utilities of SPMF, in which amounts follow colons",
    remedy: "keep what is before the first colon, for instance with `sed 's/:.*//'`",
};
const LIBSVM: Foreign = Foreign {
    kind: "a file of sparse features (LIBSVM), in which a label is followed by numbers of features with values",
    remedy: "keep the numbers of the features, for instance with `sed -e 's/^[^ :]* //' -e 's/:[^ ]*//g'`, if no value is 0",
};

impl Foreign {
    fn refusal(&self, file: &str) -> ReadError {
        ReadError::Foreign {
            file: file.to_owned(),
            kind: self.kind,
            remedy: self.remedy,
        }
    }
}

/// Rejects SPMF sequences found in a file of numbers.
pub(super) fn sequences(file: &str) -> ReadError {
    SEQUENCES.refusal(file)
}

/// Rejects the text of another program. `lines` are its first lines, after `skipped` ones.
pub(super) fn check(
    file: &str,
    lines: &[String],
    skipped: u64,
    given: &ReadOptions,
) -> Result<(), ReadError> {
    let filled: Vec<&str> = lines
        .iter()
        .map(|it| it.trim())
        .filter(|it| !it.is_empty())
        .collect();
    let Some(&first) = filled.first() else {
        return Ok(());
    };
    if let Some(foreign) = kind_of(first, &filled) {
        return Err(foreign.refusal(file));
    }
    if given.skip_first == Some(0) {
        return Ok(());
    }
    let number = |at: usize| skipped + at as u64 + 1;
    let place = lines.iter().position(|it| !is_blank(it.as_bytes()));
    let place = place.unwrap_or_default();
    let lower = first.to_ascii_lowercase();
    let unquoted = lower.trim_matches('"');
    if unquoted
        .strip_prefix("sep=")
        .is_some_and(|it| it.chars().count() <= 1)
    {
        let what = "the line names the separator for a spreadsheet and is no row";
        return Err(above(file, number(place), what, number(place)));
    }
    let is_comment = |line: &str| {
        let behind = line.strip_prefix('#').or_else(|| line.strip_prefix('%'));
        behind.is_some_and(|it| {
            it.starts_with(|c: char| c == ' ' || c == '#' || c == '%' || c.is_alphabetic())
        }) || ["//", "/*", "-- "].iter().any(|it| line.starts_with(it))
    };
    let comments = filled.iter().take_while(|it| is_comment(it)).count();
    if comments > 0
        && comments < filled.len()
        && !filled[comments..].iter().any(|it| is_comment(it))
    {
        let last = lines
            .iter()
            .enumerate()
            .filter(|it| !it.1.trim().is_empty())
            .nth(comments - 1);
        let last = last.map_or(place, |it| it.0);
        // A header may begin with a number sign.
        let separators = |line: &str| line.matches([',', ';', '\t', '|']).count();
        let is_header = comments == 1
            && !first.starts_with("# ")
            && separators(first) > 0
            && filled[1..]
                .iter()
                .all(|it| separators(it) == separators(first));
        if !is_header {
            let what = "the line seems to be a comment";
            return Err(above(file, number(place), what, number(last)));
        }
    }
    Ok(())
}

/// Recognises the kind of file by its first lines.
fn kind_of(first: &str, lines: &[&str]) -> Option<&'static Foreign> {
    let lower = first.to_ascii_lowercase();
    let begins = |words: &[&str]| words.iter().any(|it| lower.starts_with(it));
    let begins_sql = |line: &str| {
        let line = line.to_ascii_lowercase();
        ["-- mysql dump", "-- postgresql database"]
            .iter()
            .any(|it| line.starts_with(it))
    };
    if lower.starts_with("##fileformat=vcf") {
        return Some(&VCF);
    }
    if begins(&[
        "<!doctype",
        "<html",
        "<?xml",
        "<table",
        "<head",
        "<body",
        "<meta",
        "<style",
        "<workbook",
        "<div",
    ]) {
        return Some(&HTML);
    }
    let sql = [
        "insert into ",
        "create table ",
        "drop table ",
        "begin transaction",
        "pragma ",
        "copy ",
    ];
    if begins(&sql) && lines.iter().any(|it| it.ends_with(';'))
        || lines.iter().take(2).any(|it| begins_sql(it))
    {
        return Some(&SQL);
    }
    let is_comment = |line: &&&str| line.starts_with('%');
    let head = lines.iter().find(|it| !is_comment(it));
    if head.is_some_and(|it| it.to_ascii_lowercase().starts_with("@relation")) {
        return Some(&ARFF);
    }
    let is_json = |line: &str| {
        (line.starts_with('{') || line.starts_with('['))
            && serde_json::from_str::<serde_json::Value>(line.trim_end_matches(',')).is_ok()
    };
    if is_json(first)
        || ["{", "["].contains(&first)
        || first.starts_with("{\"") && first.contains("\":")
        || first.starts_with("[{")
    {
        return Some(&JSON);
    }
    let is_bracketed = |line: &&str| {
        let pairs = [('[', ']'), ('{', '}'), ('(', ')')];
        pairs
            .iter()
            .any(|&(open, close)| line.len() > 1 && line.starts_with(open) && line.ends_with(close))
    };
    if lines.iter().all(is_bracketed) {
        return Some(&LISTS);
    }
    let is_box = |line: &&&str| line.chars().any(|c| ('\u{2500}'..='\u{257f}').contains(&c));
    if lines.iter().take(2).any(|it| is_box(&it)) && lines.iter().filter(is_box).count() > 1 {
        return Some(&BOX);
    }
    if let Some(border) = lines.iter().take(DRAWN_LINES).find(|it| is_drawn(it)) {
        let is_aligned = border.bytes().all(|it| matches!(it, b'-' | b' '));
        return Some(if is_aligned { &ALIGNED } else { &DRAWN });
    }
    let all = |is: fn(&str) -> bool| lines.iter().all(|it| is(it));
    if all(|line| tokens(line).next_back() == Some("-2")) {
        return Some(&SEQUENCES);
    }
    if all(is_of_utilities) {
        return Some(&UTILITIES);
    }
    if all(is_of_features) && lines.iter().any(|it| it.contains(':')) {
        return Some(&LIBSVM);
    }
    None
}

/// Returns true if a line is the border of a drawn table.
fn is_drawn(line: &str) -> bool {
    let count = |c: char| line.matches(c).count();
    let dashes = count('-') + count('=');
    let runs = line.split_whitespace().count();
    let is_border = line.chars().all(|c| "|+-=: ".contains(c));
    is_border
        && (dashes > 0 && count('|') + count('+') > 0 || dashes > 2 && (runs > 1 || dashes > 5))
        || line.starts_with("-[ RECORD ")
}

fn tokens(line: &str) -> impl DoubleEndedIterator<Item = &str> {
    line.split([' ', '\t']).filter(|it| !it.is_empty())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit())
}

/// Returns true if a line is a transaction with amounts, as `3 5 1:9:1 3 5`.
fn is_of_utilities(line: &str) -> bool {
    let parts: Vec<&str> = line.split(':').collect();
    let [items, total, amounts] = parts[..] else {
        return false;
    };
    let items = tokens(items).filter(|it| is_number(it)).count();
    let is_amount = |it: &str| it.parse::<f64>().is_ok();
    items > 0
        && is_amount(total.trim())
        && tokens(amounts).filter(|it| is_amount(it)).count() == items
}

/// Returns true if a line has a label and features, as `1 3:1 7:0.5`.
fn is_of_features(line: &str) -> bool {
    let mut parts = tokens(line);
    let is_label = parts.next().is_some_and(|it| it.parse::<f64>().is_ok());
    is_label
        && parts.all(|part| {
            part.split_once(':')
                .is_some_and(|(feature, value)| is_number(feature) && value.parse::<f64>().is_ok())
        })
}

/// Returns true if columns of spaces separate cells of fixed width. They are at least two wide, in every line, and
/// not after a separator.
pub(super) fn has_fixed_width(lines: &[String], given: &ReadOptions) -> bool {
    if given.separator.is_some()
        || given.format != Format::Auto && given.format != Format::CsvBasket
    {
        return false;
    }
    let filled: Vec<&[u8]> = lines
        .iter()
        .map(|it| it.trim_end().as_bytes())
        .filter(|it| !it.is_empty())
        .collect();
    let width = filled.iter().map(|it| it.len()).min().unwrap_or_default();
    let is_space = |place: usize| filled.iter().all(|line| line[place] == b' ');
    let is_cell_end = |place: usize| {
        filled.iter().all(|line| {
            let before = line[..place].trim_ascii_end();
            before.last().is_some_and(|it| !b",;|\t".contains(it))
        })
    };
    filled.len() > 1
        && (1..width.saturating_sub(1))
            .any(|place| is_space(place) && is_space(place + 1) && is_cell_end(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> Option<&'static str> {
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|it| !it.is_empty())
            .collect();
        kind_of(lines[0], &lines).map(|it| it.kind)
    }

    #[test]
    fn data_are_taken_for_no_other_format() {
        for text in [
            "milk,bread\ntea\n",
            "1 2 3\n4\n",
            "id|item\n1|a\n-|b\n",
            "(a),b\nc\n",
            "[a],b\nc,d\n",
            "1 2:3 x\n",
            "GO:1 GO:2\nGO:3\n",
            "1,2:3\n",
            "-1 3\n-2 4\n",
            "- milk\n- tea\n",
            "<NA>,milk\ntea\n",
            "copy paper,tea\nmilk\n",
            "@home,@work\n@home\n",
        ] {
            assert_eq!(kind(text), None, "{text:?}");
        }
    }
}
