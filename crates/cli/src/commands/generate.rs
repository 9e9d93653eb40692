//! `oboro generate`: writes synthetic transactions.

use crate::failure::Outcome;
use crate::output::{Output, OutputFile};
use oboro_input::{QuestParameters, writers::write_fimi};
use serde_json::json;
use std::path::PathBuf;

/// The defaults are the papers' setting.
#[derive(clap::Args)]
pub struct Arguments {
    /// FIMI file to write; an existing one is never replaced.
    #[arg(value_name = "OUTPUT")]
    output: PathBuf,
    /// Number of transactions.
    #[arg(long, default_value_t = QuestParameters::default().transactions)]
    transactions: u64,
    /// Number of items.
    #[arg(long, default_value_t = QuestParameters::default().items)]
    items: u32,
    /// Number of patterns that transactions are built from.
    #[arg(long, default_value_t = QuestParameters::default().patterns)]
    patterns: u32,
    /// Mean number of items in a transaction.
    #[arg(long, default_value_t = QuestParameters::default().transaction_length)]
    transaction_length: f64,
    /// Mean number of items in a pattern.
    #[arg(long, default_value_t = QuestParameters::default().pattern_length)]
    pattern_length: f64,
    /// Seed of the generator: the same seed gives the same file.
    #[arg(long, default_value_t = QuestParameters::default().seed)]
    seed: u64,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let parameters = QuestParameters {
        transactions: arguments.transactions,
        items: arguments.items,
        patterns: arguments.patterns,
        transaction_length: arguments.transaction_length,
        pattern_length: arguments.pattern_length,
        seed: arguments.seed,
        ..QuestParameters::default()
    };
    let file = OutputFile::prepare_new(&arguments.output)?;
    let transactions = parameters.generate()?;
    let mut text = Vec::new();
    write_fimi(&transactions, &mut text)?;
    file.write(&text)?;
    let value = json!({
        "output": arguments.output,
        "transactions": transactions.len(),
        "items": transactions.item_count(),
        "bytes": text.len(),
    });
    output.result(&value, || {
        format!(
            "wrote {} transactions of {} items to {}\n",
            transactions.len(),
            transactions.item_count(),
            arguments.output.display()
        )
    })
}
