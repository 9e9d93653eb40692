//! Phases: clock, CPU time and page faults of the process, and the line of JSON that reports them.

use std::fmt::Write;
use std::mem::MaybeUninit;

/// The phases of Table 6 of the FCMalloc paper; the first round of main is separate.
#[derive(Clone, Copy)]
pub enum Phase {
    Initial,
    First,
    ModulusSwitch,
    Product,
    Add,
    Freeing,
    Terminal,
}

const NAMES: [&str; 7] = [
    "initial",
    "first",
    "modulus_switch",
    "product",
    "add",
    "freeing",
    "terminal",
];

/// One reading of clock and kernel counters, or the sum of differences: seconds, and faults.
#[derive(Clone, Copy, Default)]
struct Reading {
    wall: f64,
    user: f64,
    system: f64,
    faults: i64,
}

pub struct Phases {
    start: f64,
    spent: [Reading; NAMES.len()],
}

impl Phases {
    /// Starts measuring; the start phase is the time since the harness launched the program.
    pub fn begin() -> Self {
        let launched = std::env::var("BENCH_LAUNCHED")
            .ok()
            .and_then(|text| text.parse::<f64>().ok());
        Self {
            start: launched.map_or(0.0, |launched| clock() - launched),
            spent: Default::default(),
        }
    }

    pub fn measure<R>(&mut self, phase: Phase, work: impl FnOnce() -> R) -> R {
        let begin = Reading::now();
        let result = work();
        let end = Reading::now();
        let spent = &mut self.spent[phase as usize];
        spent.wall += end.wall - begin.wall;
        spent.user += end.user - begin.user;
        spent.system += end.system - begin.system;
        spent.faults += end.faults - begin.faults;
        result
    }

    /// Prints everything as one line of JSON, with the number of slots counted in the main phase.
    pub fn report(&self, peak_bytes: u64, slots: usize, verified: bool) {
        let mut phases = String::new();
        for (name, spent) in NAMES.iter().zip(self.spent) {
            let comma = if phases.is_empty() { "" } else { ", " };
            let Reading {
                wall,
                user,
                system,
                faults,
            } = spent;
            write!(
                phases,
                "{comma}\"{name}\": {{\"wall\": {wall:.9}, \"user\": {user:.6}, \
                 \"system\": {system:.6}, \"faults\": {faults}}}"
            )
            .expect("strings take any text");
        }
        println!(
            "{{\"start\": {:.6}, \"phases\": {{{phases}}}, \"peak_bytes\": {peak_bytes}, \
             \"slots\": {slots}, \"verified\": {verified}, \"finished\": {:.6}}}",
            self.start,
            clock()
        );
    }
}

impl Reading {
    fn now() -> Self {
        let mut usage = MaybeUninit::zeroed();
        // SAFETY: the pointer is valid for one `rusage`; all zeros is a valid value, so that it is initialised even
        // before the kernel writes it.
        let usage: libc::rusage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + 1e-6 * time.tv_usec as f64;
        Self {
            wall: clock(),
            user: seconds(usage.ru_utime),
            system: seconds(usage.ru_stime),
            faults: usage.ru_minflt + usage.ru_majflt,
        }
    }
}

/// Seconds on the monotonic clock, whose epoch all processes share.
fn clock() -> f64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a `timespec`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as f64 + 1e-9 * now.tv_nsec as f64
}

/// Marks the beginning and the end of the steady phase in system call traces: nothing else here calls getppid.
pub fn mark() {
    let _ = std::os::unix::process::parent_id();
}

/// The peak resident memory (`VmHWM`).
pub fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status.lines().find_map(|line| {
        line.strip_prefix("VmHWM:")?
            .strip_suffix("kB")?
            .trim()
            .parse()
            .ok()
    });
    kilobytes.unwrap_or(0) << 10
}
