//! `oboro plan`: cost of encrypting and mining, and the choice of parameters.

mod words;

use crate::arguments::{ReadArguments, ThreadArguments};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, bytes};
use oboro_client::{LevelForecast, Prospect, RouteForecast};
use oboro_dataset::{DatasetPlan, PAIR_COLUMNS};
use oboro_format::{BLOCKS_PER_SEGMENT, ErrorClass, MAX_ROW_ID_BYTES};
use oboro_input::{HowRead, MinSupport, read_path};
use oboro_ring::{pack, security_bound};
use oboro_rlwe::{Alternative, Verdict, alternatives};
use serde_json::{Value, json};
use std::path::PathBuf;
use words::Words;

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  oboro plan baskets.csv --max-len 3 --explain")]
pub struct Arguments {
    /// Transactions to plan for: FIMI or CSV, plain, gzip or zstd; Parquet or Arrow; - for standard input.
    #[arg(value_name = "INPUT", required_unless_present_all = ["transactions", "items"])]
    input: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadArguments,
    /// Leave out items below this support: a fraction (0.01, 1%) or a count (250).
    #[arg(long, value_name = "SUPPORT", requires = "input")]
    min_item_support: Option<MinSupport>,
    /// Number of transactions, without a file.
    #[arg(long, value_name = "T", conflicts_with = "input", requires = "items")]
    transactions: Option<u64>,
    /// Number of items, without a file.
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "input",
        requires = "transactions"
    )]
    items: Option<u32>,
    /// Bytes of the longest row id, without a file; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "input", requires = "transactions",
        value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_ROW_ID_BYTES)))]
    row_id_bytes: u32,
    /// Maximum length of itemsets that the server counts on ciphertext: up to 4 verified, longer ones unverified.
    #[arg(long, value_name = "N", default_value_t = 4)]
    max_len: usize,
    /// Number of frequent items; longer itemsets have no other items [default: all].
    #[arg(long, value_name = "N")]
    frequent_items: Option<u32>,
    /// Minimum support of the run to plan for, which determines the number of frequent items: a fraction (0.01, 1%) or
    /// a count (250).
    #[arg(
        long,
        value_name = "SUPPORT",
        requires = "input",
        conflicts_with = "frequent_items"
    )]
    min_support: Option<MinSupport>,
    /// Maximum number of unverified itemsets requested at a length; verified answers cover all itemsets of a length
    /// [default: all].
    #[arg(long, value_name = "N")]
    itemsets: Option<u64>,
    /// Number of items, by support, of which the server counts itemsets verifiably: up to 4,096.
    #[arg(long, value_name = "N", default_value_t = PAIR_COLUMNS)]
    pair_columns: usize,
    /// Compare the ways to compute supports, and show the rejected parameters with the reasons.
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    threads: ThreadArguments,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let Size {
        transactions,
        items,
        longest_row_id,
        frequent,
        how,
    } = arguments.size()?;
    let plan = DatasetPlan::new(
        transactions,
        items as usize,
        longest_row_id,
        arguments.max_len,
    )?;
    let (max_len, stored_bytes) = (plan.max_len, plan.bytes);
    let planned = NewDataset {
        prospect: Prospect {
            parameters: plan.parameters,
            transactions,
            columns: items,
            max_len,
            frequent: arguments
                .frequent_items
                .or(frequent)
                .unwrap_or(items)
                .min(items),
            pair_columns: arguments.pair_columns,
            itemsets: arguments.itemsets.unwrap_or(u64::MAX),
        },
    };
    let levels = planned.prospect.levels();
    let rejected = if arguments.explain {
        alternatives(transactions, items.into(), max_len)?
    } else {
        Vec::new()
    };
    let words = Words {
        prospect: &planned.prospect,
        stored_bytes,
        longest_row_id,
        min_support: arguments.min_support,
        encrypting: words::encrypting(&planned.prospect, arguments.threads.count())?,
    };
    let in_words = words.text()?;
    let mut value = planned.to_json(stored_bytes);
    value["in_words"] = words.json()?;
    value["levels"] = levels.iter().map(level_json).collect();
    value["read"] = json!(how);
    if arguments.explain {
        value["routes"] = planned.prospect.routes().iter().map(route_json).collect();
        value["alternatives"] = rejected.iter().map(alternative_json).collect();
    }
    output.result(&value, || {
        let mut text = how.map_or_else(String::new, |how| format!("read as {how}\n"));
        text += &planned.text(stored_bytes);
        text += &in_words;
        text += "\nlength    itemsets  limbs  log2 phase  log2 Q       verified     trusted\n";
        text.extend(levels.iter().map(level_row));
        if levels.iter().any(|it| it.verified_bytes.is_none()) {
            text += "  -: not requested verified: more than 4 items, 200 MB, 131,072 triples or 65,536 quadruples, or more frequent items than --pair-columns\n";
        }
        if arguments.explain {
            text += "\nroute                                            length   verified    received  server's multiply-adds  owner's words  the server learns\n";
            text.extend(planned.prospect.routes().iter().map(route_row));
            text += "\ndegree  plaintext modulus  limbs  verdict\n";
            text.extend(rejected.iter().map(alternative_row));
        }
        text
    })
}

impl Arguments {
    fn size(&self) -> Result<Size, Failure> {
        self.reading.need("INPUT", self.input.is_some())?;
        let Some(input) = &self.input else {
            if self.min_item_support.is_some() {
                return Err(Failure::of(
                    ErrorClass::Input,
                    "--min-item-support needs a file, whose items it counts; give one".to_owned(),
                ));
            }
            return Ok(Size {
                transactions: self.transactions.unwrap_or(0),
                items: self.items.unwrap_or(0),
                longest_row_id: (self.row_id_bytes > 0).then_some(self.row_id_bytes as usize),
                frequent: None,
                how: None,
            });
        };
        let (mut transactions, how) = read_path(input, &self.reading.options())?;
        let count = transactions.len() as u64;
        if let Some(min_support) = self.min_item_support {
            transactions = transactions.restrict(min_support);
        }
        let least = transactions.min_item_support();
        let mined = self.min_support.map(|it| it.threshold(count));
        if let Some(mined) = mined.filter(|it| *it < least) {
            let sentence = format!(
                "items in fewer than {least} transactions would be left out, and a minimum support of {mined} is then refused; lower --min-item-support, or raise --min-support"
            );
            return Err(Failure::input(sentence));
        }
        let frequent = self.min_support.map(|min_support| {
            let threshold = min_support.threshold(count);
            let supports = transactions.item_supports();
            supports.iter().filter(|it| **it >= threshold).count() as u32
        });
        Ok(Size {
            transactions: count,
            items: transactions.item_count() as u32,
            longest_row_id: transactions.row_ids().iter().map(String::len).max(),
            frequent,
            how: Some(how),
        })
    }
}

/// Sizes on which a plan depends.
struct Size {
    transactions: u64,
    items: u32,
    /// Bytes of the longest row id, if rows have ids.
    longest_row_id: Option<usize>,
    /// Number of items that are frequent in the file at the support of the run.
    frequent: Option<u32>,
    how: Option<HowRead>,
}

/// Dataset that does not exist yet.
struct NewDataset {
    prospect: Prospect,
}

impl NewDataset {
    /// Returns the packed bytes of the largest panel.
    fn panel_bytes(&self) -> u64 {
        let blocks = self.prospect.blocks().min(BLOCKS_PER_SEGMENT.into());
        pack::packed_len(blocks as usize * self.prospect.parameters.degree()) as u64
    }

    fn log2_q_bound(&self) -> u32 {
        security_bound(self.prospect.parameters.log_degree()).unwrap_or(0)
    }

    fn to_json(&self, stored_bytes: u64) -> Value {
        let prospect = &self.prospect;
        let parameters = &prospect.parameters;
        json!({
            "transactions": prospect.transactions,
            "items": prospect.columns,
            "frequent_items": prospect.frequent,
            "max_len": prospect.max_len,
            "degree": parameters.degree(),
            "limbs": parameters.limb_count(),
            "plaintext_modulus": parameters.plaintext_modulus(),
            "log2_q": parameters.log2_q(parameters.limb_count()),
            "log2_q_bound": self.log2_q_bound(),
            "blocks": prospect.blocks(),
            "ranges": prospect.strata().map(|strata| strata.ranges().len()),
            "sample_blocks": parameters.sample_blocks(),
            "stored_bytes": stored_bytes,
            "panel_bytes": self.panel_bytes(),
            "cells_bytes": prospect.cells_bytes(),
        })
    }

    fn text(&self, stored_bytes: u64) -> String {
        let prospect = &self.prospect;
        let parameters = &prospect.parameters;
        format!(
            "{} transactions × {} items, itemsets of up to {}\n  degree {}, {} limbs (log2 Q = {:.1}, at most {} for 128 bits of security), plaintext modulus {}\n  {} blocks, whose sums are answered over {} ranges; {} stored, up to {} a panel\n  mining by --answers moments fetches what is verified below, by --answers cells {}: the sealed cells of {} frequent items, once; with --trust-server the moments below instead\n",
            prospect.transactions,
            prospect.columns,
            prospect.max_len,
            parameters.degree(),
            parameters.limb_count(),
            parameters.log2_q(parameters.limb_count()),
            self.log2_q_bound(),
            parameters.plaintext_modulus(),
            prospect.blocks(),
            prospect.strata().map_or(0, |strata| strata.ranges().len()),
            bytes(stored_bytes),
            bytes(self.panel_bytes()),
            bytes(prospect.cells_bytes()),
            prospect.frequent,
        )
    }
}

fn level_json(level: &LevelForecast) -> Value {
    json!({
        "level": level.level,
        "itemsets": level.itemsets,
        "limbs": level.limbs,
        "log2_phase_bound": level.log2_phase_bound,
        "log2_q": level.log2_q,
        "verified_bytes": level.verified_bytes,
        "moments_bytes": level.moments_bytes,
    })
}

fn level_row(level: &LevelForecast) -> String {
    format!(
        "{:>6}  {:>10}  {:>5}  {:>10.1}  {:>6.1}  {:>13}  {:>10}\n",
        level.level,
        level.itemsets,
        level.limbs,
        level.log2_phase_bound,
        level.log2_q,
        level.verified_bytes.map_or_else(|| "-".to_owned(), bytes),
        bytes(level.moments_bytes),
    )
}

fn route_json(route: &RouteForecast) -> Value {
    json!({
        "route": route.route,
        "shortest": route.lengths.0,
        "longest": route.lengths.1,
        "bytes": route.bytes,
        "server_multiply_adds": route.server_multiply_adds,
        "owner_words": route.owner_words,
        "verified": route.verified,
        "server_learns": route.learns,
    })
}

fn route_row(route: &RouteForecast) -> String {
    let lengths = match route.lengths {
        (shortest, longest) if shortest == longest => shortest.to_string(),
        (shortest, longest) => format!("{shortest}–{longest}"),
    };
    format!(
        "{:<47}  {lengths:>6}  {:>9}  {:>10}  {:>22.1e}  {:>13.1e}  {}\n",
        route.route,
        if route.verified { "yes" } else { "no" },
        bytes(route.bytes),
        route.server_multiply_adds as f64,
        route.owner_words as f64,
        route.learns,
    )
}

fn verdict(alternative: &Alternative) -> String {
    match alternative.verdict {
        Verdict::Chosen => "chosen".to_owned(),
        Verdict::NotSecure { most_limbs } => format!(
            "not secure: the itemsets need more than the {most_limbs} limbs that 128 bits of security allow"
        ),
        Verdict::MoreBytes => "more bytes of ciphertext".to_owned(),
        Verdict::MoreRanges => "more ranges of blocks, hence larger answers".to_owned(),
        Verdict::LargerDegree => "as good, but of a larger degree".to_owned(),
        Verdict::LargerModulus => "as good, but with a larger plaintext modulus".to_owned(),
    }
}

fn limbs(alternative: &Alternative) -> Option<usize> {
    let parameters = alternative.parameters.as_ref()?;
    Some(parameters.limb_count())
}

fn alternative_json(alternative: &Alternative) -> Value {
    json!({
        "degree": 1u64 << alternative.log_degree,
        "plaintext_modulus": alternative.plaintext_modulus,
        "limbs": limbs(alternative),
        "verdict": verdict(alternative),
    })
}

fn alternative_row(alternative: &Alternative) -> String {
    format!(
        "{:>6}  {:>17}  {:>5}  {}\n",
        1u64 << alternative.log_degree,
        alternative.plaintext_modulus,
        limbs(alternative).map_or_else(|| "-".to_owned(), |limbs| limbs.to_string()),
        verdict(alternative),
    )
}
