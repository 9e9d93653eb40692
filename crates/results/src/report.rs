//! Self-contained HTML page about frequent itemsets and their rules: no script, no external address, inline pictures.
//! Names come from data: the template escapes everything, and nothing is marked as safe.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use askama::Template;

use crate::itemsets_document::{ItemsetsDocument, ItemsetsError, NamedItemset, Source};
use oboro_input::text::{Name, Names};
use oboro_mining::condensed::Kept;
use oboro_mining::rules::{Metric, NamedRule, RuleOptions, Rules, RulesError, association_rules};

/// The largest number of itemsets in the chart, and of rules in the scatter, in the table and in the network.
const BARS: usize = 25;
const POINTS: usize = 2_000;
const ROWS: usize = 50;
const LINKED: usize = 24;

/// The largest number of rules used for a report.
const MOST_RULES: usize = 1_000_000;

/// The number of colours of lift: one below 1, and four from 1 up.
const BINS: usize = 5;

/// Area of the scatter, in its units.
const SCATTER: Area = Area {
    left: 56.0,
    right: 704.0,
    top: 14.0,
    bottom: 366.0,
};

/// Error of making a report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Invalid itemsets.
    #[error(transparent)]
    Itemsets(#[from] ItemsetsError),
    /// Rules that cannot be derived.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// Page that cannot be rendered.
    #[error("the page could not be made: {0}")]
    Page(#[from] askama::Error),
}

/// Renders the page for these itemsets and those of their rules that `options` select; without rules if not all
/// itemsets are listed.
///
/// # Errors
/// Impossible itemsets; too many rules.
pub fn report(document: &ItemsetsDocument, options: RuleOptions) -> Result<String, ReportError> {
    let options = RuleOptions {
        max_rules: options.max_rules.min(MOST_RULES),
        ..options
    };
    let (names, itemsets) = if document.is_whole() {
        document.clone().into_itemsets()?
    } else {
        Default::default()
    };
    let mut rules = association_rules(&itemsets, &names, options)?;
    rules.order_by(STRENGTH);
    Ok(Page::new(document, &rules, options).render()?)
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    version: &'static str,
    title: String,
    facts: Vec<(&'static str, String)>,
    warnings: Vec<String>,
    notes: Vec<String>,
    itemsets: usize,
    bars: Vec<Bar>,
    bars_height: usize,
    rules: usize,
    chosen: String,
    has_rules: bool,
    points: Vec<Point>,
    point_radius: f64,
    horizontal: Vec<Tick>,
    vertical: Vec<Tick>,
    legend: Vec<Shade>,
    nodes: Vec<Node>,
    links: Vec<Link>,
    linked: usize,
    rows: Vec<Row>,
    origin: Vec<(&'static str, String)>,
    read: Option<String>,
    verified: Vec<&'static str>,
    counted: &'static str,
    document: &'a ItemsetsDocument,
}

struct Bar {
    y: usize,
    label: String,
    name: String,
    width: f64,
    support: u64,
    percent: String,
}

struct Point {
    x: f64,
    y: f64,
    bin: usize,
    what: String,
}

struct Tick {
    at: f64,
    label: String,
}

struct Shade {
    x: usize,
    bin: usize,
    label: String,
}

struct Node {
    x: f64,
    y: f64,
    text_x: f64,
    text_y: f64,
    anchor: &'static str,
    label: String,
    name: String,
}

/// Rule in the network: a dot with lines from the antecedents and arrows to the consequents.
struct Link {
    x: f64,
    y: f64,
    bin: usize,
    radius: f64,
    what: String,
    from: Vec<(f64, f64)>,
    to: Vec<(f64, f64)>,
}

struct Row {
    antecedents: String,
    consequents: String,
    support: String,
    confidence: String,
    lift: String,
}

struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Area {
    fn x(&self, share: f64) -> f64 {
        tenth(self.left + share * (self.right - self.left))
    }

    fn y(&self, share: f64) -> f64 {
        tenth(self.bottom - share * (self.bottom - self.top))
    }
}

/// Rounds to a tenth of a unit, which suffices for pictures.
fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

impl<'a> Page<'a> {
    fn new(document: &'a ItemsetsDocument, all: &Rules<'_>, options: RuleOptions) -> Self {
        let number = all.len();
        let rules: Vec<NamedRule> = all.named().take(POINTS).collect();
        let colours = Colours::of(&rules);
        let source = document.source.as_ref();
        let longest = document.itemsets.iter().map(|it| it.items.len()).max();
        let mut facts = vec![
            ("transactions", grouped(document.transactions)),
            ("minimum support", grouped(document.min_support)),
            ("itemsets", grouped(document.itemsets.len() as u64)),
            ("items in the longest", longest.unwrap_or(0).to_string()),
        ];
        if document.is_whole() {
            facts.push(("rules", grouped(number as u64)));
        }
        let (bars, bars_height) = bars(document);
        let points = points(&rules, &colours);
        let (nodes, links) = network(&one_of_each_itemset(all), &colours);
        let most = most_support(&rules);
        Self {
            version: env!("CARGO_PKG_VERSION"),
            title: match source {
                Some(source) => format!("Frequent itemsets in {}", Name(&source.name)),
                None => "Frequent itemsets".to_owned(),
            },
            facts,
            warnings: warnings(document),
            notes: notes(document),
            itemsets: document.itemsets.len(),
            bars,
            bars_height,
            rules: number,
            chosen: format!("{} of at least {}", options.metric, options.min_threshold),
            has_rules: number > 0,
            // Many points are drawn smaller.
            point_radius: if points.len() > 200 { 3.5 } else { 5.0 },
            points,
            horizontal: ticks(most, |share| SCATTER.x(share)),
            vertical: ticks(1.0, |share| SCATTER.y(share)),
            legend: colours.legend(),
            linked: links.len(),
            nodes,
            links,
            rows: rules.iter().take(ROWS).map(Row::of).collect(),
            origin: source.map_or_else(Vec::new, |it| {
                let routes = it.routes.as_ref().map(|routes| match routes[..] {
                    [] => "the owner's record".to_owned(),
                    _ => routes.join(", "),
                });
                let fields = [
                    ("dataset", format!("{}, {}", Name(&it.name), it.dataset)),
                    ("version", it.version.to_string()),
                    ("manifest", it.manifest.clone()),
                    ("answers", it.answers.clone()),
                ];
                let routes = routes.map(|it| ("counted by", it));
                fields.into_iter().chain(routes).collect()
            }),
            read: source.and_then(|it| Some(it.read.as_ref()?.to_string())),
            verified: source.map_or_else(Vec::new, |it| it.verified()),
            counted: source.map_or("", counted),
            document,
        }
    }
}

impl Row {
    fn of(rule: &NamedRule) -> Self {
        Self {
            antecedents: Names(&rule.antecedents).to_string(),
            consequents: Names(&rule.consequents).to_string(),
            support: percent(rule.metrics.support),
            confidence: percent(rule.metrics.confidence),
            lift: format!("{:.2}", rule.metrics.lift),
        }
    }
}

/// Metric that ranks rules by strength: their distance from independence, upwards first.
const STRENGTH: Metric = Metric::Lift;

/// Describes in a sentence where the supports of two items or more were counted; empty if unknown.
fn counted(source: &Source) -> &'static str {
    let Some(routes) = &source.routes else {
        return "";
    };
    let cells = routes.iter().filter(|it| *it == "cells").count();
    match (routes.len(), cells) {
        (0, _) => "No support was counted: all are in the owner's record or follow from it.",
        (_, 0) => "Supports of two items or more were counted under encryption.",
        (all, cells) if all == cells => {
            "Supports of two items or more were counted in the clear at the owner's, in columns that are stored encrypted."
        }
        _ => {
            "Some supports of two items or more were counted under encryption, others in the clear at the owner's."
        }
    }
}

fn warnings(document: &ItemsetsDocument) -> Vec<String> {
    let unverified = "Unverified: the server was trusted. If it answered falsely, this is wrong.";
    document
        .unverified
        .then(|| unverified.to_owned())
        .into_iter()
        .collect()
}

fn notes(document: &ItemsetsDocument) -> Vec<String> {
    let mut notes: Vec<String> = document
        .release
        .iter()
        .flat_map(|it| it.sentences())
        .collect();
    if let Some(max_len) = document.max_len {
        notes.push(format!(
            "itemsets of more than {max_len} items were not searched for"
        ));
    }
    if !document.containing.is_empty() {
        notes.push(format!(
            "only itemsets that contain {} are listed; rules need all itemsets, so there are none here",
            Names(&document.containing)
        ));
    }
    match document.kept {
        Kept::All => {}
        Kept::Closed => notes.push(
            "only closed itemsets are listed: the support of any other frequent itemset is the largest of those that contain it; rules need all itemsets, so there are none here".to_owned(),
        ),
        Kept::Maximal => notes.push(
            "only maximal itemsets are listed: all their subsets are frequent, too, and no others; rules need all itemsets, so there are none here".to_owned(),
        ),
    }
    let capital = |note: String| {
        let mut letters = note.chars();
        let first = letters.next().map(char::to_uppercase);
        first
            .into_iter()
            .flatten()
            .chain(letters)
            .chain(['.'])
            .collect()
    };
    notes.into_iter().map(capital).collect()
}

fn bars(document: &ItemsetsDocument) -> (Vec<Bar>, usize) {
    const STEP: usize = 22;
    const WIDTH: f64 = 330.0;
    let mut most: Vec<&NamedItemset> = document.itemsets.iter().collect();
    most.sort_by_key(|it| (Reverse(it.support), it.items.len()));
    let largest = most.first().map_or(1, |it| it.support.max(1));
    let bar = |(place, it): (usize, &&NamedItemset)| {
        let name = Names(&it.items).to_string();
        Bar {
            y: place * STEP,
            label: shortened(name.trim_start_matches('{').trim_end_matches('}'), 38),
            name,
            width: tenth(it.support as f64 / largest as f64 * WIDTH),
            support: it.support,
            percent: percent(document.fraction(it.support)),
        }
    };
    let bars: Vec<Bar> = most.iter().take(BARS).enumerate().map(bar).collect();
    let height = bars.len() * STEP + 6;
    (bars, height)
}

/// Returns a little more than the largest support of a rule, which keeps points off the edge.
fn most_support(rules: &[NamedRule]) -> f64 {
    let largest = rules
        .iter()
        .map(|it| it.metrics.support)
        .fold(0.0, f64::max);
    if largest > 0.0 {
        (largest * 1.05).min(1.0)
    } else {
        1.0
    }
}

fn points(rules: &[NamedRule], colours: &Colours) -> Vec<Point> {
    let most = most_support(rules);
    let point = |rule: &NamedRule| Point {
        x: SCATTER.x(rule.metrics.support / most),
        y: SCATTER.y(rule.metrics.confidence),
        bin: colours.bin(rule.metrics.lift),
        what: description(rule),
    };
    // The strongest come last, on top.
    rules.iter().take(POINTS).rev().map(point).collect()
}

fn description(rule: &NamedRule) -> String {
    format!(
        "{} ⇒ {}: support {}, confidence {}, lift {:.2}",
        Names(&rule.antecedents),
        Names(&rule.consequents),
        percent(rule.metrics.support),
        percent(rule.metrics.confidence),
        rule.metrics.lift
    )
}

/// Returns round numbers from 0 to `most`, with their positions and percentages.
fn ticks(most: f64, at: impl Fn(f64) -> f64) -> Vec<Tick> {
    let rough = most / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|it| it * power);
    let step = step.into_iter().find(|&it| it >= rough).unwrap_or(most);
    let decimals = usize::from(step < 0.01) + usize::from(step < 0.001);
    let tick = |number: u32| {
        let value = f64::from(number) * step;
        let label = format!("{:.decimals$} %", value * 100.0);
        (value <= most * 1.0001).then(|| Tick {
            at: at(value / most),
            label,
        })
    };
    (0..=10).map_while(tick).collect()
}

/// Colour scale of lift.
struct Colours {
    largest: f64,
}

impl Colours {
    fn of(rules: &[NamedRule]) -> Self {
        let largest = rules.iter().map(|it| it.metrics.lift).fold(1.0, f64::max);
        Self {
            largest: largest.max(1.05),
        }
    }

    /// Returns the least lift of a bin from 1 on: the steps are equal on a logarithmic scale.
    fn least(&self, bin: usize) -> f64 {
        self.largest.powf((bin - 1) as f64 / (BINS - 1) as f64)
    }

    fn bin(&self, lift: f64) -> usize {
        if lift < 1.0 {
            return 0;
        }
        (1..BINS)
            .rev()
            .find(|&bin| lift >= self.least(bin))
            .unwrap_or(1)
    }

    fn legend(&self) -> Vec<Shade> {
        let label = |bin| match bin {
            0 => "below 1".to_owned(),
            bin => format!("{:.2} and more", self.least(bin)),
        };
        let shade = |bin| Shade {
            x: bin * 130,
            bin,
            label: label(bin),
        };
        (0..BINS).map(shade).collect()
    }
}

/// Lays out the items of the strongest rules on a circle, and the rules within.
fn network(rules: &[NamedRule], colours: &Colours) -> (Vec<Node>, Vec<Link>) {
    const CENTRE: (f64, f64) = (360.0, 250.0);
    const RADIUS: f64 = 180.0;
    let mut items: Vec<&str> = Vec::new();
    for rule in rules {
        for item in items_of(rule) {
            if !items.contains(&item.as_str()) {
                items.push(item);
            }
        }
    }
    let on_circle = |place: usize, radius: f64| {
        let angle = (place as f64 / items.len() as f64 - 0.25) * std::f64::consts::TAU;
        let at = |centre, share: f64| tenth(centre + radius * share);
        (at(CENTRE.0, angle.cos()), at(CENTRE.1, angle.sin()))
    };
    let places: HashMap<&str, (f64, f64)> = items
        .iter()
        .enumerate()
        .map(|(place, &item)| (item, on_circle(place, RADIUS)))
        .collect();
    let node = |(place, &item): (usize, &&str)| {
        let ((x, y), (text_x, text_y)) =
            (on_circle(place, RADIUS), on_circle(place, RADIUS + 12.0));
        let name = Name(item).to_string();
        Node {
            x,
            y,
            text_x,
            text_y: text_y + 4.0,
            anchor: match text_x - CENTRE.0 {
                aside if aside > 20.0 => "start",
                aside if aside < -20.0 => "end",
                _ => "middle",
            },
            label: shortened(&name, 20),
            name,
        }
    };
    let most = rules
        .iter()
        .map(|it| it.metrics.support)
        .fold(0.0, f64::max);
    let link = |(number, rule): (usize, &NamedRule)| {
        let of = |side: &[String]| -> Vec<(f64, f64)> {
            side.iter().map(|item| places[item.as_str()]).collect()
        };
        let (from, to) = (of(&rule.antecedents), of(&rule.consequents));
        let mean = |side: &[(f64, f64)]| {
            let sum = side
                .iter()
                .fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
            (sum.0 / side.len() as f64, sum.1 / side.len() as f64)
        };
        // Nearer to the consequents and a little aside, which separates rules between equal items.
        let (start, end, turn) = (mean(&from), mean(&to), number as f64 * 2.4);
        let between = |start: f64, end: f64, centre: f64, aside: f64| {
            tenth((0.58 * start + 0.42 * end) * 0.86 + 0.14 * centre + 9.0 * aside)
        };
        Link {
            x: between(start.0, end.0, CENTRE.0, turn.cos()),
            y: between(start.1, end.1, CENTRE.1, turn.sin()),
            bin: colours.bin(rule.metrics.lift),
            radius: tenth(3.5 + 4.5 * (rule.metrics.support / most).sqrt()),
            what: description(rule),
            from,
            to,
        }
    };
    let nodes = items.iter().enumerate().map(node).collect();
    let mut links: Vec<Link> = rules.iter().enumerate().map(link).collect();
    push_apart(&mut links);
    (nodes, links)
}

fn items_of(rule: &NamedRule) -> impl Iterator<Item = &String> {
    rule.antecedents.iter().chain(&rule.consequents)
}

/// Returns the first rule of each itemset, up to the limit of the network.
fn one_of_each_itemset(rules: &Rules<'_>) -> Vec<NamedRule> {
    let mut seen = HashSet::new();
    let is_first = |rule: &NamedRule| {
        let mut items: Vec<String> = items_of(rule).cloned().collect();
        items.sort_unstable();
        seen.insert(items)
    };
    rules.named().filter(is_first).take(LINKED).collect()
}

/// Moves overlapping dots apart.
fn push_apart(links: &mut [Link]) {
    const APART: f64 = 24.0;
    for _ in 0..80 {
        for first in 0..links.len() {
            for second in first + 1..links.len() {
                let (x, y) = (
                    links[second].x - links[first].x,
                    links[second].y - links[first].y,
                );
                let distance = x.hypot(y).max(0.1);
                if distance < APART {
                    let push = (APART - distance) / distance / 2.0;
                    links[first].x -= x * push;
                    links[first].y -= y * push;
                    links[second].x += x * push;
                    links[second].y += y * push;
                }
            }
        }
    }
    for link in links {
        (link.x, link.y) = (tenth(link.x), tenth(link.y));
    }
}

/// Truncates to `most` characters.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Formats as "12.3 %".
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Formats as "1,943,424".
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::Release;

    fn document(names: [&str; 3]) -> ItemsetsDocument {
        let itemset = |items: &[usize], support| NamedItemset {
            items: items.iter().map(|&it| names[it].to_owned()).collect(),
            support,
        };
        ItemsetsDocument {
            transactions: 1_000,
            min_support: 100,
            max_len: Some(2),
            unverified: false,
            kept: Kept::All,
            containing: Vec::new(),
            release: None,
            source: None,
            itemsets: vec![
                itemset(&[0], 500),
                itemset(&[1], 400),
                itemset(&[2], 300),
                itemset(&[0, 1], 300),
                itemset(&[0, 2], 120),
                itemset(&[1, 2], 100),
            ],
        }
    }

    fn page(document: &ItemsetsDocument) -> String {
        report(document, RuleOptions::new(Metric::Confidence, 0.0)).unwrap()
    }

    #[test]
    fn a_report_has_itemsets_rules_and_where_they_are_from() {
        let mut document = document(["bread", "butter", "milk"]);
        document.source = Some(Source {
            name: "baskets".into(),
            dataset: "0123".into(),
            version: 3,
            uploaded: None,
            offline: false,
            manifest: "abcd".into(),
            answers: "verified".into(),
            routes: Some(vec!["cells".into()]),
            read: None,
        });
        document.release = Some(Release {
            suppress_below: Some(11),
            ..Release::default()
        });
        let page = page(&document);
        for part in [
            "Frequent itemsets in baskets",
            "<dt>rules</dt><dd>6</dd>",
            "{bread} ⇒ {butter}: support 30.0 %, confidence 60.0 %, lift 1.50",
            "Counts below 11 are suppressed, and supports",
            "Itemsets of more than 2 items were not searched for.",
            "abcd",
            "sealed columns were opened",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
        assert_eq!(page.matches("class=\"bar\"").count(), 6);
    }

    #[test]
    fn a_report_says_where_supports_were_counted() {
        let footer = |routes: Option<&[&str]>| {
            let mut document = document(["a", "b", "c"]);
            document.source = Some(Source {
                name: "rows".into(),
                dataset: "0123".into(),
                version: 3,
                manifest: "abcd".into(),
                uploaded: None,
                offline: false,
                answers: "verified".into(),
                routes: routes.map(|it| it.iter().map(|&it| it.into()).collect()),
                read: None,
            });
            let page = page(&document);
            page[page.find("<footer>").unwrap()..].to_owned()
        };
        let (encrypted, clear) = ("under encryption", "in the clear at the owner&#39;s");
        for (routes, is_encrypted, is_clear) in [
            (Some(&["cells"][..]), false, true),
            (Some(&["prefix"][..]), true, false),
            (Some(&["cells", "scalars"][..]), true, true),
            (Some(&[][..]), false, false),
            (None, false, false),
        ] {
            let footer = footer(routes);
            assert_eq!(footer.contains(encrypted), is_encrypted, "{footer}");
            assert_eq!(footer.contains(clear), is_clear, "{footer}");
        }
    }

    #[test]
    fn names_are_escaped_everywhere_and_nothing_is_fetched() {
        let mut document = document(["<script>alert(1)</script>", "\"onload=x", "a&b\u{202e}"]);
        document.source = Some(Source {
            name: "<b>".into(),
            dataset: "<i>".into(),
            version: 1,
            uploaded: None,
            offline: false,
            manifest: "<u>".into(),
            answers: "<s>".into(),
            routes: Some(vec!["<q>".into()]),
            read: None,
        });
        let page = page(&document);
        for part in [
            "<script", "<b>", "<i>", "<u>", "<s>", "<q>", "\u{202e}", "\"onload", "href", "src=",
            "http:", "https:", "@import",
        ] {
            assert!(!page.contains(part), "{part}");
        }
        assert!(page.contains("default-src 'none'"));
    }

    #[test]
    fn what_has_no_rules_says_why() {
        let closed = ItemsetsDocument {
            kept: Kept::Closed,
            containing: Vec::new(),
            unverified: true,
            ..document(["a", "b", "c"])
        };
        let shown = page(&closed);
        assert!(shown.contains("Only closed itemsets") && shown.contains("Unverified:"));
        let none = ItemsetsDocument {
            itemsets: Vec::new(),
            max_len: None,
            ..document(["a", "b", "c"])
        };
        assert!(page(&none).contains("Nothing is frequent"));
    }

    #[test]
    fn ticks_are_round_numbers() {
        let labels = |most| {
            ticks(most, |at| at)
                .into_iter()
                .map(|it| it.label)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            labels(1.0),
            ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
        );
        assert_eq!(labels(0.033), ["0 %", "1 %", "2 %", "3 %"]);
        assert_eq!(labels(0.004), ["0.0 %", "0.1 %", "0.2 %", "0.3 %", "0.4 %"]);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1_943_424].map(grouped), ["0", "999", "1,943,424"]);
    }
}
