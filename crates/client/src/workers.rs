//! Worker threads that process an answer while it is being received.

use parking_lot::Mutex;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Maximum number of queued pieces, for all threads together.
const WAITING: usize = 8;

/// Receiving end of a worker.
pub(crate) struct WorkerInput<T> {
    receiver: Arc<Mutex<Receiver<T>>>,
}

impl<T> WorkerInput<T> {
    /// Returns the next piece; `None` once the channel is closed and empty.
    pub(crate) fn next(&self) -> Option<T> {
        self.receiver.lock().recv().ok()
    }
}

/// Runs `work` on `threads` threads while `feed` sends them pieces, and waits for all. Sending fails once all workers
/// have returned, with their results as the reason.
pub(crate) fn with_workers<T: Send, W: Send, R>(
    threads: NonZeroUsize,
    work: impl Fn(&WorkerInput<T>) -> W + Sync,
    feed: impl FnOnce(SyncSender<T>) -> R,
) -> (R, Vec<W>) {
    let (sender, receiver) = sync_channel(WAITING);
    let receiver = Arc::new(Mutex::new(receiver));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.get())
            .map(|_| {
                let (work, receiver) = (&work, Arc::clone(&receiver));
                scope.spawn(move || work(&WorkerInput { receiver }))
            })
            .collect();
        // Only workers hold the receiver: sending fails, instead of blocking, once all have returned.
        drop(receiver);
        let fed = feed(sender);
        let results = workers
            .into_iter()
            .map(|worker| worker.join().expect("workers do not panic"))
            .collect();
        (fed, results)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_worked_on_once() {
        for threads in [1, 3] {
            let (sent, sums) = with_workers(
                NonZeroUsize::new(threads).unwrap(),
                |pieces| std::iter::from_fn(|| pieces.next()).sum::<u64>(),
                |sender| {
                    (1..=1000u64)
                        .map(|piece| sender.send(piece))
                        .all(|sent| sent.is_ok())
                },
            );
            assert!(sent);
            assert_eq!((sums.len(), sums.iter().sum()), (threads, 500_500));
        }
    }

    #[test]
    fn nobody_waits_for_workers_that_have_ended() {
        let (sent, _) = with_workers(
            NonZeroUsize::MIN,
            |pieces: &WorkerInput<u64>| pieces.next(),
            |sender| {
                (0..1000)
                    .take_while(|&piece| sender.send(piece).is_ok())
                    .count()
            },
        );
        assert!((1..=1 + WAITING).contains(&sent));
    }
}
