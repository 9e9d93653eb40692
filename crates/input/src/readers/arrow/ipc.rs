//! Reads Arrow IPC message by message. Each is read in full, and its sizes are checked before it is decoded.

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, StreamDecoder, read_footer_length};
use arrow_ipc::{Block, root_as_footer, root_as_message};
use arrow_schema::{ArrowError, SchemaRef};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;

/// The reason given for a table with impossible sizes or positions.
pub(super) const CONTRADICTION: &str = "it contradicts itself";

/// The marker before a message's length, since 2019.
const CONTINUATION: &[u8] = &[0xff; 4];

/// The most bytes between the last message of a file and its index: the end marker and alignment.
const SLACK: u64 = 128;

/// Batches of a stream.
pub(super) struct Stream<R> {
    input: BufReader<R>,
    decoder: StreamDecoder,
    /// The bytes of the current message that are not yet decoded.
    message: Buffer,
    ended: bool,
    /// The first batch, if it was decoded with the schema.
    ahead: Option<RecordBatch>,
}

impl<R: Read> Stream<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input: BufReader::new(input),
            decoder: StreamDecoder::new(),
            message: Buffer::default(),
            ended: false,
            ahead: None,
        }
    }

    pub(super) fn schema(&mut self) -> Result<SchemaRef, ArrowError> {
        loop {
            if let Some(schema) = self.decoder.schema() {
                return Ok(schema);
            }
            self.ahead = self.next()?;
            if self.ended && self.decoder.schema().is_none() {
                return Err(ArrowError::IpcError("it has no columns".to_owned()));
            }
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        if let Some(batch) = self.ahead.take() {
            return Ok(Some(batch));
        }
        loop {
            // A message without a body is decoded when the next begins.
            if let Some(batch) = self.decoder.decode(&mut self.message)? {
                return Ok(Some(batch));
            }
            if self.ended {
                self.decoder.finish()?;
                if self.input.read(&mut [0])? > 0 {
                    let more = "more follows its end, such as another stream";
                    return Err(ArrowError::IpcError(more.to_owned()));
                }
                return Ok(None);
            }
            self.message = Buffer::from_vec(self.read()?);
        }
    }

    /// Reads the next message, or the end marker.
    fn read(&mut self) -> Result<Vec<u8>, ArrowError> {
        let mut message = Vec::new();
        append(&mut self.input, 4, &mut message)?;
        if message == CONTINUATION {
            append(&mut self.input, 4, &mut message)?;
        }
        let length = message.last_chunk().copied().map_or(0, u32::from_le_bytes);
        self.ended = length == 0;
        if self.ended {
            return Ok(message);
        }
        let head = message.len();
        append(&mut self.input, length.into(), &mut message)?;
        let body = message.len();
        let described = root_as_message(&message[head..]).map_err(|_| contradicts_itself())?;
        let length = described.bodyLength();
        let length = u64::try_from(length).map_err(|_| contradicts_itself())?;
        append(&mut self.input, length, &mut message)?;
        let (described, body) = message.split_at(body);
        check_sizes(&described[head..], body)?;
        Ok(message)
    }
}

/// Batches of a file, by its index.
pub(super) struct File<R> {
    input: R,
    decoder: FileDecoder,
    schema: SchemaRef,
    batches: std::vec::IntoIter<Block>,
    /// The offset of the index.
    end: u64,
}

impl<R: Read + Seek> File<R> {
    pub(super) fn new(mut input: R) -> Result<Self, ArrowError> {
        const TAIL: u64 = 10;
        let length = input.seek(SeekFrom::End(0))?;
        let tail = length.checked_sub(TAIL).ok_or_else(is_cut_off)?;
        input.seek(SeekFrom::Start(tail))?;
        let mut bytes = [0; TAIL as usize];
        input.read_exact(&mut bytes)?;
        let footer = read_footer_length(bytes).map_err(|_| is_cut_off())? as u64;
        let end = tail.checked_sub(footer).ok_or_else(contradicts_itself)?;
        input.seek(SeekFrom::Start(end))?;
        let mut bytes = Vec::new();
        append(&mut input, footer, &mut bytes)?;
        let footer = root_as_footer(&bytes).map_err(|_| contradicts_itself())?;
        let schema = footer.schema().ok_or_else(contradicts_itself)?;
        let schema = Arc::new(try_fb_to_schema(schema)?);
        let dictionaries: Vec<Block> = footer.dictionaries().iter().flatten().copied().collect();
        let batches: Vec<Block> = footer.recordBatches().iter().flatten().copied().collect();
        let mut used = 0;
        for block in dictionaries.iter().chain(&batches) {
            used = used.max(place(block, end)?.1);
        }
        if used > 0 && used + SLACK < end {
            let more = "its index leaves much of it out: it may be two files in one";
            return Err(ArrowError::IpcError(more.to_owned()));
        }
        let mut decoder = FileDecoder::new(schema.clone(), footer.version());
        for block in dictionaries {
            let message = read_block(&mut input, &block, end)?;
            decoder.read_dictionary(&block, &message)?;
        }
        Ok(Self {
            input,
            decoder,
            schema,
            batches: batches.into_iter(),
            end,
        })
    }

    pub(super) fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        for block in self.batches.by_ref() {
            let message = read_block(&mut self.input, &block, self.end)?;
            if let Some(batch) = self.decoder.read_record_batch(&block, &message)? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

/// Returns the start and end of a message in a file whose index begins at `end`, and the length of its metadata.
fn place(block: &Block, end: u64) -> Result<(u64, u64, usize), ArrowError> {
    let places = || {
        let start = u64::try_from(block.offset()).ok()?;
        let description = usize::try_from(block.metaDataLength()).ok()?;
        let body = u64::try_from(block.bodyLength()).ok()?;
        let stop = start.checked_add(description as u64)?.checked_add(body)?;
        (stop <= end).then_some((start, stop, description))
    };
    places().ok_or_else(contradicts_itself)
}

fn read_block(
    input: &mut (impl Read + Seek),
    block: &Block,
    end: u64,
) -> Result<Buffer, ArrowError> {
    let (start, stop, description) = place(block, end)?;
    input.seek(SeekFrom::Start(start))?;
    let mut message = Vec::new();
    append(input, stop - start, &mut message)?;
    let (described, body) = message.split_at(description);
    let head = if described.starts_with(CONTINUATION) {
        8
    } else {
        4
    };
    let described = described.get(head..).ok_or_else(contradicts_itself)?;
    check_sizes(described, body)?;
    Ok(Buffer::from_vec(message))
}

/// Reads `length` bytes, allocating memory only for bytes that are present.
fn append(input: &mut impl Read, length: u64, message: &mut Vec<u8>) -> Result<(), ArrowError> {
    let read = input.take(length).read_to_end(message)?;
    if (read as u64) < length {
        return Err(is_cut_off());
    }
    Ok(())
}

/// Rejects a message whose compressed buffers claim sizes larger than memory. The decoder would allocate these sizes,
/// and the process would abort.
fn check_sizes(described: &[u8], body: &[u8]) -> Result<(), ArrowError> {
    let described = root_as_message(described).map_err(|_| contradicts_itself())?;
    let batch = described.header_as_record_batch();
    let batch = batch.or_else(|| described.header_as_dictionary_batch()?.data());
    let Some(batch) = batch.filter(|it| it.compression().is_some()) else {
        return Ok(());
    };
    for part in batch.buffers().iter().flatten() {
        let start = usize::try_from(part.offset()).ok();
        let size = start.and_then(|start| body.get(start..)?.first_chunk());
        // The decoder reports an invalid size.
        let size = size.and_then(|size| usize::try_from(i64::from_le_bytes(*size)).ok());
        let mut memory = Vec::<u8>::new();
        if memory.try_reserve_exact(size.unwrap_or(0)).is_err() {
            return Err(contradicts_itself());
        }
    }
    Ok(())
}

fn contradicts_itself() -> ArrowError {
    ArrowError::IpcError(CONTRADICTION.to_owned())
}

fn is_cut_off() -> ArrowError {
    ArrowError::IpcError("it is cut off".to_owned())
}
