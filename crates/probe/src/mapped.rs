//! Memory of a BPF map in this process.

use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The first bytes of a map, as words. Atomic, as the kernel and the probes change them meanwhile.
pub(crate) struct Mapped(
    /// The mapping lives as long as this value, so that no method may return a part of it.
    &'static [AtomicU64],
);

impl Mapped {
    /// `bytes` of a map that has as many, or more. `access` allows reading.
    pub(crate) fn new(map: &impl AsFd, bytes: usize, access: ProtFlags) -> io::Result<Self> {
        // SAFETY: a fresh shared mapping at an address of the kernel's choice, which aliases no Rust
        // object. A page is aligned for words, and any bytes are words. Other CPUs write them by
        // aligned stores and atomic operations.
        let words = unsafe {
            let address = mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, map, 0)?;
            std::slice::from_raw_parts(address.cast(), bytes / size_of::<AtomicU64>())
        };
        Ok(Self(words))
    }
}

impl Deref for Mapped {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        self.0
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the range is the one that `new` got from mmap, unmapped once. Nothing refers to it
        // any more.
        let _ = unsafe { munmap(self.0.as_ptr().cast_mut().cast(), size_of_val(self.0)) };
    }
}
