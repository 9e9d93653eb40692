//! Plan in words: the cost of encrypting, uploading and a run, what the server learns from the run, and cheaper
//! options.

use crate::failure::Failure;
use crate::output::{bytes, seconds};
use oboro_client::{Prospect, Route};
use oboro_dataset::{Dataset, DatasetPlan, Shuffled, Target};
use oboro_input::MinSupport;
use oboro_input::transactions::TransactionsBuilder;
use oboro_rlwe::MasterKey;
use serde_json::{Value, json};
use std::env;
use std::fmt::Write;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Summary of a planned dataset for people.
pub struct Words<'a> {
    pub prospect: &'a Prospect,
    pub stored_bytes: u64,
    pub longest_row_id: Option<usize>,
    /// Support of the run, if known.
    pub min_support: Option<MinSupport>,
    pub encrypting: Duration,
}

/// Cheaper option, and its drawback.
struct Advice {
    option: String,
    stored_bytes: u64,
    but: &'static str,
}

impl Words<'_> {
    /// Returns the route of a run with the default `--answers`, and the bytes that it receives.
    fn route(&self) -> (Route, u64) {
        let prospect = self.prospect;
        let cells = prospect.cells_bytes();
        let levels = prospect.levels();
        let asked = levels
            .iter()
            .filter(|it| it.level as u64 <= u64::from(prospect.frequent));
        let verified = asked.map(|it| it.verified_bytes);
        let sum = verified.reduce(|a, b| Some(a?.saturating_add(b?)));
        match sum.flatten() {
            Some(sums) if sums < cells => (Route::Scalars, sums),
            _ => (Route::Cells, cells),
        }
    }

    /// Returns the bytes of all residues with their masks, in the server's memory while it counts.
    fn expanded_bytes(&self) -> u64 {
        let parameters = &self.prospect.parameters;
        let residues = (parameters.degree() * parameters.limb_count()) as u64;
        let panels = u64::from(self.prospect.frequent) + 1;
        let blocks = self.prospect.blocks();
        (4 * residues).saturating_mul(panels).saturating_mul(blocks)
    }

    fn learns(&self) -> String {
        let Prospect {
            columns, frequent, ..
        } = *self.prospect;
        let kind = match self.route().0 {
            Route::Cells => "are frequent",
            _ => "have the largest supports, down to those that are frequent",
        };
        format!(
            "which {frequent} of the {columns} encrypted columns {kind}; not which items they are, nor any support; a \
             later run at a lower support reveals the columns between"
        )
    }

    fn advice(&self) -> Result<Vec<Advice>, Failure> {
        let prospect = self.prospect;
        let stored = |columns: u32, max_len: usize| {
            let rows = self.longest_row_id;
            DatasetPlan::new(prospect.transactions, columns as usize, rows, max_len)
        };
        let mut advice = Vec::new();
        if let Some(min_support) = self.min_support {
            advice.push(Advice {
                option: format!("--min-item-support {min_support}"),
                stored_bytes: stored(prospect.frequent.max(1), prospect.max_len)?.bytes,
                but: "itemsets below that support can then never be mined",
            });
        }
        if self.route().0 == Route::Cells {
            advice.push(Advice {
                option: "--max-len 2".to_owned(),
                stored_bytes: stored(prospect.columns, 2)?.bytes,
                but: "a run counts longer itemsets as now, with --max-len of its own",
            });
        }
        // Omit options that save less than a tenth.
        advice.retain(|it| it.stored_bytes < self.stored_bytes / 10 * 9);
        Ok(advice)
    }

    pub fn json(&self) -> Result<Value, Failure> {
        let (route, received) = self.route();
        let advice = self.advice()?;
        let advice = advice.iter().map(
            |it| json!({ "option": it.option, "stored_bytes": it.stored_bytes, "but": it.but }),
        );
        Ok(json!({
            "encrypt_seconds": self.encrypting.as_secs_f64(),
            "expanded_bytes": self.expanded_bytes(),
            "route": route.name(),
            "received_bytes": received,
            "server_learns": self.learns(),
            "advice": advice.collect::<Vec<_>>(),
        }))
    }

    pub fn text(&self) -> Result<String, Failure> {
        let (route, received) = self.route();
        let at = |megabits: u64| {
            let seconds = self.stored_bytes as f64 * 8e-6 / megabits as f64;
            self::seconds(Duration::from_secs_f64(seconds))
        };
        let run = match (&self.min_support, self.prospect.frequent) {
            (Some(support), items) => format!("a run at {support}, with {items} frequent items"),
            (None, items) if items == self.prospect.columns => "a run with all items".to_owned(),
            (None, items) => format!("a run with {items} frequent items"),
        };
        let mut text = format!(
            "\nencrypting takes {} on this machine now\n\
             uploading {} takes {} at 100 Mbit/s, {} at 1 Gbit/s\n\
             the server keeps {} on its disk; to count on ciphertext without reading it again, {} in memory\n\
             {run} receives {} ({})\n\
             the server learns {}\n",
            seconds(self.encrypting),
            bytes(self.stored_bytes),
            at(100),
            at(1_000),
            bytes(self.stored_bytes),
            bytes(self.expanded_bytes()),
            bytes(received),
            match route {
                Route::Cells => "sealed cells, which are kept, and serve all lengths",
                _ => "verified sums and moments",
            },
            self.learns(),
        );
        for Advice {
            option,
            stored_bytes,
            but,
        } in self.advice()?
        {
            let instead = bytes(stored_bytes);
            let _ = writeln!(
                text,
                "advice: encrypt with {option} to upload {instead} instead; {but}"
            );
        }
        Ok(text)
    }
}

/// Maximum number of columns and of blocks of the sample that is encrypted to measure this machine.
const SAMPLE: (u32, u64) = (16, 4);

/// Estimates the time to encrypt on this machine: encrypts a few blocks, below the directory for temporary files and
/// under a throwaway key, and scales the time.
pub fn encrypting(prospect: &Prospect, threads: NonZeroUsize) -> Result<Duration, Failure> {
    let columns = prospect.columns.min(SAMPLE.0);
    let degree = prospect.parameters.degree() as u64;
    let names = (0..columns).map(|it| it.to_string()).collect();
    let mut sample = TransactionsBuilder::new().with_items(names)?;
    for _ in 0..prospect.transactions.min(SAMPLE.1 * degree) {
        sample.push(0..columns)?;
    }
    let key = MasterKey::generate().map_err(|error| error.to_string())?;
    let ends = Mutex::new(None);
    let progress = |done: u64, total: u64| {
        let mut ends = ends.lock().expect("nothing panics with it");
        let (begun, ..) = *ends.get_or_insert((Instant::now(), Instant::now(), total));
        if done == total {
            *ends = Some((begun, Instant::now(), total));
        }
        ControlFlow::Continue(())
    };
    let dataset = Dataset::create(
        Shuffled::of(sample.finish()),
        &key,
        Target::Temporary(&env::temp_dir()),
        prospect.max_len,
        threads,
        &progress,
    )?;
    let (begun, ended, total) = ends
        .into_inner()
        .expect("nothing panics with it")
        .ok_or("nothing was encrypted")?;
    let residues = |of: &oboro_ring::Parameters| (of.degree() * of.limb_count()) as f64;
    let of_sample = residues(&dataset.manifest().parameters) * total as f64;
    let panels = prospect.blocks() as f64 * f64::from(prospect.columns);
    let all = residues(&prospect.parameters) * panels;
    Ok((ended - begun).mul_f64(all / of_sample))
}
