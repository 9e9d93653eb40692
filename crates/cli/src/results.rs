//! Result files, release options, and records of runs: for the commands that have results.

use crate::failure::Failure;
use crate::output::{Form, Output, OutputFile};
use clap::{Args, value_parser};
use oboro_client::utc;
use oboro_dataset::Dataset;
use oboro_mining::{FrequentItemsets, Rules};
use oboro_results::release::LEAST_SUPPRESSED_BELOW;
use oboro_results::tables::{itemsets_csv, rules_csv};
use oboro_results::{
    DigestWriter, FileDigest, ItemsetsDocument, Release, ReleaseError, RunRecord, Source,
};
use serde::Serialize;
use serde_json::Value;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Heading of the options for release.
const RELEASE: &str = "For release to others";

/// Suppression and rounding of supports for release.
#[derive(Args)]
pub struct ReleaseArguments {
    /// Suppress supports below N, and other supports until no smaller count is found that follows from those shown.
    ///
    /// Promised: no part of 1 to N-1 transactions of a shown itemset can be computed, such as those with one item and
    /// without another. A bounded search finds no such count that follows exactly. The search solves at most 20,000
    /// linear programs, each over all items shown (up to 8), else over a minimal missing itemset and 2 items. The
    /// result has their number, and states whether all were searched.
    ///
    /// Not promised: hidden counts may have narrow bounds. Two releases, or knowledge of the rule or of some
    /// transactions, may reveal more. Counts that follow only from more items at a time are not found. Zeros are shown.
    /// For publication to adversaries, give --round-to N as well. Output omits values that depend on hidden counts.
    #[arg(long, help_heading = RELEASE, value_name = "N", value_parser = value_parser!(u64).range(LEAST_SUPPRESSED_BELOW..))]
    pub suppress_below: Option<u64>,
    /// Round supports and the number of transactions to the nearest multiples of B, after suppression; rules are computed
    /// from the rounded numbers. Recommended with --suppress-below for publication, with the same number.
    #[arg(long, help_heading = RELEASE, value_name = "B", value_parser = value_parser!(u64).range(2..))]
    pub round_to: Option<u64>,
}

impl ReleaseArguments {
    pub fn are_given(&self) -> bool {
        self.suppress_below.is_some() || self.round_to.is_some()
    }

    /// Returns the itemsets for release, and a description of all suppression and rounding, including that `before`.
    pub fn applied(
        &self,
        before: Option<Release>,
        itemsets: FrequentItemsets,
    ) -> Result<(Option<Release>, FrequentItemsets), Failure> {
        if !self.are_given() {
            return Ok((before, itemsets));
        }
        let released = before
            .unwrap_or_default()
            .of(itemsets, self.suppress_below, self.round_to);
        let (release, itemsets) = released.map_err(refused)?;
        Ok((Some(release), itemsets))
    }
}

/// Returns the failure of a result that cannot be released.
pub fn refused(error: ReleaseError) -> Failure {
    Failure::input(error.to_string())
}

/// Reports on standard error, for people, the suppression and rounding of a release.
pub fn say_release(release: Option<&Release>, output: Output) {
    for sentence in release.iter().flat_map(|it| it.sentences()) {
        output.warn(&format!("RELEASE: {sentence}"));
    }
}

/// Result file, whose extension determines its format.
pub struct ResultFile {
    file: OutputFile,
    form: Form,
    name: String,
}

impl ResultFile {
    /// Checks the path. Only the owner may read the file.
    pub fn prepare(path: &Path) -> Result<Self, Failure> {
        let (file, form) = OutputFile::prepare_result(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self {
            file,
            form,
            name: name.into_owned(),
        })
    }

    /// Returns true if `path` is this file.
    pub fn is(&self, path: &Path) -> bool {
        self.file.is(path)
    }

    pub fn write_itemsets(&self, document: &ItemsetsDocument) -> Result<FileDigest, Failure> {
        let content = match self.form {
            Form::Json => document.to_json().into_bytes(),
            Form::Csv => itemsets_csv(document),
            #[cfg(feature = "arrow")]
            Form::Parquet => oboro_results::tables::itemsets_parquet(document)?,
        };
        self.write_with(|file| file.write_all(&content))
    }

    /// Writes rules one by one; `about` has all other fields, and `whole` the rules, too.
    pub fn write_rules(
        &self,
        rules: &Rules<'_>,
        unverified: bool,
        whole: &impl Serialize,
        about: &Value,
    ) -> Result<FileDigest, Failure> {
        #[cfg(not(feature = "arrow"))]
        let _ = about;
        self.write_with(|mut file| match self.form {
            Form::Json => {
                serde_json::to_writer_pretty(&mut file, whole)?;
                writeln!(file)
            }
            Form::Csv => rules_csv(rules.named(), unverified, file),
            #[cfg(feature = "arrow")]
            Form::Parquet => {
                let rules = rules.named();
                let written = oboro_results::tables::rules_parquet(rules, unverified, about, file);
                written.map_err(io::Error::other)
            }
        })
    }

    fn write_with(
        &self,
        write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
    ) -> Result<FileDigest, Failure> {
        let mut digest = None;
        self.file.write_with(|file| {
            let mut digested = DigestWriter::new(file);
            write(&mut digested)?;
            digest = Some(digested.finish(&self.name));
            Ok(())
        })?;
        digest.ok_or_else(|| "nothing was written".into())
    }
}

/// File for the record of the run.
#[derive(Args)]
pub struct RecordArguments {
    /// Write a record of the run to this file, readable by you only. It has the request, the version of the dataset,
    /// the route, the verification, and the SHA-256 of the output, as canonical JSON to keep or sign.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// Writer of a run's record.
pub struct Recorder {
    file: OutputFile,
    began: OffsetDateTime,
    /// `true` for a release, whose record omits the duration of the run.
    is_release: bool,
}

impl RecordArguments {
    /// Checks the path, which must differ from those of `others`.
    pub fn prepare(
        &self,
        others: &[Option<&Path>],
        release: &ReleaseArguments,
    ) -> Result<Option<Recorder>, Failure> {
        let Some(path) = &self.record else {
            return Ok(None);
        };
        let file = OutputFile::prepare(path)?.private();
        let is_same = |other: &Path| other == path || file.is(other);
        if others.iter().flatten().any(|other| is_same(other)) {
            let path = path.display();
            return Err(Failure::input(format!(
                "the record cannot be written to {path}, which this run uses for something else; write it to another file"
            )));
        }
        let began = OffsetDateTime::now_utc();
        let is_release = release.are_given();
        Ok(Some(Recorder {
            file,
            began,
            is_release,
        }))
    }
}

impl Recorder {
    pub fn write(&self, mut record: RunRecord) -> Result<(), Failure> {
        let text = |time: OffsetDateTime| -> Result<String, Failure> {
            Ok(time.truncate_to_second().format(&Rfc3339)?)
        };
        record.began = text(self.began)?;
        let ended = (!self.is_release).then(OffsetDateTime::now_utc);
        record.ended = ended.map(text).transpose()?;
        self.file.write(record.to_json()?.as_bytes())
    }
}

/// Returns the time of the upload of the directory's version, in UTC, if recorded.
pub fn uploaded(dataset: &Dataset) -> Option<String> {
    dataset.bundle().uploaded().map(utc)
}

/// Describes in a line the version of a result, and its comparison with the server's.
pub fn version_line(dataset: &Dataset, offline: bool) -> String {
    let uploaded = match uploaded(dataset) {
        Some(uploaded) => format!("uploaded {uploaded}"),
        None => "whose upload is not recorded here".to_owned(),
    };
    let compared = if offline {
        "; OFFLINE: from cached cells alone, not compared with the server's version"
    } else {
        ""
    };
    let version = dataset.manifest().version;
    format!("version {version}, {uploaded}{compared}\n")
}

/// Returns the dataset, version and routes of a result, for its record.
pub fn source(
    dataset: &Dataset,
    name: &str,
    answers: &str,
    routes: Vec<String>,
    offline: bool,
) -> Source {
    let manifest = dataset.manifest();
    Source {
        name: name.to_owned(),
        dataset: manifest.dataset.to_string(),
        version: manifest.version,
        uploaded: uploaded(dataset),
        offline,
        manifest: manifest.root().to_string(),
        answers: answers.to_owned(),
        routes: Some(routes),
        read: None,
    }
}
