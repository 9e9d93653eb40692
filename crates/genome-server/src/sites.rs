//! Positions of the sites of a panel: on chromosomes, or the columns of an alignment.

use crate::error::GenomeError;
use oboro_format::Corruption;
use oboro_format::codec::{Reader, Writer};
use std::collections::HashMap;
use std::ops::Range;

/// Largest number of sites of a panel.
pub use oboro_genome::MAX_SITES;

/// Longest name of a chromosome or sequence, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 255;

/// Returns true if a chromosome or sequence can have this name.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.contains(char::is_control)
}

/// Position of one site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site<'a> {
    /// Chromosome; `None` in an alignment.
    pub chromosome: Option<&'a str>,
    /// Position there, or the column, from 1.
    pub position: u64,
}

/// Error: a site cannot follow those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SiteOrderError {
    /// Site with the position of the one before it.
    Duplicate,
    /// Site that precedes the one before it, which is at this position.
    Behind(u64),
    /// Site on a chromosome that has ended already.
    ChromosomeAgain,
}

/// All sites of a panel, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sites {
    /// Number of columns of an alignment.
    Columns(usize),
    Positions(Positions),
}

/// Strictly increasing positions on each of some chromosomes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Positions {
    /// Name of each, and the number of sites up to its last.
    chromosomes: Vec<(String, usize)>,
    /// Index of each chromosome, by name.
    numbers: HashMap<String, usize>,
    positions: Vec<u64>,
}

impl Positions {
    /// Adds a site behind all others.
    pub(crate) fn push(&mut self, chromosome: &str, position: u64) -> Result<(), SiteOrderError> {
        match self.chromosomes.last() {
            Some((name, _)) if name == chromosome => match self.positions.last() {
                Some(&last) if last == position => return Err(SiteOrderError::Duplicate),
                Some(&last) if last > position => return Err(SiteOrderError::Behind(last)),
                _ => {}
            },
            _ if self.numbers.contains_key(chromosome) => {
                return Err(SiteOrderError::ChromosomeAgain);
            }
            _ => {
                let number = self.chromosomes.len();
                self.numbers.insert(chromosome.to_owned(), number);
                self.chromosomes
                    .push((chromosome.to_owned(), self.positions.len()));
            }
        }
        self.positions.push(position);
        if let Some((_, end)) = self.chromosomes.last_mut() {
            *end += 1;
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.positions.len()
    }

    fn range(&self, chromosome: usize) -> Range<usize> {
        let start = chromosome
            .checked_sub(1)
            .map_or(0, |before| self.chromosomes[before].1);
        start..self.chromosomes[chromosome].1
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.chromosomes.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the sites of the requested chromosome, or of the only one.
    fn of(&self, chromosome: Option<&str>) -> Result<Range<usize>, GenomeError> {
        let known = || {
            const SHOWN: usize = 8;
            let mut names: Vec<_> = self.names().take(SHOWN).collect();
            if self.chromosomes.len() > SHOWN {
                names.push("…");
            }
            names.join(", ")
        };
        match chromosome {
            Some(wanted) => self
                .numbers
                .get(wanted)
                .map(|&found| self.range(found))
                .ok_or_else(|| GenomeError::NoChromosome {
                    given: wanted.chars().take(MAX_NAME_BYTES).collect(),
                    known: known(),
                }),
            None if self.chromosomes.len() == 1 => Ok(self.range(0)),
            None => Err(GenomeError::ChromosomeNeeded { known: known() }),
        }
    }
}

impl Sites {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Columns(columns) => *columns,
            Self::Positions(positions) => positions.len(),
        }
    }

    /// Returns site number `index`, from 0.
    ///
    /// # Panics
    /// If it does not exist.
    pub(crate) fn get(&self, index: usize) -> Site<'_> {
        assert!(index < self.len(), "there is no site {index}");
        match self {
            Self::Columns(_) => Site {
                chromosome: None,
                position: index as u64 + 1,
            },
            Self::Positions(sites) => {
                let chromosome = sites.chromosomes.partition_point(|&(_, end)| end <= index);
                Site {
                    chromosome: Some(&sites.chromosomes[chromosome].0),
                    position: sites.positions[index],
                }
            }
        }
    }

    /// Returns the end of a site's chromosome: the number of the site after its last.
    pub(crate) fn chromosome_end(&self, index: usize) -> usize {
        match self {
            Self::Columns(columns) => *columns,
            Self::Positions(sites) => {
                let chromosome = sites.chromosomes.partition_point(|&(_, end)| end <= index);
                sites.chromosomes[chromosome].1
            }
        }
    }

    /// Returns the number of the site at a position. The chromosome may be omitted if the panel has only one.
    pub(crate) fn find(
        &self,
        chromosome: Option<&str>,
        position: u64,
    ) -> Result<usize, GenomeError> {
        match self {
            Self::Columns(_) if chromosome.is_some() => Err(GenomeError::NoChromosomes),
            &Self::Columns(columns) => usize::try_from(position)
                .ok()
                .filter(|position| (1..=columns).contains(position))
                .map(|position| position - 1)
                .ok_or(GenomeError::NoColumn { position, columns }),
            Self::Positions(sites) => {
                let range = sites.of(chromosome)?;
                let there = &sites.positions[range.clone()];
                there
                    .binary_search(&position)
                    .map(|found| range.start + found)
                    .map_err(|next| GenomeError::NoSite {
                        position,
                        nearest: there[next.saturating_sub(1)..there.len().min(next + 1)]
                            .iter()
                            .map(u64::to_string)
                            .collect::<Vec<_>>()
                            .join(" and "),
                    })
            }
        }
    }

    pub(crate) fn encode(&self, index: &mut Writer) {
        let Self::Positions(sites) = self else {
            index.u32(0);
            return;
        };
        index.u32(sites.chromosomes.len() as u32);
        for (number, name) in sites.names().enumerate() {
            index
                .u32(name.len() as u32)
                .put(name.as_bytes())
                .u32(sites.range(number).len() as u32);
        }
        for &position in &sites.positions {
            index.u64(position);
        }
    }

    /// Decodes `count` sites.
    pub(crate) fn decode(index: &mut Reader<'_>, count: usize) -> Result<Self, Corruption> {
        let chromosomes = index.u32()?;
        if chromosomes == 0 {
            return Ok(Self::Columns(count));
        }
        let mut names = Vec::new();
        for _ in 0..chromosomes {
            names.push((decode_name(index)?, index.u32()?));
        }
        let mut sites = Positions::default();
        for (name, length) in &names {
            if *length == 0 {
                return Err(Corruption::Invalid(format!(
                    "chromosome {name:?} has no sites"
                )));
            }
            for _ in 0..*length {
                sites
                    .push(name, index.u64()?)
                    .map_err(|_| Corruption::Invalid("its sites are out of order".into()))?;
            }
        }
        if sites.len() != count || sites.chromosomes.len() != names.len() {
            return Err(Corruption::Invalid(
                "its chromosomes and its sites contradict each other".into(),
            ));
        }
        Ok(Self::Positions(sites))
    }
}

/// Decodes the name of a chromosome or sequence: its length, and UTF-8.
pub(crate) fn decode_name(index: &mut Reader<'_>) -> Result<String, Corruption> {
    let length = index.u32()? as usize;
    let bytes = index.bytes(length)?;
    std::str::from_utf8(bytes)
        .ok()
        .filter(|name| is_name(name))
        .map(str::to_owned)
        .ok_or_else(|| {
            Corruption::Invalid("it has a name that no chromosome or sequence has".into())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_chromosomes() -> Sites {
        let mut sites = Positions::default();
        for (chromosome, position) in [("1", 10), ("1", 20), ("X", 5), ("X", 7), ("X", 100)] {
            sites.push(chromosome, position).unwrap();
        }
        Sites::Positions(sites)
    }

    #[test]
    fn sites_are_found_where_they_lie() {
        let sites = two_chromosomes();
        for index in 0..sites.len() {
            let Site {
                chromosome,
                position,
            } = sites.get(index);
            assert_eq!(sites.find(chromosome, position).unwrap(), index);
        }
        let columns = Sites::Columns(3);
        assert_eq!(columns.find(None, 3).unwrap(), 2);
        assert_eq!(columns.get(2).position, 3);
    }

    #[test]
    fn a_site_that_is_not_there_is_refused_with_what_is() {
        let sites = two_chromosomes();
        let error = |chromosome, position| {
            let error = sites.find(chromosome, position).unwrap_err();
            error.to_string()
        };
        assert!(error(Some("X"), 50).contains("7 and 100"));
        assert!(error(Some("X"), 1).contains("is 5."));
        assert!(error(Some("X"), 101).contains("is 100."));
        assert!(error(Some("chrX"), 5).contains("1, X"));
        assert!(error(None, 5).contains("1, X"));
        let columns = Sites::Columns(3);
        for (chromosome, position) in [(None, 0), (None, 4), (Some("1"), 1)] {
            let text = columns.find(chromosome, position).unwrap_err().to_string();
            assert!(
                text.contains("1 to 3") || text.contains("no chromosomes"),
                "{text}"
            );
        }
    }

    #[test]
    fn sites_come_in_order() {
        let Sites::Positions(mut sites) = two_chromosomes() else {
            unreachable!("they have positions");
        };
        assert_eq!(sites.push("X", 100), Err(SiteOrderError::Duplicate));
        assert_eq!(sites.push("X", 7), Err(SiteOrderError::Behind(100)));
        assert_eq!(sites.push("1", 21), Err(SiteOrderError::ChromosomeAgain));
        assert_eq!(sites.len(), 5);
    }

    #[test]
    fn encoded_sites_decode_to_the_same() {
        for sites in [two_chromosomes(), Sites::Columns(9)] {
            let mut index = Writer::default();
            sites.encode(&mut index);
            let bytes = index.into_bytes();
            let decode = |count| Sites::decode(&mut Reader::new(&bytes), count);
            assert_eq!(decode(sites.len()).unwrap(), sites);
            if matches!(sites, Sites::Positions(_)) {
                assert!(decode(4).is_err() && decode(6).is_err());
            }
        }
    }
}
