//! Mappings of shared memory: one's own, which only this process writes, and a peer's, which may
//! change at any instant and is only ever read with atomic loads.

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::error::{Error, system};

/// `f_type` of tmpfs (statfs(2)), on which memory files live. Not hugetlbfs: there a page may be
/// missing when it is touched, which kills the reader with SIGBUS.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// The seals of an owner: the size for ever (a file that shrank would kill its readers with
/// SIGBUS), and all writing but through the mapping that it has already.
const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// A mapping of `len` bytes, unmapped when dropped. All pages have memory behind them for as long:
/// the file's size is sealed.
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the value, not to the thread that made it; any owner of the value
// may unmap it.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(file: &OwnedFd, len: usize, protection: ProtFlags) -> Result<Self, Error> {
        // SAFETY: the kernel chooses the place, so nothing that is mapped already is touched; the
        // size was sealed or checked by the caller, and a length of 0 is refused by the kernel.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0)
        };
        let base = NonNull::new(base.map_err(system("mmap"))?.cast());
        let mapping = Self { base: base.ok_or_else(|| system("mmap")(Errno::NOMEM))?, len };
        // A process forked off has no business with it: two writers would break the rule of one.
        // SAFETY: the range is exactly the mapping just made; the advice does not change this
        // process's view of it.
        unsafe { rustix::mm::madvise(mapping.base.as_ptr().cast(), len, Advice::LinuxDontFork) }
            .map_err(system("madvise"))?;
        Ok(mapping)
    }

    /// Panics when the word does not lie within, aligned: positions are computed by a checked
    /// [`Geometry`](super::Geometry), never by the peer.
    fn check(&self, at: usize, len: usize, align: usize) {
        let fits = self.len.checked_sub(len).is_some_and(|last| at <= last);
        assert!(fits && at.is_multiple_of(align), "{len} bytes at {at} of {}", self.len);
    }

    fn word64(&self, at: usize) -> &AtomicU64 {
        self.check(at, 8, 8);
        // SAFETY: within the mapping and aligned, as just checked (the base is page-aligned); lives
        // as long as `self`; every access to these bytes in this process is atomic. On a read-only
        // mapping only loads of at most pointer size are made, which std::sync::atomic allows.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    fn word32(&self, at: usize) -> &AtomicU32 {
        self.check(at, 4, 4);
        // SAFETY: as in `word64`. The low half of a count is taken for its address only, so that no
        // word is accessed in two sizes.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at).cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` mapped; no reference into it outlives `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "the range of a mapping that exists");
    }
}

/// Shared memory that this end alone writes.
pub(crate) struct OwnSegment {
    mapping: Mapping,
}

impl OwnSegment {
    /// A new segment of `len` zero bytes, and the file to pass to its readers. It has no name: it
    /// ends with the last process that has it, by exit or kill (memfd_create(2)).
    pub fn create(len: usize) -> Result<(Self, OwnedFd), Error> {
        let file = memory_file()?;
        rustix::fs::ftruncate(&file, len as u64).map_err(system("ftruncate"))?;
        let mapping = Mapping::new(&file, len, ProtFlags::READ | ProtFlags::WRITE)?;
        rustix::fs::fcntl_add_seals(&file, SEALS).map_err(system("F_ADD_SEALS"))?;
        Ok((Self { mapping }, file))
    }

    pub fn store64(&self, at: usize, value: u64, order: Ordering) {
        self.mapping.word64(at).store(value, order);
    }

    pub fn store32(&self, at: usize, value: u32, order: Ordering) {
        self.mapping.word32(at).store(value, order);
    }

    /// The word that sleepers in other processes wait on. Its address alone is for use: as a count
    /// it is only ever accessed whole.
    pub fn futex(&self, at: usize) -> &AtomicU32 {
        self.mapping.word32(at)
    }

    /// `len` bytes from `at` on, to be written in place. The caller keeps atomic words out of it.
    pub fn bytes_mut(&mut self, at: usize, len: usize) -> &mut [u8] {
        self.mapping.check(at, len, 1);
        // SAFETY: within the mapping, writable, initialized (a new file reads as zeros); `&mut self`
        // makes it the only reference in this process, and the seals keep others from writing.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.base.as_ptr().add(at), len) }
    }
}

/// Shared memory of a peer: read-only, and it may change at any time.
pub(crate) struct PeerSegment {
    mapping: Mapping,
}

impl PeerSegment {
    /// Maps `len` bytes of a file that a peer passed. Refuses files that could fault when read:
    /// those that may shrink, are too short, or are no plain memory files.
    pub fn open(file: &OwnedFd, len: usize) -> Result<Self, Error> {
        let bad = |what| Error::BadSetup { what };
        let seals = rustix::fs::fcntl_get_seals(file);
        if !seals.is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            return Err(bad("a memory file sealed against shrinking"));
        }
        let statfs = rustix::fs::fstatfs(file).map_err(system("fstatfs"))?;
        #[allow(clippy::unnecessary_cast)] // The type differs between architectures.
        if statfs.f_type as i64 != TMPFS_MAGIC {
            return Err(bad("a memory file of plain pages"));
        }
        let size = rustix::fs::fstat(file).map_err(system("fstat"))?.st_size;
        if u64::try_from(size).is_ok_and(|size| size < len as u64) {
            return Err(bad("a memory file as long as the set-up says"));
        }
        Ok(Self { mapping: Mapping::new(file, len, ProtFlags::READ)? })
    }

    pub fn load64(&self, at: usize, order: Ordering) -> u64 {
        self.mapping.word64(at).load(order)
    }

    pub fn load32(&self, at: usize, order: Ordering) -> u32 {
        self.mapping.word32(at).load(order)
    }

    /// The word to sleep on or whose sleepers to wake; both only read it (futex(2)), in the kernel.
    pub fn futex(&self, at: usize) -> &AtomicU32 {
        self.mapping.word32(at)
    }

    /// Copies bytes out, from `at` on, which is a multiple of 8; the last word is read whole. Each
    /// word is read once. Should the peer write meanwhile, the copy mixes old and new words.
    pub fn copy_to(&self, at: usize, to: &mut [u8]) {
        self.mapping.check(at, to.len().next_multiple_of(8), 8);
        let mut words = to.chunks_exact_mut(8);
        let mut word_at = at;
        for chunk in &mut words {
            chunk.copy_from_slice(&self.load_unchecked(word_at));
            word_at += 8;
        }
        let rest = words.into_remainder();
        if !rest.is_empty() {
            rest.copy_from_slice(&self.load_unchecked(word_at)[..rest.len()]);
        }
    }

    /// One word within a range that `check` has passed.
    fn load_unchecked(&self, at: usize) -> [u8; 8] {
        // SAFETY: `copy_to` has checked the whole range and its alignment; else as `word64`.
        let word = unsafe { AtomicU64::from_ptr(self.mapping.base.as_ptr().add(at).cast()) };
        word.load(Ordering::Relaxed).to_ne_bytes()
    }

    /// The bytes themselves.
    ///
    /// # Safety
    /// The peer must not write to them while the slice lives.
    pub unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        self.mapping.check(at, len, 1);
        // SAFETY: within the mapping and initialized; the caller vouches for the peer.
        unsafe { std::slice::from_raw_parts(self.mapping.base.as_ptr().add(at), len) }
    }
}

/// An empty file in memory that can be sealed. Kernels before 6.3 do not know `NOEXEC_SEAL`.
fn memory_file() -> Result<OwnedFd, Error> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let create = |flags| rustix::fs::memfd_create(c"sockscope-channel", flags);
    match create(flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => create(flags),
        result => result,
    }
    .map_err(system("memfd_create"))
}

/// A second descriptor of the same file.
pub(crate) fn duplicate(file: impl AsFd) -> Result<OwnedFd, Error> {
    rustix::io::fcntl_dupfd_cloexec(file, 0).map_err(system("F_DUPFD_CLOEXEC"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_owner_writes_is_read_through_the_file() {
        let (mut own, file) = OwnSegment::create(4_096).unwrap();
        let peer = PeerSegment::open(&file, 4_096).unwrap();
        own.bytes_mut(64, 11).copy_from_slice(b"hello world");
        own.store64(8, 7, Ordering::Release);
        assert_eq!(peer.load64(8, Ordering::Acquire), 7);
        let mut copy = [0; 11];
        peer.copy_to(64, &mut copy);
        assert_eq!(&copy, b"hello world");
    }

    #[test]
    fn a_holder_of_the_file_can_neither_write_nor_cut_it() {
        let (_own, file) = OwnSegment::create(4_096).unwrap();
        assert!(Mapping::new(&file, 4_096, ProtFlags::READ | ProtFlags::WRITE).is_err());
        assert_eq!(rustix::io::pwrite(&file, b"x", 0), Err(Errno::PERM));
        assert_eq!(rustix::fs::ftruncate(&file, 0), Err(Errno::PERM));
        assert_eq!(rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE), Err(Errno::PERM));
    }

    #[test]
    fn files_that_could_fault_are_refused() {
        let unsealed = memory_file().unwrap();
        rustix::fs::ftruncate(&unsealed, 4_096).unwrap();
        assert!(PeerSegment::open(&unsealed, 4_096).is_err());
        let (_own, short) = OwnSegment::create(4_096).unwrap();
        assert!(PeerSegment::open(&short, 8_192).is_err());
        let ordinary = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        assert!(PeerSegment::open(&ordinary, 4_096).is_err());
    }

    #[test]
    #[should_panic(expected = "8 bytes at 4096 of 4096")]
    fn a_position_outside_panics_before_it_is_touched() {
        let (own, _file) = OwnSegment::create(4_096).unwrap();
        own.store64(4_096, 1, Ordering::Relaxed);
    }
}
