//! Search for small counts that follow exactly from the shown supports.
//!
//! A *scope* is a set of shown items. Its `s` items divide the transactions into `2^s` cells, one for each set of
//! items that a transaction has of them. A *table* gives each cell a non-negative integer and *agrees* if it has
//! every shown support over items of the scope. A count follows exactly if it is equal in all tables that agree.
//!
//! Linear programs only propose tables. A count is considered hidden once two tables differ in it, after their
//! supports were compared in integers; rounding errors of the solver can never hide a count that follows. Without a
//! second table, the count is assumed to follow: a failing solver suppresses more, not less. From a table that
//! agrees, a walk in integers reaches others that agree, and saves most linear programs.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::convert::Infallible;
use std::time::Duration;

use microlp::{ComparisonOp, OptimizationDirection, Problem, Solution, Variable};
use rand::rngs::ChaCha20Rng;
use rand::{Rng, SeedableRng};

use super::error::ReleaseError;
use super::parts::{LONGEST, are_safe, is_small, parts};
use oboro_mining::candidates::candidates_from;
use oboro_mining::deduction::Bounds;
use oboro_mining::itemset::{FrequentItemset, Itemset};
use oboro_mining::prefix_tree::PrefixTree;

/// The largest number of items of a scope. Up to as many shown items form one scope.
pub(super) const SCOPE: usize = 8;

/// The number of items added to a minimal missing itemset in its scope.
pub(super) const MORE: usize = 2;

/// The largest number of linear programs of a search.
pub(super) const PROGRAMS: usize = 20_000;

/// The largest number of minimal missing itemsets of one length.
const CANDIDATES: usize = 1_000_000;

/// The largest number of linear programs for one table.
const BRANCHES: usize = 64;

/// The largest number of moves tried from one table.
const STEPS: usize = 1 << 17;

/// The number of moves between checks of the counts.
const CHECKED: usize = 1 << 12;

/// The timeout of one linear program.
const PATIENCE: Duration = Duration::from_secs(10);

/// Small count that follows.
pub(super) struct Disclosure {
    /// The items of the count.
    pub(super) itemset: Itemset,
    /// The counts over the items from whose supports it follows.
    pub(super) tables: Tables,
}

/// Result of a search.
pub(super) struct SearchOutcome {
    pub(super) found: Vec<Disclosure>,
    /// The number of linear programs solved.
    pub(super) programs: usize,
    /// `true` if every minimal missing itemset was searched.
    pub(super) complete: bool,
}

/// Searches for small counts that follow from the `shown` supports, with at most `limit` linear programs. `safe`
/// holds scopes in which none follows from these or more supports; the search adds others.
///
/// # Errors
/// Supports that contradict each other.
pub(super) fn search(
    transactions: u64,
    shown: &[Vec<FrequentItemset>],
    below: u64,
    limit: usize,
    safe: &mut HashSet<Itemset>,
) -> Result<SearchOutcome, ReleaseError> {
    let items: Itemset = (shown.iter().take(1).flatten())
        .flat_map(|it| it.itemset.items().iter().copied())
        .collect();
    let mut known = PrefixTree::new(transactions);
    let mut result = SearchOutcome {
        found: Vec::new(),
        programs: 0,
        complete: true,
    };
    let scopes = if items.len() <= SCOPE {
        shown.iter().for_each(|level| known.add_level(level));
        vec![items]
    } else {
        let missing = minimal_missing(&mut known, transactions, shown, below, &mut result)?;
        // Counts that follow from an itemset's own subsets are suppressed first; without the itemset, others may not
        // follow.
        if !result.found.is_empty() {
            return Ok(result);
        }
        // Each takes at least one linear program.
        result.complete &= missing.len() <= PROGRAMS;
        let scopes = missing.into_iter().take(PROGRAMS);
        let scopes = scopes.map(|itemset| with_companions(itemset, &items, &known));
        let mut seen = HashSet::new();
        scopes
            .filter(|scope| is_linked(scope, &known) && seen.insert(scope.clone()))
            .collect()
    };
    for scope in scopes {
        if scope.is_empty() || safe.contains(&scope) {
            continue;
        }
        let mut tables = Tables::new(scope.clone(), transactions);
        tables.show(|subset| known.support(subset.items()));
        (tables.limit, tables.programs) = (limit, result.programs);
        let disclosure = tables.disclosure(below);
        result.programs = tables.programs;
        match disclosure {
            _ if result.programs > limit => {
                result.programs = limit;
                result.complete = false;
                break;
            }
            Some(itemset) => result.found.push(Disclosure { itemset, tables }),
            None => {
                safe.insert(scope);
            }
        }
    }
    Ok(result)
}

/// Searches the scope of `tables` for a small count that still follows from the `shown` supports; returns its items.
/// Compared to when `tables` were found, supports may be missing, but none may be new.
pub(super) fn again(
    transactions: u64,
    shown: &[Vec<FrequentItemset>],
    below: u64,
    tables: &mut Tables,
) -> Option<Itemset> {
    if tables.scope.len() > SCOPE {
        return None;
    }
    tables.show(|subset| {
        let Some(level) = subset.len().checked_sub(1) else {
            return Some(transactions);
        };
        let level = shown.get(level)?;
        let place = level.binary_search_by(|it| it.itemset.cmp(subset)).ok()?;
        Some(level[place].support)
    });
    (tables.limit, tables.programs) = (PROGRAMS, 0);
    tables.disclosure(below)
}

/// Returns the minimal missing itemsets, those whose supports have the narrowest bounds first. Adds the shown
/// supports to `known`, and those with only one possible value, unless they have a small part: these are disclosures.
fn minimal_missing(
    known: &mut PrefixTree,
    transactions: u64,
    shown: &[Vec<FrequentItemset>],
    below: u64,
    result: &mut SearchOutcome,
) -> Result<Vec<Itemset>, ReleaseError> {
    let mut missing: Vec<(u64, Itemset)> = Vec::new();
    let mut last: Vec<FrequentItemset> = Vec::new();
    for level in 0..=shown.len().min(LONGEST - 1) {
        let mut here = shown.get(level).cloned().unwrap_or_default();
        let is_known = |subset: &[u32]| known.contains(subset);
        let go_on = || Ok::<_, Infallible>(());
        let Ok(candidates) = candidates_from(&last, is_known, CANDIDATES, go_on);
        result.complete &= candidates.is_some();
        let is_shown = |itemset: &Itemset| {
            let found = here.binary_search_by(|it| it.itemset.cmp(itemset));
            found.is_ok()
        };
        let mut supports = vec![0; 1 << (level + 1)];
        let mut implied = Vec::new();
        for itemset in candidates.unwrap_or_default() {
            if is_shown(&itemset) {
                continue;
            }
            known.subset_supports(itemset.items(), &mut supports);
            let bounds = Bounds::from_subsets(&mut supports);
            let bounds = bounds.map_err(|_| ReleaseError::Impossible)?;
            if bounds.lower < bounds.upper {
                missing.push((bounds.upper - bounds.lower, itemset));
                continue;
            }
            let support = bounds.lower;
            let frequent = FrequentItemset { itemset, support };
            if are_safe(&parts(known, &frequent)?, below) {
                implied.push(frequent);
            } else {
                let itemset = frequent.itemset;
                let tables = Tables::new(itemset.clone(), transactions);
                result.found.push(Disclosure { itemset, tables });
            }
        }
        here.append(&mut implied);
        here.sort_by(|a, b| a.itemset.cmp(&b.itemset));
        known.add_level(&here);
        last = here;
    }
    // Bounds of longer ones already use all subsets.
    missing.retain(|(_, itemset)| itemset.len() < SCOPE);
    missing.sort();
    Ok(missing.into_iter().map(|(_, itemset)| itemset).collect())
}

/// Extends the itemset by the items that are most often shown together with parts of it; of several, the most
/// frequent.
fn with_companions(itemset: Itemset, items: &Itemset, known: &PrefixTree) -> Itemset {
    let together = |item: u32| {
        let is_pair = |&other: &u32| known.contains(Itemset::new([item, other]).items());
        if !itemset.items().iter().any(is_pair) {
            return (0, 0);
        }
        let all = 1u64 << itemset.len();
        let with = |mask| {
            let (part, _) = itemset.split(mask);
            let with: Itemset = part.items().iter().copied().chain([item]).collect();
            known.support(with.items())
        };
        let supports = (1..all).filter_map(with);
        supports.fold((0, 0), |(count, sum), it| (count + 1, sum + u128::from(it)))
    };
    let others = items.items().iter().filter(|&&it| !itemset.contains(it));
    let mut ranked: Vec<_> = others.map(|&it| (Reverse(together(it)), it)).collect();
    ranked.retain(|(Reverse((count, _)), _)| *count > 0);
    ranked.sort_unstable();
    let more = MORE.min(SCOPE - itemset.len());
    let companions = ranked.iter().take(more).map(|&(_, item)| item);
    itemset.items().iter().copied().chain(companions).collect()
}

/// Returns true if shown pairs link all items of a scope. Tables of parts without links combine freely, and each part
/// is in a scope of its own.
fn is_linked(scope: &Itemset, known: &PrefixTree) -> bool {
    let items = scope.items();
    let mut reached = vec![items[0]];
    let mut place = 0;
    while let Some(&from) = reached.get(place) {
        let is_next = |to: &&u32| {
            let pair = Itemset::new([from, **to]);
            !reached.contains(to) && known.contains(pair.items())
        };
        let next: Vec<u32> = items.iter().filter(is_next).copied().collect();
        reached.extend(next);
        place += 1;
    }
    reached.len() == items.len()
}

/// Counts of a scope, as far as tables are known.
///
/// A count is that of the transactions with some items of the scope and without others. Its number has a digit to
/// base 3 for each item, that of the first the lowest: 0 if the item does not matter, 1 with it, 2 without it.
///
/// A table that agrees still does when fewer supports are shown: facts about counts stay true then.
pub(super) struct Tables {
    scope: Itemset,
    /// The shown supports by subset of the scope, one bit per item.
    shown: Vec<Option<i64>>,
    /// The last table found; empty before the first.
    latest: Vec<i64>,
    /// The counts in the first table.
    counts: Vec<i64>,
    /// `true` for counts that are equal in all tables so far.
    is_fixed: Vec<bool>,
    transactions: i64,
    /// The largest number of linear programs of the search.
    limit: usize,
    programs: usize,
}

/// Constraint on a wanted table: a count above or below a number.
#[derive(Clone, Copy)]
enum Cut {
    Above(i64),
    Below(i64),
}

impl Tables {
    fn new(scope: Itemset, transactions: u64) -> Self {
        Self {
            scope,
            shown: Vec::new(),
            latest: Vec::new(),
            counts: Vec::new(),
            is_fixed: Vec::new(),
            transactions: i64::try_from(transactions).unwrap_or(i64::MAX),
            limit: PROGRAMS,
            programs: 0,
        }
    }

    /// Returns the items of the scope.
    pub(super) fn scope(&self) -> &Itemset {
        &self.scope
    }

    /// Sets the shown supports: as before, or fewer.
    fn show(&mut self, known: impl Fn(&Itemset) -> Option<u64>) {
        let support = |mask| {
            let (subset, _) = self.scope.split(mask);
            i64::try_from(known(&subset)?).ok()
        };
        self.shown = (0..1 << self.scope.len()).map(support).collect();
    }

    /// Returns the items of a small count that is equal in all tables, with the fewest items.
    fn disclosure(&mut self, below: u64) -> Option<Itemset> {
        if self.latest.is_empty() {
            let whole = 3usize.pow(self.scope.len() as u32) / 2;
            // First a table that fills the cell of all items; later tables change its small counts.
            let Some(first) = self.table(whole, Cut::Above(-1)) else {
                return Some(self.scope.clone());
            };
            self.counts = counts(&first);
            self.is_fixed = vec![true; self.counts.len()];
            self.latest = first;
        }
        loop {
            self.walk(below);
            let suspect = self.suspect(below)?;
            let value = self.counts[suspect];
            let beyond = [Cut::Above(value), Cut::Below(value)];
            let other = beyond.into_iter().find_map(|it| self.table(suspect, it));
            let Some(other) = other else {
                return Some(self.scope.split(self.items(suspect)).0);
            };
            for (place, count) in counts(&other).into_iter().enumerate() {
                self.is_fixed[place] &= count == self.counts[place];
            }
            self.latest = other;
        }
    }

    /// Looks for tables near the latest one without linear programs, and notes the counts in which they differ.
    ///
    /// A *move* of a set `J` of items, with a set `B` of others, adds `(−1)^|J∖X|` to the cell `B ∪ X` for each
    /// `X ⊆ J`. If no superset of `J` is shown, it keeps each shown support, for example that of `S`. Some item of
    /// `J` is not in `S`, and cells that differ in it alone are both counted or both not, with opposite signs. So a
    /// table that agrees and has no negative cell after a move still agrees. A longer `J` adds nothing: its move is
    /// the difference of two moves of a subset that is smaller by an item, and fits only where both fit.
    fn walk(&mut self, below: u64) {
        let cells = self.shown.len();
        let ternary: Vec<usize> = (0..cells).map(ternary).collect();
        let moves: Vec<(usize, usize)> = (self.minimal_hidden().into_iter())
            .flat_map(|items| (0..cells).map(move |others| (items, others)))
            .filter(|(items, others)| items & others == 0)
            .collect();
        let mut is_noted = vec![false; moves.len()];
        // A fixed seed makes the walk reproducible for given supports.
        let mut random = ChaCha20Rng::from_seed([0; 32]);
        for step in 0..STEPS {
            if step.is_multiple_of(CHECKED) && self.suspect(below).is_none() {
                return;
            }
            let Some(place) = random.next_u64().checked_rem(moves.len() as u64) else {
                return;
            };
            let place = place as usize;
            let (items, others) = moves[place];
            let is_added = |cell: usize| (items & !cell).count_ones().is_multiple_of(2);
            // The number of times that the move fits, and its opposite.
            let (mut forth, mut back) = (i64::MAX, i64::MAX);
            for cell in subsets_of(items) {
                let least = if is_added(cell) {
                    &mut back
                } else {
                    &mut forth
                };
                *least = self.latest[cell | others].min(*least);
            }
            if forth == 0 && back == 0 {
                continue;
            }
            if !std::mem::replace(&mut is_noted[place], true) {
                // It changes the counts that divide by all its items and include some of its cells.
                for choice in 0..cells {
                    let with = choice & (items | others);
                    let without = (items & !choice) | (choice & !items & !others);
                    self.is_fixed[ternary[with] + 2 * ternary[without]] = false;
                }
            }
            let ways = forth.saturating_add(back).saturating_add(1);
            let times = (random.next_u64() % ways as u64) as i64 - back;
            for cell in subsets_of(items) {
                let change = if is_added(cell) { times } else { -times };
                self.latest[cell | others] += change;
            }
            debug_assert!(self.agrees(&self.latest));
        }
    }

    /// Returns a small count that may follow, of the fewest items.
    fn suspect(&self, below: u64) -> Option<usize> {
        let is_suspect = |&count: &usize| {
            let value = u64::try_from(self.counts[count]).unwrap_or(0);
            self.is_fixed[count] && is_small(value, below) && !self.is_shown(count)
        };
        let suspects = (0..self.counts.len()).filter(is_suspect);
        suspects.min_by_key(|&count| self.items(count).count_ones())
    }

    /// Marks the cells that are empty in all tables: those in an empty part of a shown itemset. Shown supports give
    /// the count of that part, 0, and no cell is negative.
    fn empty_cells(&self) -> Vec<bool> {
        let cells = 0..self.shown.len();
        if self.counts.is_empty() {
            return vec![false; cells.len()];
        }
        let ternary: Vec<usize> = cells.clone().map(ternary).collect();
        let is_empty = |cell: usize| {
            let mut shown = cells.clone().filter(|&set| self.shown[set].is_some());
            shown.any(|set| self.counts[ternary[cell & set] + 2 * ternary[set & !cell]] == 0)
        };
        cells.clone().map(is_empty).collect()
    }

    /// Returns the smallest sets of items without a shown superset, one bit per item.
    fn minimal_hidden(&self) -> Vec<usize> {
        let mut is_below: Vec<bool> = self.shown.iter().map(Option::is_some).collect();
        let items = || (0..self.scope.len()).map(|item| 1 << item);
        for item in items() {
            for set in (0..is_below.len()).filter(|set| set & item == 0) {
                is_below[set] |= is_below[set | item];
            }
        }
        let is_minimal = |&set: &usize| {
            let mut inside = items().filter(|item| set & item != 0);
            !is_below[set] && inside.all(|item| is_below[set & !item])
        };
        (0..is_below.len()).filter(is_minimal).collect()
    }

    /// Returns the items of a count, one bit per item.
    fn items(&self, mut count: usize) -> u64 {
        let mut items = 0;
        for place in 0..self.scope.len() {
            items |= u64::from(!count.is_multiple_of(3)) << place;
            count /= 3;
        }
        items
    }

    /// Returns true if the support of its items is shown: then all parts of them are safe.
    fn is_shown(&self, count: usize) -> bool {
        self.shown[self.items(count) as usize].is_some()
    }

    /// Searches with linear programs for a table that agrees and has this count above or below a number.
    fn table(&mut self, count: usize, beyond: Cut) -> Option<Vec<i64>> {
        if self.programs > self.limit {
            return None;
        }
        let last = self.programs + BRANCHES;
        self.programs += 1;
        let (variables, proposed) = self.propose(count, beyond)?;
        self.branch(count, beyond, &variables, proposed, last)
    }

    /// As [`table`](Self::table), by branch and bound from a table of real numbers.
    fn branch(
        &mut self,
        count: usize,
        beyond: Cut,
        variables: &[Option<Variable>],
        proposed: Solution,
        last: usize,
    ) -> Option<Vec<i64>> {
        let all = self.all();
        let value = |it: &Option<Variable>| it.map_or(0.0, |it| proposed.var_value_raw(it) * all);
        let values: Vec<f64> = variables.iter().map(value).collect();
        let table: Vec<i64> = values.iter().map(|it| it.round() as i64).collect();
        let is_beyond = |value: f64| match beyond {
            Cut::Above(than) => value > than as f64 + 0.5,
            Cut::Below(than) => value < than as f64 - 0.5,
        };
        let counted = || (0..table.len()).filter(|&cell| is_counted(cell, count));
        if !is_beyond(counted().map(|cell| values[cell]).sum()) {
            return None;
        }
        if self.agrees(&table) && is_beyond(counted().map(|cell| table[cell] as f64).sum()) {
            return Some(table);
        }
        let distance = |cell: usize| (values[cell] - table[cell] as f64).abs();
        let split = (0..table.len()).max_by(|&a, &b| distance(a).total_cmp(&distance(b)))?;
        if distance(split) < 1e-3 {
            return None;
        }
        let (variable, floor) = (variables[split]?, values[split].floor());
        let mut halves = [(ComparisonOp::Le, floor), (ComparisonOp::Ge, floor + 1.0)];
        if values[split] - floor > 0.5 {
            halves.reverse();
        }
        for (side, end) in halves {
            if self.programs >= last || self.programs > self.limit {
                return None;
            }
            self.programs += 1;
            // The solver continues from the solution without the constraint.
            let half = proposed.clone();
            let half = half.add_constraint([(variable, 1.0)], side, end / all);
            let Some(half) = half.ok().and_then(|it| it.into_solution().ok()) else {
                continue;
            };
            if let Some(table) = self.branch(count, beyond, variables, half, last) {
                return Some(table);
            }
        }
        None
    }

    /// Solves for the table of real numbers that maximizes or minimizes a count. Returns its cells, without those
    /// that are always empty, and the solution.
    fn propose(&self, count: usize, beyond: Cut) -> Option<(Vec<Option<Variable>>, Solution)> {
        let mut problem = Problem::new(match beyond {
            Cut::Above(_) => OptimizationDirection::Maximize,
            Cut::Below(_) => OptimizationDirection::Minimize,
        });
        problem.set_time_limit(PATIENCE);
        let all = self.all();
        let variable = |(cell, is_empty): (usize, bool)| {
            let weight = f64::from(u8::from(is_counted(cell, count)));
            (!is_empty).then(|| problem.add_var(weight, (0.0, f64::INFINITY)))
        };
        let cells = self.empty_cells().into_iter().enumerate();
        let variables: Vec<Option<Variable>> = cells.map(variable).collect();
        let mut seen = HashSet::new();
        for (subset, support) in self.shown.iter().enumerate() {
            if let Some(support) = support {
                let cells = (0..variables.len()).filter(|cell| cell & subset == subset);
                let sum: Vec<Variable> = cells.filter_map(|it| variables[it]).collect();
                // With empty cells, several supports may be sums of equal cells; their values are equal, since the
                // first table has them.
                if seen.insert(sum.iter().map(Variable::idx).collect::<Vec<_>>()) {
                    let sum: Vec<(Variable, f64)> = sum.into_iter().map(|it| (it, 1.0)).collect();
                    problem.add_constraint(&sum[..], ComparisonOp::Eq, *support as f64 / all);
                }
            }
        }
        Some((variables, problem.solve().ok()?.into_solution().ok()?))
    }

    /// Returns the number of transactions. The solver's tolerances are absolute; cells as fractions of all
    /// transactions fit them.
    fn all(&self) -> f64 {
        self.transactions.max(1) as f64
    }

    /// Returns true if a table has the shown supports and no negative cell.
    fn agrees(&self, table: &[i64]) -> bool {
        let sums = supports(table);
        let same = |(sum, shown): (&i64, &Option<i64>)| shown.is_none_or(|it| it == *sum);
        table.iter().all(|&it| it >= 0) && sums.iter().zip(&self.shown).all(same)
    }
}

/// Iterates over the subsets of a set of bits.
fn subsets_of(set: usize) -> impl Iterator<Item = usize> {
    let next = move |&subset: &usize| (subset > 0).then(|| (subset - 1) & set);
    std::iter::successors(Some(set), next)
}

/// Returns the number of the count of all transactions with certain items, one bit per item.
fn ternary(items: usize) -> usize {
    let digits = (0..usize::BITS).take_while(|place| items >> place > 0);
    digits
        .map(|place| (items >> place & 1) * 3usize.pow(place))
        .sum()
}

/// Returns true if the transactions of a cell belong to a count.
fn is_counted(cell: usize, mut count: usize) -> bool {
    let mut cell = cell;
    while count > 0 {
        match (count % 3, cell % 2) {
            (1, 0) | (2, 1) => return false,
            _ => (count, cell) = (count / 3, cell / 2),
        }
    }
    true
}

/// Sums the supports of all subsets in a table.
fn supports(table: &[i64]) -> Vec<i64> {
    let mut sums = table.to_vec();
    let mut half = 1;
    while half < sums.len() {
        for pair in sums.chunks_exact_mut(2 * half) {
            let (without, with) = pair.split_at_mut(half);
            for (without, with) in without.iter_mut().zip(with) {
                *without = without.saturating_add(*with);
            }
        }
        half *= 2;
    }
    sums
}

/// Sums all counts in a table.
fn counts(table: &[i64]) -> Vec<i64> {
    let mut counts = table.to_vec();
    let mut block = 1;
    for _ in 0..table.len().ilog2() {
        let of_item = |pair: &[i64]| {
            let (without, with) = pair.split_at(block);
            let any = without.iter().zip(with).map(|(a, b)| a + b);
            any.chain(with.iter().copied())
                .chain(without.iter().copied())
                .collect::<Vec<_>>()
        };
        counts = counts.chunks_exact(2 * block).flat_map(of_item).collect();
        block *= 3;
    }
    counts
}
