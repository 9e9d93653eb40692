//! The C library's calls that change files, interposed: the linker prefers a symbol of the program, for Rust's standard
//! library and for C code in the program alike.
//!
//! Each forwards to the kernel. On 64-bit Linux, the only target, a call and its variant with 64 in the name take the
//! same arguments, and a variadic argument is passed like a fixed one.

#![allow(unsafe_code)]

use crate::disk::{self, Answer, At, Identity, Read};
use libc::{AT_FDCWD, AT_REMOVEDIR, c_char, c_int, c_long, c_void, mode_t, off_t, size_t, ssize_t};
use std::ffi::{CStr, OsStr};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// References every symbol here, so that the linker keeps them in a test program.
pub(crate) fn link() {
    let symbols = [
        open as *const (),
        open64 as *const (),
        openat as *const (),
        openat64 as *const (),
        mkdir as *const (),
        link_ as *const (),
        linkat as *const (),
        rename as *const (),
        unlink as *const (),
        unlinkat as *const (),
        rmdir as *const (),
        read as *const (),
        pread as *const (),
        pread64 as *const (),
        write as *const (),
        pwrite as *const (),
        pwrite64 as *const (),
        ftruncate as *const (),
        ftruncate64 as *const (),
        fsync as *const (),
        fdatasync as *const (),
    ];
    std::hint::black_box(symbols);
}

/// Blocks io_uring for this thread and the threads that it starts, as a kernel without it would: requests through a
/// ring bypass the calls here. Lasts as long as the thread.
pub(crate) fn refuse_rings() {
    use libc::{
        BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, PR_SET_NO_NEW_PRIVS,
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, prctl,
        sock_filter, sock_fprog,
    };
    let step = |code: u32, k: u32, jf: u8| sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    // The system call number is the first field that a filter sees.
    let mut filter = [
        step(BPF_LD | BPF_W | BPF_ABS, 0, 0),
        step(
            BPF_JMP | BPF_JEQ | BPF_K,
            libc::SYS_io_uring_setup as u32,
            1,
        ),
        step(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | libc::ENOSYS as u32, 0),
        step(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0),
    ];
    let program = sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program and its filter are valid during the calls, which keep copies.
    let refused = unsafe {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0
    };
    assert!(
        refused,
        "the kernel takes no filter: {}",
        std::io::Error::last_os_error()
    );
}

/// The identity of the file at a path.
pub(crate) fn identity_at(path: &Path) -> Option<Identity> {
    let metadata = path.symlink_metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// The identity of the file behind a descriptor.
pub(crate) fn identity(file: c_int) -> Option<Identity> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `status` has the size that the kernel fills; it is read only if the call succeeded.
    let status = unsafe {
        match libc::fstat(file, status.as_mut_ptr()) {
            0 => status.assume_init(),
            _ => return None,
        }
    };
    Some((status.st_dev, status.st_ino))
}

/// The file's current or last path, by its descriptor.
pub(crate) fn path(file: c_int) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{file}")).ok()
}

/// # Safety
/// `path` is null or zero-terminated, and unchanged during the lifetime of the result.
unsafe fn at<'a>(directory: c_int, path: *const c_char) -> At<'a> {
    let bytes = if path.is_null() {
        &[]
    } else {
        // SAFETY: the caller's contract.
        unsafe { CStr::from_ptr(path) }.to_bytes()
    };
    At {
        directory,
        path: Path::new(OsStr::from_bytes(bytes)),
    }
}

/// Converts a result where `-1` means an error.
fn answer(result: c_long) -> Answer<c_long> {
    match result {
        0.. => Ok(result),
        _ => Err(std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO)),
    }
}

/// Converts the answer back to the C library's convention.
fn give(answer: Answer<c_long>) -> c_long {
    answer.unwrap_or_else(|errno| {
        // SAFETY: the pointer is to this thread's own `errno`.
        unsafe { *libc::__errno_location() = errno };
        -1
    })
}

/// Makes a system call.
macro_rules! kernel {
    ($number:expr $(, $argument:expr)*) => {
        // SAFETY: the number takes these arguments, which are the caller's own.
        answer(unsafe { libc::syscall($number $(, $argument)*) })
    };
}

// SAFETY (of every symbol below): its name and signature are those of the C library, whose contract the caller keeps:
// paths are zero-terminated, buffers have the stated length.

/// # Safety
/// That of `openat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn openat64(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let at = unsafe { at(directory, path) };
    let opened = disk::open(
        at,
        flags & libc::O_CREAT != 0,
        flags & libc::O_TRUNC != 0,
        || kernel!(libc::SYS_openat, directory, path, flags, mode).map(|file| file as c_int),
    );
    give(opened.map(c_long::from)) as c_int
}

/// # Safety
/// That of `openat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn openat(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: the same contract.
    unsafe { openat64(directory, path, flags, mode) }
}

/// # Safety
/// That of `open`.
#[unsafe(no_mangle)]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the same contract.
    unsafe { openat64(AT_FDCWD, path, flags, mode) }
}

/// # Safety
/// That of `open`.
#[unsafe(no_mangle)]
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the same contract.
    unsafe { openat64(AT_FDCWD, path, flags, mode) }
}

/// # Safety
/// That of `mkdir`.
#[unsafe(no_mangle)]
unsafe extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the caller's promise.
    let at = unsafe { at(AT_FDCWD, path) };
    let made = disk::make_directory(at, || {
        kernel!(libc::SYS_mkdirat, AT_FDCWD, path, mode).map(drop)
    });
    give(made.map(|()| 0)) as c_int
}

/// # Safety
/// That of `linkat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn linkat(
    from: c_int,
    old: *const c_char,
    to: c_int,
    new: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let (source, target) = unsafe { (at(from, old), at(to, new)) };
    let linked = disk::link(source, target, || {
        kernel!(libc::SYS_linkat, from, old, to, new, flags).map(drop)
    });
    give(linked.map(|()| 0)) as c_int
}

/// # Safety
/// That of `link`.
#[unsafe(export_name = "link")]
unsafe extern "C" fn link_(old: *const c_char, new: *const c_char) -> c_int {
    // SAFETY: the same contract.
    unsafe { linkat(AT_FDCWD, old, AT_FDCWD, new, 0) }
}

/// # Safety
/// That of `rename`.
#[unsafe(no_mangle)]
unsafe extern "C" fn rename(old: *const c_char, new: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let (source, target) = unsafe { (at(AT_FDCWD, old), at(AT_FDCWD, new)) };
    let renamed = disk::rename(source, target, || {
        kernel!(libc::SYS_renameat2, AT_FDCWD, old, AT_FDCWD, new, 0).map(drop)
    });
    give(renamed.map(|()| 0)) as c_int
}

/// # Safety
/// That of `unlinkat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let at = unsafe { at(directory, path) };
    let removed = disk::remove(at, || {
        kernel!(libc::SYS_unlinkat, directory, path, flags).map(drop)
    });
    give(removed.map(|()| 0)) as c_int
}

/// # Safety
/// That of `unlink`.
#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: the same contract.
    unsafe { unlinkat(AT_FDCWD, path, 0) }
}

/// # Safety
/// That of `rmdir`.
#[unsafe(no_mangle)]
unsafe extern "C" fn rmdir(path: *const c_char) -> c_int {
    // SAFETY: the same contract.
    unsafe { unlinkat(AT_FDCWD, path, AT_REMOVEDIR) }
}

/// # Safety
/// That of `read`.
#[unsafe(no_mangle)]
unsafe extern "C" fn read(file: c_int, to: *mut c_void, count: size_t) -> ssize_t {
    let call = || kernel!(libc::SYS_read, file, to, count).map(|read| read as usize);
    // SAFETY: the caller's promise.
    unsafe { give_read(disk::read(file, || position(file), call), to) }
}

/// # Safety
/// That of `pread`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pread64(
    file: c_int,
    to: *mut c_void,
    count: size_t,
    offset: off_t,
) -> ssize_t {
    let call = || kernel!(libc::SYS_pread64, file, to, count, offset).map(|read| read as usize);
    // SAFETY: the caller's promise.
    unsafe { give_read(disk::read(file, || offset as usize, call), to) }
}

/// # Safety
/// That of `pread`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pread(file: c_int, to: *mut c_void, count: size_t, offset: off_t) -> ssize_t {
    // SAFETY: the same contract.
    unsafe { pread64(file, to, count, offset) }
}

/// Returns what was read, with a bit flipped if the disk says so.
///
/// # Safety
/// `to` points to the bytes read.
unsafe fn give_read(read: Answer<Read>, to: *mut c_void) -> ssize_t {
    let read = read.map(|read| {
        if let Some(at) = read.flipped {
            // SAFETY: the byte is one of those that were read.
            unsafe { *to.cast::<u8>().add(at) ^= 1 };
        }
        read.bytes as c_long
    });
    give(read) as ssize_t
}

/// The current offset of a file.
fn position(file: c_int) -> usize {
    // SAFETY: neither call touches memory.
    let place = unsafe {
        match libc::fcntl(file, libc::F_GETFL) & libc::O_APPEND {
            0 => libc::lseek64(file, 0, libc::SEEK_CUR),
            _ => libc::lseek64(file, 0, libc::SEEK_END),
        }
    };
    place.try_into().expect("a watched file has a position")
}

/// # Safety
/// That of `write`.
#[unsafe(no_mangle)]
unsafe extern "C" fn write(file: c_int, from: *const c_void, count: size_t) -> ssize_t {
    // SAFETY: the caller's promise.
    let data = unsafe { bytes(from, count) };
    let written = disk::write(
        file,
        data,
        || position(file),
        |count| kernel!(libc::SYS_write, file, from, count).map(|written| written as usize),
    );
    give(written.map(|written| written as c_long)) as ssize_t
}

/// # Safety
/// That of `pwrite`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(
    file: c_int,
    from: *const c_void,
    count: size_t,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    let data = unsafe { bytes(from, count) };
    let written = disk::write(
        file,
        data,
        || offset as usize,
        |count| {
            kernel!(libc::SYS_pwrite64, file, from, count, offset).map(|written| written as usize)
        },
    );
    give(written.map(|written| written as c_long)) as ssize_t
}

/// # Safety
/// That of `pwrite`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite(
    file: c_int,
    from: *const c_void,
    count: size_t,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the same contract.
    unsafe { pwrite64(file, from, count, offset) }
}

/// # Safety
/// `from` is valid for reads of `count` bytes during the lifetime of the result, unless `count` is 0.
unsafe fn bytes<'a>(from: *const c_void, count: size_t) -> &'a [u8] {
    match count {
        0 => &[],
        // SAFETY: the caller's contract.
        _ => unsafe { std::slice::from_raw_parts(from.cast(), count) },
    }
}

/// # Safety
/// That of `ftruncate`.
#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate64(file: c_int, length: off_t) -> c_int {
    let truncated = disk::truncate(file, length as usize, || {
        kernel!(libc::SYS_ftruncate, file, length).map(drop)
    });
    give(truncated.map(|()| 0)) as c_int
}

/// # Safety
/// That of `ftruncate`.
#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate(file: c_int, length: off_t) -> c_int {
    // SAFETY: the same contract.
    unsafe { ftruncate64(file, length) }
}

/// # Safety
/// That of `fsync`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fsync(file: c_int) -> c_int {
    give(disk::sync(file).map(|()| 0)) as c_int
}

/// # Safety
/// That of `fdatasync`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fdatasync(file: c_int) -> c_int {
    // SAFETY: the same contract.
    unsafe { fsync(file) }
}
