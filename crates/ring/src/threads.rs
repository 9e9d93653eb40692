//! Scoped parallel loops. A panic on any thread is propagated to the caller.

use parking_lot::Mutex;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Runs `work` on `threads` threads, including the caller's; returns all results.
pub fn run<R: Send>(threads: NonZeroUsize, work: impl Fn() -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads.get()).map(|_| scope.spawn(&work)).collect();
        let own = work();
        let join =
            |it: thread::ScopedJoinHandle<'_, R>| it.join().unwrap_or_else(|it| resume_unwind(it));
        others.into_iter().map(join).chain([own]).collect()
    })
}

/// Processes each job once. Every thread folds its jobs into its own state; at most one thread per job runs.
pub fn fold<J, S: Send>(
    threads: NonZeroUsize,
    jobs: impl IntoIterator<Item = J, IntoIter: ExactSizeIterator + Send>,
    state: impl Fn() -> S + Sync,
    step: impl Fn(&mut S, J) + Sync,
) -> Vec<S> {
    let jobs = jobs.into_iter();
    let useful = NonZeroUsize::new(jobs.len()).unwrap_or(NonZeroUsize::MIN);
    let jobs = Mutex::new(jobs);
    let next = || jobs.lock().next();
    run(threads.min(useful), || {
        let mut state = state();
        while let Some(job) = next() {
            step(&mut state, job);
        }
        state
    })
}

/// Maps jobs with `work`; results keep the order of the jobs.
///
/// # Errors
/// The first error encountered. No job is started after it.
pub fn try_map<J, R: Send, E: Send>(
    threads: NonZeroUsize,
    jobs: impl IntoIterator<Item = J, IntoIter: ExactSizeIterator + Send>,
    work: impl Fn(J) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let failed = AtomicBool::new(false);
    let step = |done: &mut Result<Vec<(usize, R)>, E>, (place, job)| {
        if failed.load(Ordering::Relaxed) {
            return;
        }
        match (work(job), done) {
            (Ok(result), Ok(done)) => done.push((place, result)),
            (Err(error), done) => {
                failed.store(true, Ordering::Relaxed);
                *done = Err(error);
            }
            (Ok(_), Err(_)) => {}
        }
    };
    let shares = fold(
        threads,
        jobs.into_iter().enumerate(),
        || Ok(Vec::new()),
        step,
    );
    let shares = shares.into_iter().collect::<Result<Vec<_>, E>>()?;
    let mut all: Vec<(usize, R)> = shares.into_iter().flatten().collect();
    all.sort_unstable_by_key(|(place, _)| *place);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}

/// Maps jobs with `work`; results keep the order of the jobs.
pub fn map<J, R: Send>(
    threads: NonZeroUsize,
    jobs: impl IntoIterator<Item = J, IntoIter: ExactSizeIterator + Send>,
    work: impl Fn(J) -> R + Sync,
) -> Vec<R> {
    let Ok(all) = try_map(threads, jobs, |job| {
        Ok::<_, std::convert::Infallible>(work(job))
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn threads(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).unwrap()
    }

    #[test]
    fn every_job_is_done_once_and_results_keep_their_order() {
        for count in [1, 2, 5] {
            let doubled = map(threads(count), 0..100, |job| 2 * job);
            assert!(doubled.into_iter().eq((0..100).map(|job| 2 * job)));
            let sums = fold(threads(count), 1..101, || 0, |sum, job| *sum += job);
            assert!(sums.len() <= count);
            assert_eq!(sums.iter().sum::<i32>(), 5050);
        }
        assert!(map(threads(3), 0..0, |job: i32| job).is_empty());
    }

    #[test]
    fn no_job_is_begun_after_an_error() {
        let begun = AtomicUsize::new(0);
        let failed = try_map(threads(1), 0..100, |job| {
            begun.fetch_add(1, Ordering::Relaxed);
            if job == 7 { Err(job) } else { Ok(job) }
        });
        assert_eq!((failed, begun.into_inner()), (Err(7), 8));
    }

    #[test]
    #[should_panic(expected = "no such column")]
    fn a_panic_reaches_the_caller() {
        run(threads(2), || {
            if thread::current().name().is_none() {
                panic!("no such column");
            }
        });
    }
}
