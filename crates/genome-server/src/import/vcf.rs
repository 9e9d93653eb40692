//! VCF: every phased allele of every sample is a haplotype, every line a site.

use super::lines::Lines;
use super::options::{Duplicates, PanelOptions, Region, SkippedSites};
use crate::alphabet::{Alphabet, MAX_ALLELE};
use crate::error::{GenomeError, InputError, excerpt};
use crate::loading::PartialCollection;
use crate::panel::PanelWriter;
use crate::sites::{Positions, SiteOrderError, Sites, is_name};
use crate::{MAX_HAPLOTYPES, MAX_SITES};
use noodles_vcf as vcf;

/// Largest number of bytes of all lines before the first site.
const MAX_HEADER_BYTES: usize = 256 << 20;

pub(super) fn read_panel(
    lines: &mut Lines,
    loading: PartialCollection,
    options: &PanelOptions,
) -> Result<SkippedSites, GenomeError> {
    let samples = read_samples(lines)?;
    let mut reader = Reader {
        samples,
        region: options.region.as_ref(),
        duplicates: options.duplicates,
        left_out: SkippedSites::default(),
        ploidies: Vec::new(),
        sites: Positions::default(),
        largest: 1,
        symbols: Vec::new(),
    };
    let mut loading = Some(loading);
    let mut panel = None;
    // Reads to the end: a file need not be sorted, and the region may continue behind lines outside it.
    while let Some(line) = lines.next()? {
        if line.is_empty() {
            continue;
        }
        match reader.read(line) {
            Ok(Line::Site) => {}
            Ok(Line::LeftOut) => continue,
            Err(cause) => return Err(lines.error_here(cause)),
        }
        if let Some(loading) = loading.take() {
            panel = Some(PanelWriter::create(loading, reader.symbols.len())?);
        }
        if let Some(panel) = &mut panel {
            panel.push(&reader.symbols)?;
        }
    }
    let Some(panel) = panel else {
        let within = options
            .region
            .as_ref()
            .map(|region| format!(" in {region}"));
        return Err(lines.error(InputError::NoSites(within.unwrap_or_default())));
    };
    let alphabet = Alphabet::Alleles {
        largest: reader.largest,
    };
    panel.finish(alphabet, &Sites::Positions(reader.sites))?;
    Ok(reader.left_out)
}

/// Reads the header; returns the names of the samples.
fn read_samples(lines: &mut Lines) -> Result<Vec<String>, GenomeError> {
    let mut header = Vec::new();
    while lines.peek()?.first() == Some(&b'#') {
        if let Some(line) = lines.next()? {
            header.extend_from_slice(line);
            header.push(b'\n');
        }
        if header.len() > MAX_HEADER_BYTES {
            return Err(lines.error_here(InputError::LongHeader(MAX_HEADER_BYTES >> 20)));
        }
    }
    let header = vcf::io::Reader::new(header.as_slice())
        .read_header()
        .map_err(|error| lines.error(InputError::Header(with_causes(&error))))?;
    let samples: Vec<String> = header.sample_names().iter().cloned().collect();
    if samples.is_empty() {
        Err(lines.error(InputError::NoSamples))
    } else {
        Ok(samples)
    }
}

/// Joins the messages of an error and its causes on one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut texts: Vec<String> = causes
        .map(|error| error.to_string().escape_debug().to_string())
        .collect();
    // Some errors wrap another and repeat its message.
    texts.dedup();
    texts.join(": ")
}

/// Result of a line.
enum Line {
    /// Site, with its symbols in [`Reader::symbols`].
    Site,
    /// Line without a site, counted in [`Reader::left_out`].
    LeftOut,
}

/// State after the lines so far.
struct Reader<'a> {
    samples: Vec<String>,
    region: Option<&'a Region>,
    duplicates: Duplicates,
    left_out: SkippedSites,
    /// Number of alleles of each sample, from the first site on.
    ploidies: Vec<usize>,
    sites: Positions,
    /// Largest number of an allele that any line declares.
    largest: u8,
    /// Alleles of the last site, sample after sample.
    symbols: Vec<u8>,
}

impl Reader<'_> {
    fn read(&mut self, line: &[u8]) -> Result<Line, InputError> {
        // Eight fixed ones, FORMAT, and a sample.
        let columns = line.splitn(10, |&byte| byte == b'\t').count();
        if columns < 10 {
            return Err(InputError::Record(format!("it has {columns} columns")));
        }
        let record =
            vcf::Record::try_from(line).map_err(|error| InputError::Record(with_causes(&error)))?;
        let chromosome = record.reference_sequence_name();
        if !is_name(chromosome) {
            return Err(InputError::SequenceName(excerpt(chromosome)));
        }
        let position = match record.variant_start() {
            Some(Ok(position)) => position.get() as u64,
            Some(Err(error)) => return Err(InputError::Record(with_causes(&error))),
            // Before the first base, the place of telomeres.
            None => 0,
        };
        let is_wanted = |region: &Region| {
            region.chromosome == chromosome && (region.from..=region.to).contains(&position)
        };
        if !self.region.is_none_or(is_wanted) {
            self.left_out.outside_region += 1;
            return Ok(Line::LeftOut);
        }
        let site = format!("{}:{position}", chromosome.escape_debug());
        match self.sites.push(chromosome, position) {
            Ok(()) => {}
            Err(SiteOrderError::Duplicate) if self.duplicates == Duplicates::Skip => {
                self.left_out.duplicates += 1;
                return Ok(Line::LeftOut);
            }
            Err(SiteOrderError::Duplicate) => return Err(InputError::Duplicate { site }),
            Err(SiteOrderError::Behind(before)) => {
                return Err(InputError::Unsorted { site, before });
            }
            Err(SiteOrderError::ChromosomeAgain) => {
                return Err(InputError::Scattered(excerpt(chromosome)));
            }
        }
        if self.sites.len() > MAX_SITES as usize {
            return Err(InputError::TooManySites);
        }
        let alternatives = record.alternate_bases();
        let largest = largest_allele(alternatives.as_ref(), &site)?;
        self.largest = self.largest.max(largest);
        self.read_genotypes(&record.samples(), &site, largest)?;
        Ok(Line::Site)
    }

    fn read_genotypes(
        &mut self,
        samples: &vcf::record::Samples<'_>,
        site: &str,
        largest: u8,
    ) -> Result<(), InputError> {
        let Some(key) = samples.keys().iter().position(|key| key == "GT") else {
            return Err(InputError::NoGenotypes { site: site.into() });
        };
        let is_first = self.ploidies.is_empty();
        let mut found = 0;
        self.symbols.clear();
        for (number, sample) in samples.iter().enumerate() {
            found += 1;
            let Some(name) = self.samples.get(number) else {
                continue;
            };
            let call = sample.as_ref().split(':').nth(key).unwrap_or(".");
            let before = self.symbols.len();
            let about = || (excerpt(name), site.to_owned(), excerpt(call));
            read_call(call, largest, &mut self.symbols).map_err(|cause| cause.about(about()))?;
            let ploidy = self.symbols.len() - before;
            if is_first {
                self.ploidies.push(ploidy);
            } else if self.ploidies[number] != ploidy {
                return Err(InputError::Ploidy {
                    sample: excerpt(name),
                    site: site.into(),
                    found: ploidy,
                    expected: self.ploidies[number],
                });
            }
        }
        if self.samples.len() != found {
            return Err(InputError::Samples {
                found,
                expected: self.samples.len(),
            });
        }
        if self.symbols.len() > MAX_HAPLOTYPES as usize {
            return Err(InputError::TooManyHaplotypes);
        }
        Ok(())
    }
}

/// Largest allele number of a line with these alternatives.
fn largest_allele(alternatives: &str, site: &str) -> Result<u8, InputError> {
    let count = match alternatives {
        "" | "." => 0,
        some => some.split(',').count(),
    };
    u8::try_from(count)
        .ok()
        .filter(|&largest| largest <= MAX_ALLELE)
        .ok_or_else(|| InputError::Alleles {
            site: site.into(),
            found: count + 1,
        })
}

/// Error: the genotype cannot be used.
#[derive(Debug, PartialEq, Eq)]
enum CallError {
    Unphased,
    Missing,
    Malformed,
}

impl CallError {
    fn about(self, (sample, site, call): (String, String, String)) -> InputError {
        match self {
            Self::Unphased => InputError::Unphased { sample, site, call },
            Self::Missing => InputError::Missing { sample, site, call },
            Self::Malformed => InputError::Genotype { sample, site, call },
        }
    }
}

/// Appends the alleles of a genotype. An unphased one is accepted if all its alleles are equal.
///
/// `|` before an allele marks it as phased, `/` as unphased. From version 4.4 on (section 1.6.2 of the specification),
/// the first allele may have such a mark too. Without one it is unphased if any other allele is.
fn read_call(call: &str, largest: u8, symbols: &mut Vec<u8>) -> Result<(), CallError> {
    let alleles = call.strip_prefix(['|', '/']).unwrap_or(call);
    let start = symbols.len();
    for allele in alleles.split(['|', '/']) {
        symbols.push(match allele {
            "" | "." => return Err(CallError::Missing),
            _ if !allele.bytes().all(|digit| digit.is_ascii_digit()) => {
                return Err(CallError::Malformed);
            }
            digits => digits
                .parse()
                .ok()
                .filter(|&number| number <= largest)
                .ok_or(CallError::Malformed)?,
        });
    }
    let read = &symbols[start..];
    if call.contains('/') && read.iter().any(|allele| *allele != read[0]) {
        Err(CallError::Unphased)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn genotypes_are_alleles_in_order_or_refused() {
        let read = |call| {
            let mut symbols = Vec::new();
            read_call(call, 2, &mut symbols).map(|()| symbols)
        };
        assert_eq!(read("0|1"), Ok(vec![0, 1]));
        assert_eq!(read("2|1|0"), Ok(vec![2, 1, 0]));
        assert_eq!(read("1"), Ok(vec![1]));
        assert_eq!(read("|0|1"), Ok(vec![0, 1]));
        assert_eq!(read("1/1"), Ok(vec![1, 1]));
        for equal in ["/1|1", "|1/1", "/1/1"] {
            assert_eq!(read(equal), Ok(vec![1, 1]), "{equal}");
        }
        assert_eq!((read("/2"), read("|2")), (Ok(vec![2]), Ok(vec![2])));
        for unphased in ["0/1", "0|1/1", "/0/1", "/0|1", "|0/1", "/0|0|1", "|0|0/1"] {
            assert_eq!(read(unphased), Err(CallError::Unphased), "{unphased}");
        }
        for missing in ["", ".", ".|0", "0|.", "./.", "|", "0|"] {
            assert_eq!(read(missing), Err(CallError::Missing), "{missing}");
        }
        for malformed in ["3", "0|3", "x", "-1|0", "+1|0", "0\\1", "0|300", " 0|1"] {
            assert_eq!(read(malformed), Err(CallError::Malformed), "{malformed}");
        }
    }
}
