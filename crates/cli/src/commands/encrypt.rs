//! `oboro encrypt`: encrypts transactions into a dataset directory, or appends to one.

use crate::arguments::{InputArguments, KeyArguments, NameList, ThreadArguments, names};
use crate::failure::{Failure, Outcome};
use crate::interrupt::{unless, watched};
use crate::output::{Output, Unit, bytes, seconds};
use bytesize::ByteSize;
use oboro_client::forget_kept;
use oboro_dataset::{Dataset, DatasetPlan, NewItems, PAIR_COLUMNS, Shuffled, Target};
use oboro_format::files::free_bytes;
use oboro_input::readers::STANDARD_INPUT;
use oboro_input::{
    HowRead, MinSupport, Name, ReadOptions, TransactionsBuilder, escaped, read_next,
};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Once;
use std::time::Instant;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  oboro encrypt baskets.csv --max-len 3\n  oboro encrypt admissions.csv --format csv-long --transaction-column hadm_id --item-column icd_code\n  oboro encrypt --append-to baskets.oboro today.csv --new-items drop"
)]
pub struct Arguments {
    #[command(flatten)]
    input: InputArguments,
    #[command(flatten)]
    key: KeyArguments,
    /// Dataset directory to create [default: INPUT's name, with .oboro in place of .dat, .csv, .parquet and the like].
    #[arg(long, value_name = "DIR", conflicts_with = "append_to")]
    out: Option<PathBuf>,
    /// Append the transactions to this dataset directory, which has the same items.
    #[arg(long, value_name = "DIR")]
    append_to: Option<PathBuf>,
    /// Maximum length of itemsets that the server counts on ciphertext: up to 4 verified, longer ones unverified.
    /// Longer itemsets need larger ciphertexts; sealed cells allow any length.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 4,
        conflicts_with = "append_to"
    )]
    max_len: usize,
    /// Leave out items below this support: a fraction (0.01, 1%) or a count (250). With --append-to, refuse to leave out
    /// items that may reach it.
    #[arg(long, value_name = "SUPPORT")]
    min_item_support: Option<MinSupport>,
    /// Treatment of new items, with --append-to: refuse the file; drop them, which raises the lowest minimum support
    /// that `mine` accepts; or encrypt everything again with columns for them (re-encrypt).
    #[arg(
        long,
        value_name = "WHAT",
        requires = "append_to",
        default_value = "refuse"
    )]
    new_items: NewItemsChoice,
    /// Leave the segments of earlier appends unchanged, now and in later appends of this dataset. By default,
    /// --append-to encrypts the youngest small ones again with its own transactions to share blocks. Required if the
    /// upload has only the role append.
    #[arg(long, requires = "append_to")]
    no_absorb: bool,
    /// Undo --no-absorb, with --append-to.
    #[arg(long, requires = "append_to", conflicts_with = "no_absorb")]
    absorb: bool,
    /// Items for `oboro pairs`, up to 64, separated by commas, names with commas in double quotes. Required only with
    /// more items than --pair-columns; otherwise `oboro pairs` counts every item.
    #[arg(long, value_name = "ITEMS", value_parser = names, conflicts_with = "append_to")]
    focus: Vec<NameList>,
    /// Number of items, by support, of which the server counts all pairs and longer itemsets verifiably: up to 4,096. DIR
    /// grows by 8 bytes a pair for each of its parts. Other frequent items are mined in sealed cells.
    #[arg(long, value_name = "N", default_value_t = PAIR_COLUMNS, conflicts_with = "append_to")]
    pair_columns: usize,
    /// Maximum memory, not counting item names, row ids and working memory of threads. Transactions that take more than
    /// half of it go to a file without a name in TMPDIR, which must be on a disk, or else in /var/tmp [default: they
    /// stay in memory].
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// Print the data to encrypt and their size, and write nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    threads: ThreadArguments,
}

/// Values of --new-items.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum NewItemsChoice {
    Refuse,
    Drop,
    ReEncrypt,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let new_items = arguments.new_items()?;
    if arguments.input.input.as_os_str() == STANDARD_INPUT
        && arguments.out.is_none()
        && arguments.append_to.is_none()
    {
        return Err(Failure::input(
            "standard input has no name for the dataset; give --out DIR",
        ));
    }
    let key = arguments.key.load()?;
    let appended_to = arguments
        .append_to
        .as_deref()
        .map(|directory| Dataset::open(directory, &key))
        .transpose()?;
    let before = appended_to
        .as_ref()
        .and_then(|it| it.record().read.as_ref());
    let input = &arguments.input.input;
    let memory = arguments.memory.map(|it| it.as_u64());
    let options = ReadOptions {
        memory,
        ..arguments.input.reading.options()
    };
    let (transactions, how) = match read_next(input, options, before) {
        // An empty append is not an error.
        Err(error) if appended_to.is_some() && error.is_of_no_transactions() => {
            (TransactionsBuilder::new().finish(), None)
        }
        read => read.map(|(transactions, how)| (transactions, Some(how)))?,
    };
    let new_columns = match &appended_to {
        Some(dataset) => dataset.count_new_items(transactions.names()),
        None => 0,
    };
    let mut rows = Shuffled::of(transactions).within(memory);
    let items_read = rows.names().len();
    if let (None, Some(min_support)) = (&appended_to, arguments.min_item_support) {
        rows = rows.restrict(min_support);
    }
    let left_out = match &appended_to {
        Some(_) if new_items == NewItems::Reencrypt => 0,
        Some(_) => new_columns,
        None => items_read - rows.names().len(),
    };
    rows = rows.with_focus(arguments.focus.concat());
    rows = rows.with_pair_columns(arguments.pair_columns);
    rows = rows.absorbing(match (arguments.absorb, arguments.no_absorb) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    });
    if let Some(how) = &how {
        rows = rows.with_how_read(how.clone());
    }
    let directory = arguments.directory();
    let (expected_bytes, parameters) = match &appended_to {
        Some(dataset) => {
            let bytes = if new_items == NewItems::Reencrypt && new_columns > 0 {
                dataset.reencrypted_bytes(new_columns, rows.len() as u64)?
            } else {
                dataset.appended_bytes(&rows)?
            };
            (bytes, dataset.manifest().parameters.clone())
        }
        None => {
            let plan = DatasetPlan::of(&rows, arguments.max_len)?;
            (plan.bytes, plan.parameters)
        }
    };
    if appended_to.is_none() {
        rows.check_memory(parameters.degree(), 0)?;
    }
    let free_bytes = free_bytes(&directory);
    let announcement = || {
        let free = free_bytes.map_or_else(String::new, |free| format!(", {} free", bytes(free)));
        let how = how.as_ref().map_or_else(String::new, HowRead::to_string);
        format!(
            "read {} as {how}\nthe ciphertext takes {} in {}{free}\n",
            escaped(&input.display().to_string()),
            bytes(expected_bytes),
            escaped(&directory.display().to_string()),
        )
    };
    if let Some(dataset) = appended_to.as_ref().filter(|_| !rows.is_empty()) {
        dataset.check_append(&rows, new_items)?;
    }
    let absorbed = match &appended_to {
        Some(dataset) if !rows.is_empty() => dataset.absorbed_transactions(&rows)?,
        _ => 0,
    };
    if arguments.dry_run {
        let value = json!({
            "directory": directory,
            "transactions": rows.len(),
            "items": rows.names().len(),
            "items_left_out": left_out,
            "new_items": new_columns,
            "absorbed_transactions": absorbed,
            "expected_bytes": expected_bytes,
            "free_bytes": free_bytes,
            "read": how,
        });
        return output.result(&value, || {
            format!(
                "{}would encrypt {} transactions × {} items\n",
                announcement(),
                rows.len(),
                rows.names().len()
            )
        });
    }
    let begun = Instant::now();
    let bar = output.bar("encrypting", Unit::BlockColumns);
    let announced = Once::new();
    let interrupt = watched();
    let progress = |done, total| {
        announced.call_once(|| {
            // If this cannot be printed, the result will fail as well.
            let _ = output.note(announcement);
        });
        bar.set(done, total);
        unless(&interrupt)
    };
    let threads = arguments.threads.count();
    let is_append = appended_to.is_some();
    let is_nothing = is_append && rows.is_empty();
    let reencrypts = new_items == NewItems::Reencrypt && new_columns > 0;
    let dataset = match appended_to {
        Some(dataset) if rows.is_empty() => Ok(dataset),
        Some(dataset) => {
            if reencrypts {
                // Before the re-encryption as well: a crash must not leave old caches behind.
                forget_kept(dataset.bundle())?;
            }
            dataset.append(rows, new_items, threads, &progress)
        }
        None => Dataset::create(
            rows,
            &key,
            Target::New(&directory),
            arguments.max_len,
            threads,
            &progress,
        ),
    };
    bar.finish();
    let dataset = dataset?;
    if reencrypts {
        forget_kept(dataset.bundle())?;
    }
    let (manifest, record) = (dataset.manifest(), dataset.record());
    let elapsed = begun.elapsed();
    let directory = dataset.bundle().directory();
    let relied_on = dataset.trust()?.relied_on.is_some();
    let focus = record.focus_names();
    let compaction = dataset.compaction(false)?;
    let compaction = compaction.filter(|it| is_append && it.pays());
    let value = json!({
        "directory": directory,
        "dataset": manifest.dataset.to_string(),
        "version": manifest.version,
        "root": manifest.root().to_string(),
        "transactions": record.transactions,
        "items": record.names.len(),
        "items_left_out": left_out,
        "min_item_support": record.min_item_support,
        "blocks": manifest.block_count(),
        "degree": manifest.parameters.degree(),
        "limbs": manifest.parameters.limb_count(),
        "plaintext_modulus": manifest.parameters.plaintext_modulus(),
        "max_len": manifest.max_len,
        "stored_bytes": manifest.segment_bytes(),
        "noise_norm": record.noise_norm,
        "noise_peak": record.noise_peak,
        "noise_plaintext_peak": record.noise_plaintext_peak,
        "encrypt_seconds": elapsed.as_secs_f64(),
        "relied_on": relied_on,
        "focus": focus,
        "absorbed_transactions": absorbed,
        "expected_bytes": expected_bytes,
        "free_bytes": free_bytes,
        "read": how,
        "compaction_pays": compaction.is_some(),
    });
    output.result(&value, || {
        if is_nothing {
            return format!(
                "nothing to append: {} has no transactions, and version {} stays as it is\n",
                escaped(&input.display().to_string()),
                manifest.version
            );
        }
        format!(
            "encrypted {} transactions × {} items in {}\n  {} in {}: {} blocks of {} slots, {} limbs, itemsets of up to {}\n{}{}{}{}{}",
            record.transactions,
            record.names.len(),
            seconds(elapsed),
            bytes(manifest.segment_bytes()),
            escaped(&directory.display().to_string()),
            manifest.block_count(),
            manifest.parameters.degree(),
            manifest.parameters.limb_count(),
            manifest.max_len,
            match left_out {
                0 => String::new(),
                _ if is_append => format!(
                    "  {left_out} items without a column left out: minimum supports below {} will be refused\n",
                    record.min_item_support
                ),
                _ => format!(
                    "  {left_out} items in fewer than {0} transactions left out: minimum supports below {0} will be refused\n",
                    record.min_item_support
                ),
            },
            match focus[..] {
                [] if arguments.focus.is_empty() => String::new(),
                [] => "  --focus was not needed: `oboro pairs` works for each item\n".to_owned(),
                _ => {
                    let names: Vec<String> = focus.iter().map(|it| Name(it).to_string()).collect();
                    format!("  for `oboro pairs`: {}\n", names.join(", "))
                }
            },
            match absorbed {
                0 => String::new(),
                _ => format!(
                    "  {absorbed} transactions of earlier appends were encrypted again with the new ones, so the upload replaces their segments\n"
                ),
            },
            match &compaction {
                Some(it) => format!(
                    "  `oboro compact` would put {} blocks into {} and save {}\n",
                    it.blocks,
                    it.blocks_after,
                    bytes(it.bytes - it.bytes_after)
                ),
                None => String::new(),
            },
            if relied_on {
                "  the server was trusted before (--trust-server): if it lied, it may read the data of that time; each append has its own secrets\n"
            } else {
                ""
            },
        )
    })
}

impl Arguments {
    fn new_items(&self) -> Result<NewItems, Failure> {
        match (self.new_items, self.min_item_support) {
            (NewItemsChoice::Drop, below) => Ok(NewItems::Drop { below }),
            (NewItemsChoice::Refuse | NewItemsChoice::ReEncrypt, Some(_))
                if self.append_to.is_some() =>
            {
                Err(Failure::from(
                    "--min-item-support with --append-to bounds the items left out; add --new-items drop",
                ))
            }
            (NewItemsChoice::Refuse, _) => Ok(NewItems::Refuse),
            (NewItemsChoice::ReEncrypt, _) => Ok(NewItems::Reencrypt),
        }
    }

    fn directory(&self) -> PathBuf {
        self.append_to
            .clone()
            .or_else(|| self.out.clone())
            .unwrap_or_else(|| {
                let name = self
                    .input
                    .input
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy();
                let packed = [".gz", ".zst", ".zstd"]
                    .iter()
                    .find_map(|end| name.strip_suffix(end));
                let plain = packed.unwrap_or(&name);
                let ends = [
                    ".dat", ".csv", ".txt", ".tsv", ".parquet", ".arrow", ".feather",
                ];
                let stem = ends.iter().find_map(|end| plain.strip_suffix(end));
                PathBuf::from(format!("{}.oboro", stem.unwrap_or(plain)))
            })
    }
}
