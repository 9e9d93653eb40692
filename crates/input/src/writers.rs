//! Writer of transactions as FIMI text, which every mining tool reads.
//!
//! The output reads back as equal transactions; transactions that the format cannot express are rejected rather than
//! changed.

use std::io::{self, Write};

use crate::transactions::Transactions;

/// Writes `transactions` as FIMI text: one transaction per line, item names separated by spaces, ordered by item
/// number.
///
/// Items that occur in no transaction are lost. `output` should be buffered; it is flushed.
///
/// # Errors
/// `InvalidInput` if a name is not a number below 2^32 in plain decimal, or if the last transaction is empty (FIMI
/// text cannot distinguish it from a blank line); otherwise the error of writing to `output`.
pub fn write_fimi(transactions: &Transactions, mut output: impl Write) -> io::Result<()> {
    let refuse = |reason: String| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    let is_item_number = |name: &str| {
        let number = name.parse::<u32>();
        number.is_ok_and(|number| number.to_string() == name)
    };
    if let Some(name) = (transactions.names().iter()).find(|name| !is_item_number(name)) {
        return refuse(format!(
            "the item {name:?} cannot be written as FIMI text, whose items are numbers below 2^32; give items numbers"
        ));
    }
    if let Some(last) = transactions.iter().next_back()
        && last.is_empty()
    {
        return refuse(
            "the last transaction is empty, which FIMI text cannot express; move it forward".into(),
        );
    }
    for basket in transactions.iter() {
        let mut separator = "";
        for &item in basket {
            write!(output, "{separator}{}", transactions.names()[item as usize])?;
            separator = " ";
        }
        output.write_all(b"\n")?;
    }
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::{ReadOptions, read};

    fn written(data: &Transactions) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        write_fimi(data, &mut text)?;
        Ok(text)
    }

    #[test]
    fn what_is_written_reads_back() {
        let data = Transactions::from_named([vec!["10", "9"], vec![], vec!["0"]]).unwrap();
        let text = written(&data).unwrap();
        assert_eq!(text, b"9 10\n\n0\n");
        assert_eq!(
            read(&text[..], "text", &ReadOptions::default()).unwrap().0,
            data
        );
    }

    #[test]
    fn what_fimi_cannot_express_is_refused() {
        for names in [["milk"], ["007"], ["-1"], ["4294967296"], ["+1"]] {
            let data = Transactions::from_named([names]).unwrap();
            let error = written(&data).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{names:?}");
        }
        let data = Transactions::from_named([vec!["1"], vec![]]).unwrap();
        assert!(written(&data).is_err());
    }
}
