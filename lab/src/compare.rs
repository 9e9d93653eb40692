//! `oboro-lab compare`: two files of `make papers`, measure by measure.
//!
//! Of a measure that has several runs in both files, the ratio is that of the geometric means, with a 95 % confidence
//! interval by Welch's test on logarithms (B. L. Welch, Biometrika 34, 1947): ratios of times multiply, and the files
//! may differ in spread and in the number of runs. A single run has a ratio and no interval.

use crate::Outcome;
use crate::output::{Failure, Output};
use distrs::StudentsT;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The format of results.json that this program reads.
const FORMAT: u32 = 1;
/// The upper end of a two-sided interval of 95 %.
const UPPER: f64 = 0.975;

/// Compare the measures of two results.json of `make papers`.
///
/// Prints the ratio of B to A for each measure that both have. Where both have several runs (make papers
/// PAPERS='--repeat 5'), a 95 % confidence interval stands beside it: Welch's, on logarithms. If it does not hold 1, the
/// measure is called better or worse; of twenty measures that are the same, one is so by chance. Runs of one file were made
/// on one occasion, and an interval covers noise within occasions, not between them.
#[derive(clap::Args)]
pub struct Arguments {
    /// The results to compare with.
    #[arg(value_name = "A.json")]
    a: PathBuf,
    /// The results to compare.
    #[arg(value_name = "B.json")]
    b: PathBuf,
    /// Only measures whose names contain this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

/// What of results.json is compared.
#[derive(Deserialize)]
struct Results {
    format: u32,
    commit: String,
    quick: bool,
    environment: Environment,
    measures: BTreeMap<String, Measure>,
}

#[derive(Deserialize)]
struct Environment {
    processor: String,
    cores: u64,
}

#[derive(Deserialize)]
struct Measure {
    value: f64,
    unit: String,
    /// `less`, `more` or nothing.
    better: String,
    runs: Vec<f64>,
}

/// The comparison of one measure.
#[derive(Serialize)]
struct Compared<'r> {
    bench: &'static str,
    measure: &'r str,
    unit: &'r str,
    a: f64,
    b: f64,
    a_runs: usize,
    b_runs: usize,
    /// B over A; null if one of them is 0.
    ratio: Option<f64>,
    /// Of 95 %; null without several runs of both.
    interval: Option<[f64; 2]>,
    judgement: Judgement,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Judgement {
    Better,
    Worse,
    /// It differs, and neither is better.
    Differs,
    /// The interval holds 1.
    Undecided,
    /// There is no interval.
    SingleRuns,
}

#[derive(Serialize)]
struct Summary<'r> {
    bench: &'static str,
    summary: bool,
    measures: usize,
    better: usize,
    worse: usize,
    same_machine: bool,
    a_commit: &'r str,
    b_commit: &'r str,
    only_in_a: Vec<&'r str>,
    only_in_b: Vec<&'r str>,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    let (a, b) = (read(&arguments.a)?, read(&arguments.b)?);
    if a.quick != b.quick {
        return Err("one of the files is of a quick run and the other is not; their measures have other sizes: compare runs of the same kind".into());
    }
    let chosen = |name: &&String| name.contains(&arguments.only);
    let (mut better, mut worse, mut measures) = (0, 0, 0);
    for (name, before) in &a.measures {
        let Some(after) = b.measures.get(name).filter(|_| chosen(&name)) else {
            continue;
        };
        let compared = compare(name, before, after);
        measures += 1;
        better += usize::from(compared.judgement == Judgement::Better);
        worse += usize::from(compared.judgement == Judgement::Worse);
        output.result(&compared, || compared.text())?;
    }
    let missing = |from: &Results, others: &Results| -> Vec<String> {
        let names = from.measures.keys().filter(chosen);
        let names = names.filter(|name| !others.measures.contains_key(*name));
        names.cloned().collect()
    };
    let (only_in_a, only_in_b) = (missing(&a, &b), missing(&b, &a));
    let machine = |it: &Results| (it.environment.processor.clone(), it.environment.cores);
    let summary = Summary {
        bench: "compare",
        summary: true,
        measures,
        better,
        worse,
        same_machine: machine(&a) == machine(&b),
        a_commit: &a.commit,
        b_commit: &b.commit,
        only_in_a: only_in_a.iter().map(String::as_str).collect(),
        only_in_b: only_in_b.iter().map(String::as_str).collect(),
    };
    output.result(&summary, || summary.text())
}

fn read(path: &Path) -> Result<Results, Failure> {
    let name = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| format!("cannot read {name}: {error}; give a results.json"))?;
    let results: Results = serde_json::from_str(&text).map_err(|error| {
        format!("{name} is no results.json of make papers: {error}; make papers writes one into target/papers")
    })?;
    if results.format == FORMAT {
        Ok(results)
    } else {
        let found = results.format;
        Err(format!(
            "{name} has format {found}, and this program reads {FORMAT}; run make papers again"
        )
        .into())
    }
}

fn compare<'r>(name: &'r str, a: &'r Measure, b: &Measure) -> Compared<'r> {
    let interval = interval(&a.runs, &b.runs);
    let ratio = interval.map(|(ratio, _)| ratio).or_else(|| {
        let ratio = b.value / a.value;
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    });
    let interval = interval.map(|(_, interval)| interval);
    Compared {
        bench: "compare",
        measure: name,
        unit: &a.unit,
        a: a.value,
        b: b.value,
        a_runs: a.runs.len(),
        b_runs: b.runs.len(),
        ratio,
        interval,
        judgement: Judgement::of(interval, &a.better),
    }
}

/// The ratio of the geometric means of `b` and `a`, and its interval; none without several positive runs of both.
fn interval(a: &[f64], b: &[f64]) -> Option<(f64, [f64; 2])> {
    let ([mean_a, error_a], [mean_b, error_b]) = (logarithms(a)?, logarithms(b)?);
    let difference = mean_b - mean_a;
    let squares = error_a + error_b;
    if squares == 0.0 {
        // Counts, the same in every run.
        let ratio = difference.exp();
        return Some((ratio, [ratio; 2]));
    }
    let degree = |error: f64, runs: &[f64]| error * error / (runs.len() - 1) as f64;
    let freedom = squares * squares / (degree(error_a, a) + degree(error_b, b));
    // One at least, of which rounding may fall short.
    let reach = StudentsT::ppf(UPPER, freedom.max(1.0)) * squares.sqrt();
    let ends = [difference - reach, difference + reach];
    Some((difference.exp(), ends.map(f64::exp)))
}

/// The mean of the runs' logarithms, and the square of its standard error.
fn logarithms(runs: &[f64]) -> Option<[f64; 2]> {
    if runs.len() < 2 || runs.iter().any(|&run| run <= 0.0) {
        return None;
    }
    let count = runs.len() as f64;
    let logarithms: Vec<f64> = runs.iter().map(|run| run.ln()).collect();
    let mean = logarithms.iter().sum::<f64>() / count;
    let squares = logarithms.iter().map(|it| (it - mean).powi(2)).sum::<f64>();
    Some([mean, squares / (count - 1.0) / count])
}

impl Judgement {
    fn of(interval: Option<[f64; 2]>, better: &str) -> Self {
        let Some([low, high]) = interval else {
            return Self::SingleRuns;
        };
        match (low > 1.0, high < 1.0, better) {
            (false, false, _) => Self::Undecided,
            (_, is_less, "less") => [Self::Worse, Self::Better][usize::from(is_less)],
            (is_more, _, "more") => [Self::Worse, Self::Better][usize::from(is_more)],
            _ => Self::Differs,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Differs => "differs",
            Self::Undecided => "",
            Self::SingleRuns => "single runs",
        }
    }
}

impl Compared<'_> {
    fn text(&self) -> String {
        let ratio = self.ratio.map_or("-".to_owned(), |it| format!("{it:.3}"));
        let interval = self.interval.map_or(String::new(), |[low, high]| {
            format!("[{low:.3}, {high:.3}]")
        });
        let judgement = self.judgement.text();
        let name = self.measure;
        format!("{ratio:>8}  {interval:18}  {judgement:11}  {name}\n")
    }
}

impl Summary<'_> {
    fn text(&self) -> String {
        let mut text = format!(
            "\n{} measures of {} over {}: {} better, {} worse\n",
            self.measures, self.b_commit, self.a_commit, self.better, self.worse
        );
        if !self.same_machine {
            text += "the files are of different machines\n";
        }
        for (names, file) in [(&self.only_in_a, "A"), (&self.only_in_b, "B")] {
            if !names.is_empty() {
                text += &format!("{} measures are in {file} alone\n", names.len());
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_scipy() {
        // scipy.stats.ttest_ind(log(b), log(a), equal_var=False).confidence_interval(0.95)
        let (ratio, [low, high]) = interval(&[1.0, 1.1, 0.9], &[2.0, 2.2, 1.9, 2.1]).unwrap();
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-3, "{found}");
        near(ratio, 2.053_82);
        near(low, 1.675_50);
        near(high, 2.517_55);
    }

    #[test]
    fn counts_that_never_differ_have_a_point_for_an_interval() {
        assert_eq!(interval(&[2.0; 3], &[4.0; 2]), Some((2.0, [2.0; 2])));
    }

    #[test]
    fn there_is_no_interval_without_several_positive_runs() {
        assert_eq!(interval(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(interval(&[1.0, 2.0], &[]), None);
        assert_eq!(interval(&[1.0, 0.0], &[1.0, 2.0]), None);
    }

    #[test]
    fn what_is_better_depends_on_the_measure() {
        use Judgement::*;
        for (interval, better, expected) in [
            (Some([0.5, 0.9]), "less", Better),
            (Some([1.1, 1.2]), "less", Worse),
            (Some([0.5, 0.9]), "more", Worse),
            (Some([1.1, 1.2]), "more", Better),
            (Some([1.1, 1.2]), "", Differs),
            (Some([0.9, 1.1]), "less", Undecided),
            (None, "less", SingleRuns),
        ] {
            assert_eq!(Judgement::of(interval, better), expected);
        }
    }
}
