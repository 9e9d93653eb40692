//! Samples Linux's counters of a process and its disk every second.

use super::Setting;
use crate::machine;
use crate::output::{Failure, Output, bytes};
use serde::Serialize;
use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(1);
/// The unit of the disk's counters.
const SECTOR: u64 = 512;

/// Prints samples until it is stopped, and keeps the lengths of the disk's queue.
pub struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<Result<Vec<Option<f64>>, Failure>>,
}

impl Sampler {
    /// Samples this process and its disk.
    pub fn start(process: u32, disk: Option<String>, setting: Setting, output: Output) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let begun = Instant::now();
            let mut queue_lengths = Vec::new();
            let Some(mut before) = Reading::now(process, disk.as_deref()) else {
                return Ok(queue_lengths);
            };
            loop {
                let ended = stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
                let Some(now) = Reading::now(process, disk.as_deref()) else {
                    return Ok(queue_lengths);
                };
                let sample = Sample::between(&setting, begun.elapsed(), &before, &now);
                output.result(&sample, || sample.text())?;
                queue_lengths.push(sample.queue_length);
                before = now;
                if ended {
                    return Ok(queue_lengths);
                }
            }
        });
        Self { stop, thread }
    }

    /// Prints the last sample; returns the queue's lengths in all of them.
    pub fn stop(self) -> Result<Vec<Option<f64>>, Failure> {
        // It has stopped already if the process exited.
        let _ = self.stop.send(());
        self.thread.join().expect("sampling does not panic")
    }
}

/// One line. Rates and times are relative to the previous sample.
#[derive(Serialize)]
struct Sample<'s> {
    bench: &'static str,
    #[serde(flatten)]
    setting: &'s Setting,
    /// Since sampling began.
    seconds: f64,
    /// Requests waiting or in flight, on average: iostat's `aqu-sz`.
    queue_length: Option<f64>,
    read_mb_per_second: Option<f64>,
    written_mb_per_second: Option<f64>,
    /// From request to completion, on average.
    await_milliseconds: Option<f64>,
    /// The rest of the disk's rate belongs to other processes.
    server_read_mb_per_second: f64,
    resident_bytes: u64,
    swapped_bytes: u64,
    major_faults: u64,
    /// CPU time over time.
    user_cpu: f64,
    system_cpu: f64,
}

impl<'s> Sample<'s> {
    fn between(setting: &'s Setting, since: Duration, before: &Reading, now: &Reading) -> Self {
        let seconds = (now.at - before.at).as_secs_f64().max(1e-3);
        let disk = before.disk.zip(now.disk);
        let disk = disk.map(|(before, now)| now.since(before));
        let rate = |count: fn(&DiskCounters) -> u64| disk.map(|disk| count(&disk) as f64 / seconds);
        let ticks = |spent: u64| spent as f64 / rustix::param::clock_ticks_per_second() as f64;
        let process = now.process.since(before.process);
        let mb_per_second = |rate: f64| rate / 1e6;
        Self {
            bench: "ssd sample",
            setting,
            seconds: since.as_secs_f64(),
            queue_length: rate(|disk| disk.queue_milliseconds.into()).map(|length| length / 1e3),
            read_mb_per_second: rate(|disk| disk.read_sectors * SECTOR).map(mb_per_second),
            written_mb_per_second: rate(|disk| disk.written_sectors * SECTOR).map(mb_per_second),
            await_milliseconds: disk.map(|disk| disk.waited_milliseconds()),
            server_read_mb_per_second: mb_per_second(
                now.read_bytes.saturating_sub(before.read_bytes) as f64 / seconds,
            ),
            resident_bytes: now.resident_bytes,
            swapped_bytes: now.swapped_bytes,
            major_faults: process.major_faults,
            user_cpu: ticks(process.user_ticks) / seconds,
            system_cpu: ticks(process.system_ticks) / seconds,
        }
    }

    fn text(&self) -> String {
        let figure = |figure: Option<f64>| figure.map_or("-".to_owned(), |it| format!("{it:.1}"));
        format!(
            "{:>6.1} s  queue {:>6}  {:>7} MB/s read  {:>6} ms  {:>11} resident  {:>7} faults  {:.2} + {:.2} CPU\n",
            self.seconds,
            figure(self.queue_length),
            figure(self.read_mb_per_second),
            figure(self.await_milliseconds),
            bytes(self.resident_bytes),
            self.major_faults,
            self.user_cpu,
            self.system_cpu,
        )
    }
}

/// All counters at one moment.
struct Reading {
    at: Instant,
    disk: Option<DiskCounters>,
    process: ProcessCounters,
    read_bytes: u64,
    resident_bytes: u64,
    swapped_bytes: u64,
}

impl Reading {
    /// `None` if the process has exited.
    fn now(process: u32, disk: Option<&str>) -> Option<Self> {
        let statistics = fs::read_to_string("/proc/diskstats").unwrap_or_default();
        Some(Self {
            at: Instant::now(),
            disk: disk.and_then(|disk| DiskCounters::read(&statistics, disk)),
            process: ProcessCounters::of(process)?,
            read_bytes: machine::read_bytes(process).ok()?,
            resident_bytes: machine::process_bytes(process, "VmRSS").ok()?,
            // A kernel without swap does not report it.
            swapped_bytes: machine::process_bytes(process, "VmSwap").unwrap_or(0),
        })
    }
}

/// A disk's row in `/proc/diskstats` (Documentation/admin-guide/iostats.rst).
#[derive(Clone, Copy, Debug, PartialEq)]
struct DiskCounters {
    requests: u64,
    read_sectors: u64,
    written_sectors: u64,
    /// Times wrap at 2^32, which queues reach within days.
    read_milliseconds: u32,
    write_milliseconds: u32,
    queue_milliseconds: u32,
}

impl DiskCounters {
    /// The row of the disk of this name.
    fn read(statistics: &str, name: &str) -> Option<Self> {
        let fields = statistics.lines().find_map(|line| {
            let mut fields = line.split_whitespace().skip(2);
            (fields.next() == Some(name)).then_some(fields)
        })?;
        let fields: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
        let [
            reads,
            _,
            read_sectors,
            read_milliseconds,
            writes,
            _,
            written_sectors,
            write_milliseconds,
            _,
            _,
            queue_milliseconds,
            ..,
        ] = fields[..]
        else {
            return None;
        };
        Some(Self {
            requests: reads + writes,
            read_sectors,
            written_sectors,
            read_milliseconds: read_milliseconds as u32,
            write_milliseconds: write_milliseconds as u32,
            queue_milliseconds: queue_milliseconds as u32,
        })
    }

    /// The mean latency of a request.
    fn waited_milliseconds(self) -> f64 {
        let waited = f64::from(self.read_milliseconds) + f64::from(self.write_milliseconds);
        waited / self.requests.max(1) as f64
    }

    fn since(self, before: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(before.requests),
            read_sectors: self.read_sectors.saturating_sub(before.read_sectors),
            written_sectors: self.written_sectors.saturating_sub(before.written_sectors),
            read_milliseconds: self
                .read_milliseconds
                .wrapping_sub(before.read_milliseconds),
            write_milliseconds: self
                .write_milliseconds
                .wrapping_sub(before.write_milliseconds),
            queue_milliseconds: self
                .queue_milliseconds
                .wrapping_sub(before.queue_milliseconds),
        }
    }
}

/// From `/proc/PID/stat` (proc_pid_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessCounters {
    pub major_faults: u64,
    user_ticks: u64,
    system_ticks: u64,
}

impl ProcessCounters {
    pub fn of(process: u32) -> Option<Self> {
        Self::read(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    fn read(stat: &str) -> Option<Self> {
        // The second field is the program's name, in parentheses; it may contain anything.
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // Fields are numbered from 1, and the first one here is the third.
        let field = |number: usize| fields.get(number - 3)?.parse().ok();
        Some(Self {
            major_faults: field(12)?,
            user_ticks: field(14)?,
            system_ticks: field(15)?,
        })
    }

    pub fn since(self, before: Self) -> Self {
        Self {
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            user_ticks: self.user_ticks.saturating_sub(before.user_ticks),
            system_ticks: self.system_ticks.saturating_sub(before.system_ticks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_known_by_their_whole_names() {
        let statistics = "   8       1 sda1 9 9 9 9 9 9 9 9 9 9 9\n   \
            8       0 sda 10 1 20 30 40 2 50 60 0 70 80 1 2 3 4 5 6\n";
        let expected = DiskCounters {
            requests: 50,
            read_sectors: 20,
            written_sectors: 50,
            read_milliseconds: 30,
            write_milliseconds: 60,
            queue_milliseconds: 80,
        };
        assert_eq!(DiskCounters::read(statistics, "sda"), Some(expected));
        assert_eq!(DiskCounters::read(statistics, "sd"), None);
        assert_eq!(DiskCounters::read("8 0 sda 1 2 3\n", "sda"), None);
    }

    #[test]
    fn names_of_programs_may_hold_anything() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14\n";
        let expected = ProcessCounters {
            major_faults: 9,
            user_ticks: 11,
            system_ticks: 12,
        };
        assert_eq!(ProcessCounters::read(stat), Some(expected));
        assert_eq!(ProcessCounters::read("42 (a) S 1 2"), None);
    }

    #[test]
    fn samples_are_rates() {
        let at = Instant::now();
        let disk = |count| DiskCounters {
            requests: count,
            read_sectors: 4000 * count,
            written_sectors: 0,
            read_milliseconds: 2 * count as u32,
            write_milliseconds: 3 * count as u32,
            // About to wrap.
            queue_milliseconds: (1000 * count as u32).wrapping_sub(5000),
        };
        let process = |count| ProcessCounters {
            major_faults: count,
            user_ticks: 0,
            system_ticks: count * rustix::param::clock_ticks_per_second(),
        };
        let reading = |count| Reading {
            at: at + Duration::from_secs(count),
            disk: Some(disk(3 * count)),
            process: process(count),
            read_bytes: 1_000_000 * count,
            resident_bytes: 7,
            swapped_bytes: 8,
        };
        let setting = Setting::memory();
        let since = Duration::from_secs(9);
        let sample = Sample::between(&setting, since, &reading(1), &reading(3));
        assert_eq!(sample.seconds, 9.0);
        assert_eq!(sample.queue_length, Some(3.0));
        assert_eq!(sample.read_mb_per_second, Some(6.144));
        assert_eq!(sample.await_milliseconds, Some(5.0));
        assert_eq!(sample.server_read_mb_per_second, 1.0);
        assert_eq!((sample.major_faults, sample.system_cpu), (2, 1.0));
        assert_eq!((sample.resident_bytes, sample.swapped_bytes), (7, 8));
        let without = Reading {
            disk: None,
            ..reading(3)
        };
        let sample = Sample::between(&setting, since, &reading(1), &without);
        assert_eq!(sample.queue_length, None);
    }

    #[test]
    fn this_process_can_be_read() {
        let reading = Reading::now(std::process::id(), Some("no such disk")).unwrap();
        assert!(reading.resident_bytes > 0);
        assert!(reading.disk.is_none());
    }
}
