//! Signable record of a run: its options, its data and its results, as one line of canonical JSON (RFC 8785: members
//! by name, no spaces; every number is an integer).

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::io::{self, Write};

use crate::itemsets_document::Source;

/// The version of the format.
const VERSION: u32 = 1;

/// Record of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RunRecord {
    /// The version of the format.
    record: u32,
    /// The version of the program.
    oboro: &'static str,
    /// The command that ran.
    command: &'static str,
    /// The time of the start, in UTC (RFC 3339).
    pub began: String,
    /// The time of the end; `None` if the duration depends on unreleased data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The options by name, with their values as text.
    pub asked: Value,
    /// The data, the routes and the kind of answers; `None` if unknown.
    pub source: Option<Source>,
    /// The verification of the answers, in sentences.
    pub verified: Vec<&'static str>,
    /// The files that were read, except for the dataset.
    pub inputs: Vec<FileDigest>,
    /// The files that were written.
    pub outputs: Vec<FileDigest>,
    /// The answer, if it was not written to a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
}

/// Name, length and digest of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileDigest {
    /// The file name, without directories.
    pub name: String,
    /// The length in bytes.
    pub bytes: u64,
    /// The SHA-256 of its content, in hexadecimal, as `sha256sum` prints it.
    pub sha256: String,
}

impl FileDigest {
    /// Computes the digest of a file with this content.
    pub fn of(name: &str, content: &[u8]) -> Self {
        let mut digested = DigestWriter::new(io::sink());
        let _ = digested.write_all(content);
        digested.finish(name)
    }
}

/// Writer that passes bytes on and computes their digest.
pub struct DigestWriter<W> {
    to: W,
    bytes: u64,
    sha256: Sha256,
}

impl<W: Write> DigestWriter<W> {
    /// Creates a writer without output so far.
    pub fn new(to: W) -> Self {
        Self {
            to,
            bytes: 0,
            sha256: Sha256::new(),
        }
    }

    /// Returns the digest of the written bytes, as the content of the file `name`.
    pub fn finish(self, name: &str) -> FileDigest {
        let digest = self.sha256.finalize();
        FileDigest {
            name: name.to_owned(),
            bytes: self.bytes,
            sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

impl<W: Write> Write for DigestWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.sha256.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl RunRecord {
    /// Creates the record of a run of `command` with the options `asked`.
    pub fn new(command: &'static str, asked: Value, source: Option<Source>) -> Self {
        Self {
            record: VERSION,
            oboro: env!("CARGO_PKG_VERSION"),
            command,
            began: String::new(),
            ended: None,
            asked,
            verified: source.as_ref().map_or_else(Vec::new, Source::verified),
            source,
            inputs: Vec::new(),
            outputs: Vec::new(),
            answer: None,
        }
    }

    /// Serializes as canonical JSON with a newline at the end.
    ///
    /// # Errors
    /// Never: numbers, strings and lists of them always have a JSON form.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        // The members of a value are sorted by name.
        let value = serde_json::to_value(self)?;
        Ok(value.to_string() + "\n")
    }
}

impl Source {
    /// Describes the verification of the answers, in sentences.
    pub fn verified(&self) -> Vec<&'static str> {
        if self.answers == "unverified" {
            return vec![
                "nothing was verified: the owner trusted the server, so the result may be wrong",
            ];
        }
        if self.answers == "local" {
            return vec!["the server was the owner's own process"];
        }
        let mut said =
            vec!["the supports of single items are in the owner's record, and were not asked for"];
        let Some(routes) = &self.routes else {
            said.push("every answer of the server was verified before it was used");
            return said;
        };
        let by = |names: &[&str]| routes.iter().any(|it| names.contains(&it.as_str()));
        if by(&["scalars", "prefix"]) {
            said.push(
                "what the server counted on ciphertext was checked against what the owner kept of it when it was encrypted, before anything was decrypted",
            );
        }
        if self.offline {
            said.push(
                "no server was asked: whether it has a newer version than the one named here is not known",
            );
        }
        if by(&["cells"]) {
            said.push(
                "sealed columns were opened with the owner's key, which takes only what was encrypted at that place of that version; supports were counted in them locally",
            );
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_record_is_canonical() {
        let source = Source {
            name: "rows".into(),
            dataset: "d".into(),
            version: 2,
            uploaded: None,
            offline: false,
            manifest: "m".into(),
            answers: "verified".into(),
            routes: Some(vec!["cells".into()]),
            read: None,
        };
        let asked = json!({ "min_support": "5%", "answers": "auto" });
        let mut record = RunRecord::new("mine", asked, Some(source));
        record.outputs.push(FileDigest::of("found.json", b"abc"));
        let text = record.to_json().unwrap();
        assert!(text.starts_with(r#"{"asked":{"answers":"auto","min_support":"5%"},"began":"","#));
        assert!(text.ends_with("}\n") && text.lines().count() == 1 && !text.contains("\": "));
        assert!(text.contains("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
        // Unchanged after any program has read and written it in this form.
        let again: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(again.to_string() + "\n", text);
        assert_eq!(record.verified.len(), 2);
        // For release, neither the end nor the route is included.
        let source = record.source.map(Source::for_release);
        let text = RunRecord::new("mine", Value::Null, source).to_json();
        let text = text.unwrap();
        assert!(!text.contains("ended") && !text.contains("cells"), "{text}");
        assert!(text.contains("every answer of the server was verified"));
    }
}
