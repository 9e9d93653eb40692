//! Flushes given integers from caches, for memory measurements.

#![allow(unsafe_code)]

/// Whether [`flush`] has an effect: x86-64 and AArch64 allow it in user mode.
pub const FLUSHES: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Evicts the lines of these integers from all caches of the machine, and waits until memory has what was written to
/// them. The integers keep their values.
pub fn flush<'i>(integers: impl IntoIterator<Item = &'i u64>) {
    for integer in integers {
        drop_line(integer);
    }
    wait();
}

#[cfg(target_arch = "x86_64")]
fn drop_line(integer: &u64) {
    // SAFETY: every x86-64 has the instruction, which changes no content and accepts any readable address.
    unsafe { std::arch::x86_64::_mm_clflush(std::ptr::from_ref(integer).cast()) }
}

#[cfg(target_arch = "x86_64")]
fn wait() {
    // SAFETY: every x86-64 has the instruction, which only orders others.
    unsafe { std::arch::x86_64::_mm_mfence() }
}

#[cfg(target_arch = "aarch64")]
fn drop_line(integer: &u64) {
    // SAFETY: Linux allows the instruction in user mode (SCTLR_EL1.UCI); it changes no content and accepts any readable
    // address.
    unsafe {
        std::arch::asm!("dc civac, {}", in(reg) std::ptr::from_ref(integer), options(nostack, preserves_flags))
    }
}

#[cfg(target_arch = "aarch64")]
fn wait() {
    // SAFETY: the instruction only orders others.
    unsafe { std::arch::asm!("dsb sy", options(nostack, preserves_flags)) }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn drop_line(_: &u64) {}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn wait() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_stay_as_they_are() {
        let mut integers = vec![7; 10_000];
        integers[8] = 5;
        let before = integers.clone();
        flush(integers.iter().step_by(8));
        flush([]);
        assert_eq!(integers, before);
    }
}
