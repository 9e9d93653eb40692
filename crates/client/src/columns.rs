//! Columns that were fetched: decrypted as they arrive, kept for the rest of the run, counted in here.
//!
//! What arrives is one sequence of bytes whose lengths follow from the owner's manifest. Headers of
//! segments are checked against the manifest and panels against headers, so no bit is taken from the
//! server on trust; and the server learns no more than which columns were wanted.

use crate::connection::Connection;
use crate::error::ClientError;
use crate::workers::{Pieces, with_workers};
use oboro_mining::{Bitmap, Dataset, Itemset};
use oboro_protocol::v1;
use oboro_ring::{Parameters, mask, pack};
use oboro_rlwe::{COLUMN_LIMB, ColumnDecryptor};
use oboro_store::{Manifest, SegmentHeader};
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

const DURING: &str = "fetching columns";

/// The columns that are here.
pub(crate) struct Columns<'a> {
    dataset: &'a Dataset,
    threads: NonZeroUsize,
    bitmap: Bitmap,
    /// Of all segments, or none yet.
    headers: Vec<Arc<SegmentHeader>>,
    log2_largest_phase: f64,
}

/// What one fetch cost.
#[derive(Default)]
pub(crate) struct Fetched {
    pub(crate) bytes: u64,
    /// What checking and decrypting took: the threads' mean.
    pub(crate) decrypting: Duration,
}

impl<'a> Columns<'a> {
    pub(crate) fn new(dataset: &'a Dataset, threads: NonZeroUsize) -> Self {
        let transactions = dataset.record().transactions;
        Self {
            dataset,
            threads,
            bitmap: Bitmap::empty(transactions, dataset.manifest().columns),
            headers: Vec::new(),
            log2_largest_phase: 0.0,
        }
    }

    pub(crate) fn has(&self, column: u32) -> bool {
        self.bitmap.column(column).is_some()
    }

    /// `log2` of the largest phase that was met while decrypting.
    pub(crate) fn log2_largest_phase(&self) -> f64 {
        self.log2_largest_phase
    }

    /// The bytes that so many more columns take.
    pub(crate) fn bytes_of(&self, columns: usize) -> u64 {
        if columns == 0 {
            return 0;
        }
        let manifest = self.dataset.manifest();
        let segments = manifest.segments.iter().map(|segment| (1, segment.blocks));
        let headers = match self.lacks_headers() {
            true => Headers::Sent,
            false => Headers::Known,
        };
        bytes_of(
            &manifest.parameters,
            manifest.columns,
            segments,
            headers,
            columns as u64,
        )
    }

    fn lacks_headers(&self) -> bool {
        self.headers.is_empty()
    }

    /// The supports of itemsets, given as columns, that are all here, unless `connection` is interrupted.
    ///
    /// # Errors
    /// Only [`ClientError::Interrupted`].
    ///
    /// # Panics
    /// If a column is not here.
    pub(crate) fn count(
        &self,
        connection: &Connection,
        itemsets: &[Itemset],
    ) -> Result<Vec<u64>, ClientError> {
        let share = itemsets.len().div_ceil(self.threads.get()).max(1);
        let supports = |part: &[Itemset]| {
            let mut supports = Vec::with_capacity(part.len());
            for some in part.chunks(self.uninterrupted()) {
                connection.check_interrupt()?;
                supports.extend(self.bitmap.supports(some).expect("the columns are here"));
            }
            Ok(supports)
        };
        thread::scope(|scope| {
            let workers: Vec<_> = itemsets
                .chunks(share)
                .map(|part| scope.spawn(move || supports(part)))
                .collect();
            let joined = workers.into_iter().map(|worker| worker.join());
            let counted: Result<Vec<_>, ClientError> = joined
                .map(|supports| supports.expect("counting does not panic"))
                .collect();
            Ok(counted?.concat())
        })
    }

    /// The number of itemsets that are counted in some ten milliseconds.
    fn uninterrupted(&self) -> usize {
        const WORDS: u64 = 1 << 25;
        let words = self.dataset.record().transactions / 64;
        usize::try_from(WORDS / words.max(1))
            .unwrap_or(1)
            .clamp(1, 1 << 16)
    }

    /// Fetches columns, ascending, under the name of the dataset at the server. `progress` hears the
    /// bytes received.
    ///
    /// # Errors
    /// As every call; bytes that are not those of the dataset.
    pub(crate) fn fetch(
        &mut self,
        connection: &Connection,
        name: &str,
        wanted: &[u32],
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Fetched, ClientError> {
        let manifest = self.dataset.manifest();
        let request = v1::FetchColumnsRequest {
            name: name.to_owned(),
            root: manifest.root().0.to_vec().into(),
            columns: wanted.to_vec(),
            headers: self.lacks_headers(),
        };
        let mut arriving = Arriving::new(manifest, &self.headers, wanted.len());
        let (received, decrypted) = with_workers(
            self.threads,
            |pieces| decrypt(self.dataset, wanted, pieces),
            |sender| {
                connection.wait(async {
                    let broken = |status| ClientError::from_status(&status, DURING);
                    let asked = connection.client().fetch_columns(request).await;
                    let mut stream = connection.answer(asked, DURING)?;
                    let mut bytes = 0;
                    while let Some(reply) = stream.message().await.map_err(broken)? {
                        bytes += reply.data.len() as u64;
                        progress(bytes);
                        if !arriving.take(&reply.data, |panel| sender.send(panel).is_ok())? {
                            // All workers have failed; their error says why.
                            break;
                        }
                    }
                    Ok(bytes)
                })
            },
        );
        let slots = manifest.block_count() as usize * manifest.parameters.degree();
        let mut columns = vec![vec![0; slots / 64]; wanted.len()];
        let mut busy = Duration::ZERO;
        let mut largest = self.log2_largest_phase;
        for worker in decrypted {
            let Decrypted {
                panels,
                log2_largest_phase,
                spent,
            } = worker?;
            for panel in panels {
                columns[panel.place][panel.first_word..][..panel.bits.len()]
                    .copy_from_slice(&panel.bits);
            }
            busy += spent;
            largest = largest.max(log2_largest_phase);
        }
        let bytes = received?;
        let headers = arriving.finish()?;
        self.headers = headers;
        self.log2_largest_phase = largest;
        for (&number, column) in wanted.iter().zip(columns) {
            self.bitmap.insert(number, column);
        }
        Ok(Fetched {
            bytes,
            decrypting: busy.div_f64(self.threads.get() as f64),
        })
    }
}

/// Whether headers come with columns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Headers {
    Sent,
    Known,
}

/// The bytes of `wanted` of a dataset's columns; `segments` tells how many segments it has of how many
/// blocks.
pub(crate) fn bytes_of(
    parameters: &Parameters,
    columns: u32,
    segments: impl IntoIterator<Item = (u64, u32)>,
    headers: Headers,
    wanted: u64,
) -> u64 {
    let bytes = |(count, blocks): (u64, u32)| {
        let header = match headers {
            Headers::Sent => header_bytes(parameters, columns, blocks),
            Headers::Known => 0,
        };
        wanted
            .saturating_mul(panel_bytes(parameters, blocks) as u64)
            .saturating_add(header as u64)
            .saturating_mul(count)
    };
    segments.into_iter().map(bytes).fold(0, u64::saturating_add)
}

fn header_bytes(parameters: &Parameters, columns: u32, blocks: u32) -> usize {
    let bytes = SegmentHeader::bytes(parameters, columns, blocks);
    bytes.expect("datasets have possible segments") as usize
}

fn panel_bytes(parameters: &Parameters, blocks: u32) -> usize {
    pack::packed_len(blocks as usize * parameters.degree())
}

/// A part of what arrives.
struct Part {
    segment: usize,
    content: Content,
    bytes: usize,
}

enum Content {
    Header,
    /// Of the column at this place among those wanted.
    Panel {
        place: usize,
    },
}

/// Everything that arrives, in order.
fn parts(manifest: &Manifest, headers: bool, columns: usize) -> impl Iterator<Item = Part> {
    let parameters = &manifest.parameters;
    manifest
        .segments
        .iter()
        .enumerate()
        .flat_map(move |(segment, entry)| {
            let header = headers.then(|| Part {
                segment,
                content: Content::Header,
                bytes: header_bytes(parameters, manifest.columns, entry.blocks),
            });
            let bytes = panel_bytes(parameters, entry.blocks);
            header
                .into_iter()
                .chain((0..columns).map(move |place| Part {
                    segment,
                    content: Content::Panel { place },
                    bytes,
                }))
        })
}

/// Puts parts together from the pieces in which they come.
struct Arriving<'a> {
    manifest: &'a Manifest,
    parts: Box<dyn Iterator<Item = Part> + Send + 'a>,
    next: Option<Part>,
    /// Of the next part, as far as it has come.
    bytes: Vec<u8>,
    headers: Vec<Arc<SegmentHeader>>,
    /// The segment whose panels come.
    segment: Option<Arc<Segment>>,
}

/// A segment and its masks modulo the limb that columns are decrypted from.
struct Segment {
    number: usize,
    header: Arc<SegmentHeader>,
    masks: OnceLock<Vec<u32>>,
}

/// A panel that has arrived.
struct Panel {
    segment: Arc<Segment>,
    place: usize,
    packed: Vec<u8>,
}

impl<'a> Arriving<'a> {
    /// Headers come first if none are here.
    fn new(manifest: &'a Manifest, headers: &[Arc<SegmentHeader>], columns: usize) -> Self {
        let mut parts = parts(manifest, headers.is_empty(), columns);
        Self {
            manifest,
            next: parts.next(),
            parts: Box::new(parts),
            bytes: Vec::new(),
            headers: headers.to_vec(),
            segment: None,
        }
    }

    /// Takes what has come and gives complete panels away; `false` once nobody wants them.
    fn take(
        &mut self,
        mut data: &[u8],
        mut give: impl FnMut(Panel) -> bool,
    ) -> Result<bool, ClientError> {
        while !data.is_empty() {
            let part = self.next.as_ref().ok_or(ClientError::TooMuch)?;
            let taken = data.len().min(part.bytes - self.bytes.len());
            self.bytes.extend_from_slice(&data[..taken]);
            data = &data[taken..];
            if self.bytes.len() < part.bytes {
                continue;
            }
            let (segment, packed) = (part.segment, std::mem::take(&mut self.bytes));
            match part.content {
                Content::Header => {
                    let header = SegmentHeader::decode(&packed, self.manifest, segment as u32)
                        .map_err(ClientError::Altered)?;
                    self.headers.push(Arc::new(header));
                }
                Content::Panel { place } => {
                    let segment = self.segment(segment);
                    let panel = Panel {
                        segment,
                        place,
                        packed,
                    };
                    if !give(panel) {
                        return Ok(false);
                    }
                }
            }
            self.next = self.parts.next();
        }
        Ok(true)
    }

    fn segment(&mut self, number: usize) -> Arc<Segment> {
        if let Some(segment) = self.segment.as_ref().filter(|it| it.number == number) {
            return Arc::clone(segment);
        }
        let segment = Arc::new(Segment {
            number,
            header: Arc::clone(&self.headers[number]),
            masks: OnceLock::new(),
        });
        self.segment = Some(Arc::clone(&segment));
        segment
    }

    /// The headers of all segments, if everything has come.
    fn finish(self) -> Result<Vec<Arc<SegmentHeader>>, ClientError> {
        match self.next {
            None => Ok(self.headers),
            Some(_) => Err(ClientError::Broken {
                during: DURING,
                cause: "the answer ended early".to_owned(),
            }),
        }
    }
}

impl Segment {
    /// The masks of all blocks in a row, expanded when first asked for.
    fn masks(&self) -> &[u32] {
        self.masks.get_or_init(|| {
            let description = self.header.description();
            let degree = description.parameters.degree();
            let mut masks = vec![0; description.seeds.len() * degree];
            for (seed, mask) in description.seeds.iter().zip(masks.chunks_exact_mut(degree)) {
                mask::expand(seed, &description.parameters, COLUMN_LIMB, mask);
            }
            masks
        })
    }
}

/// What one thread has decrypted.
#[derive(Default)]
struct Decrypted {
    panels: Vec<Bits>,
    log2_largest_phase: f64,
    spent: Duration,
}

/// A decrypted panel.
struct Bits {
    place: usize,
    /// Where it goes in its column.
    first_word: usize,
    bits: Zeroizing<Vec<u64>>,
}

/// One thread: checks and decrypts panels until there are no more.
fn decrypt(
    dataset: &Dataset,
    wanted: &[u32],
    panels: &Pieces<Panel>,
) -> Result<Decrypted, ClientError> {
    let mut decrypted = Decrypted::default();
    while let Some(panel) = panels.next() {
        let begun = Instant::now();
        let column = wanted[panel.place];
        let header = &panel.segment.header;
        header
            .check_panel(COLUMN_LIMB, column as usize, &panel.packed)
            .map_err(ClientError::Altered)?;
        let degree = header.description().parameters.degree();
        let mut decryptor = ColumnDecryptor::new(dataset.key(), column);
        let mut bits = Zeroizing::new(vec![0; header.description().seeds.len() * degree / 64]);
        let blocks = panel
            .packed
            .chunks_exact(pack::packed_len(degree))
            .zip(panel.segment.masks().chunks_exact(degree));
        for ((packed, mask), bits) in blocks.zip(bits.chunks_exact_mut(degree / 64)) {
            decryptor.decrypt(mask, packed, bits)?;
        }
        decrypted.panels.push(Bits {
            place: panel.place,
            first_word: header.description().first_block as usize * degree / 64,
            bits,
        });
        decrypted.log2_largest_phase = decrypted
            .log2_largest_phase
            .max(decryptor.log2_largest_phase());
        decrypted.spent += begun.elapsed();
    }
    Ok(decrypted)
}
