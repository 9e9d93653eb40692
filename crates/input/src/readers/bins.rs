//! Ranges of numbers as items. `age=0,18,40,65` makes the items `age=0..18`, `age=18..40`, `age=40..65` and `age>=65`
//! of a column of ages, and `age<0` below the first bound. A range includes its lower bound and excludes its upper
//! one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::error::{Excerpt, ReadError, Remedy};
use super::header::Header;
use super::names::{Doubt, is_missing};
use super::values::{Missing, UnknownOption};
use oboro_format::wording::{BIN, DROP_COLUMNS, MISSING};

/// Column of numbers, and the bounds of its ranges as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Bin {
    column: String,
    bounds: Vec<String>,
}

impl Bin {
    /// Returns the name of the column.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// Returns the items, in the order of their ranges.
    fn items(&self) -> Vec<String> {
        let (column, bounds) = (&self.column, &self.bounds);
        let between = bounds.windows(2);
        std::iter::once(format!("{column}<{}", bounds[0]))
            .chain(between.map(|it| format!("{column}={}..{}", it[0], it[1])))
            .chain(bounds.last().map(|last| format!("{column}>={last}")))
            .collect()
    }
}

/// Parses a finite number in decimal notation.
fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|it: &f64| it.is_finite())
}

impl FromStr for Bin {
    type Err = UnknownOption;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = || {
            let (column, bounds) = text.rsplit_once('=')?;
            let bounds: Vec<&str> = bounds.split(',').map(str::trim).collect();
            let numbers: Vec<f64> = bounds.iter().map(|it| number(it)).collect::<Option<_>>()?;
            let ascend = numbers.is_sorted_by(|a, b| a < b);
            (ascend && !column.trim().is_empty()).then(|| Self {
                column: column.trim().to_owned(),
                bounds: bounds.into_iter().map(str::to_owned).collect(),
            })
        };
        parsed().ok_or_else(|| {
            let choices = "its name, an equals sign and ascending numbers, as in age=0,18,40,65";
            UnknownOption::new(text, "a column with the bounds of its ranges", choices)
        })
    }
}

impl fmt::Display for Bin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.column, self.bounds.join(","))
    }
}

impl From<Bin> for String {
    fn from(bin: Bin) -> Self {
        bin.to_string()
    }
}

impl TryFrom<String> for Bin {
    type Error = UnknownOption;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// Column of a table whose numbers become items.
pub(super) struct BinColumns {
    pub(super) place: usize,
    column: String,
    bounds: Vec<f64>,
    pub(super) items: Vec<String>,
}

impl BinColumns {
    /// Finds the columns that the options name.
    pub(super) fn all(file: &str, header: &Header, bins: &[Bin]) -> Result<Vec<Self>, ReadError> {
        let one = |bin: &Bin| {
            Ok(Self {
                place: header.find(file, BIN, &bin.column)?,
                column: bin.column.clone(),
                bounds: bin.bounds.iter().filter_map(|it| number(it)).collect(),
                items: bin.items(),
            })
        };
        bins.iter().map(one).collect()
    }

    /// Returns the item of a cell of the column, by its index among the items; `None` if the cell has no value.
    pub(super) fn item(
        &self,
        cell: &str,
        without_value: Option<Missing>,
    ) -> Result<Option<usize>, Doubt> {
        if let Some(value) = number(cell) {
            return Ok(Some(self.bounds.partition_point(|&bound| bound <= value)));
        }
        let (missing, column) = (is_missing(cell), Excerpt::new(&self.column));
        if missing && without_value == Some(Missing::Absent) {
            return Ok(None);
        }
        let (what, remedy) = if missing {
            let remedy = Remedy::new(MISSING.to("absent"), "if there is no item then");
            (format!("the column {column} has no value"), remedy)
        } else {
            let drop = DROP_COLUMNS.to(&[self.column.as_str()][..]);
            let what = format!(
                "the column {column} has {}, which is no number, and `{BIN}` divides numbers into ranges",
                Excerpt::new(cell)
            );
            let remedy = Remedy::new(
                drop,
                format!("instead of `{BIN}` if the column holds no item"),
            );
            (what, remedy)
        };
        Err(Doubt::new(what, [remedy]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_ascending_numbers_behind_the_last_equals_sign() {
        let bin: Bin = "age=0, 18,40.5".parse().unwrap();
        assert_eq!(
            bin.items(),
            ["age<0", "age=0..18", "age=18..40.5", "age>=40.5"]
        );
        assert_eq!(bin.to_string(), "age=0,18,40.5");
        assert_eq!(
            "a=b=-1e3".parse::<Bin>().unwrap().items(),
            ["a=b<-1e3", "a=b>=-1e3"]
        );
        for wrong in [
            "age", "age=", "=1", "age=1,1", "age=2,1", "age=1,x", "age=inf", "age=1,,2",
        ] {
            let error = wrong.parse::<Bin>().unwrap_err().to_string();
            assert!(error.contains("age=0,18,40,65"), "{error}");
        }
    }
}
