//! What the benchmarks need of the kernel beside a recording (feature `bench`): empty programs to
//! compare with, a CPU for each thread, and the CPU time and memory of threads and processes.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::process::Child;

use libbpf_rs::libbpf_sys;

use crate::error::Error;
use crate::hooks::{HOOKS, HookEntry, Kernel, When};
use crate::programs::program_info;

/// `r0 = 0; exit`, encoded as in the kernel's Documentation/bpf/standardization.
const RETURN_ZERO: [u64; 2] = [0xb7_u64.to_le(), 0x95_u64.to_le()];

/// Programs that do nothing, on every hook that a recording of TCP uses: what remains of the rate
/// with them is what no probe on these hooks could do better. Dropping it detaches them.
pub struct EmptyPrograms {
    /// The hook's program, its empty stand-in and the link of that.
    loaded: Vec<(&'static str, OwnedFd, OwnedFd)>,
}

impl EmptyPrograms {
    /// Loads and attaches one for each tracepoint of [`When::Always`] that this kernel has.
    ///
    /// # Errors
    /// When the kernel refuses one.
    pub fn attach() -> Result<Self, Error> {
        let kernel = Kernel::running();
        let is_there = |entry: &&HookEntry| {
            entry.when == When::Always
                && entry.hook.starts_with("tp_btf/")
                && kernel.as_ref().is_some_and(|kernel| kernel.has(entry))
        };
        let mut loaded = Vec::new();
        for entry in HOOKS.iter().filter(is_there) {
            let failed = |source: io::Error| Error::Attach {
                hook: entry.hook,
                reason: format!("an empty program: {source}"),
            };
            let program = load_empty(entry.hook).map_err(failed)?;
            // SAFETY: a plain system call on a descriptor that `program` keeps open.
            let link = unsafe {
                libbpf_sys::bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd())
            };
            let link = owned(link).map_err(failed)?;
            loaded.push((entry.program, program, link));
        }
        Ok(Self { loaded })
    }

    /// Hits and run time in nanoseconds of each so far, by the program that it stands in for; the
    /// time stands still while the kernel's statistics are off.
    #[must_use]
    pub fn costs(&self) -> BTreeMap<String, (u64, u64)> {
        let cost = |(name, program, _): &(&str, OwnedFd, OwnedFd)| {
            let info = program_info(program.as_raw_fd())?;
            Some(((*name).to_owned(), (info.hits, info.run_ns)))
        };
        self.loaded.iter().filter_map(cost).collect()
    }
}

fn load_empty(hook: &str) -> io::Result<OwnedFd> {
    let tracepoint = CString::new(hook.trim_start_matches("tp_btf/"))?;
    // SAFETY: a null-terminated name; the call keeps no pointer.
    let id = unsafe {
        libbpf_sys::libbpf_find_vmlinux_btf_id(tracepoint.as_ptr(), libbpf_sys::BPF_TRACE_RAW_TP)
    };
    let attach_btf_id = u32::try_from(id).map_err(|_| io::Error::from_raw_os_error(-id))?;
    let mut options = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as libbpf_sys::size_t,
        expected_attach_type: libbpf_sys::BPF_TRACE_RAW_TP,
        attach_btf_id,
        ..Default::default()
    };
    // SAFETY: two instructions of eight bytes, two null-terminated strings and options with their
    // own size in them, all of which live through the call.
    let program = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_TRACING,
            c"empty".as_ptr(),
            c"GPL".as_ptr(),
            RETURN_ZERO.as_ptr().cast(),
            RETURN_ZERO.len() as libbpf_sys::size_t,
            &raw mut options,
        )
    };
    owned(program)
}

fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: a fresh descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Keeps this thread, and the processes that it starts, on one CPU.
///
/// # Errors
/// When there is no such CPU, or the process may not use it.
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: a set of CPUs is plain bits, of which all may be zero.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` is below the number of bits of the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: a set and its size, for this thread.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A connection over loopback, client and server end, both of which send with Reno (RFC 5681): every
/// kernel has it, and it never paces. A transfer that waits for a timer leaves CPU time over, in
/// which what probes cost would not show.
///
/// # Errors
/// When the kernel refuses.
pub fn unpaced_connection() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    // SAFETY: a plain system call.
    let client = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if client < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nothing else owns.
    let client = unsafe { OwnedFd::from_raw_fd(client) };
    // Before they connect: a socket that once paced goes on with it.
    use_reno(listener.as_raw_fd())?;
    use_reno(client.as_raw_fd())?;
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: Ipv4Addr::LOCALHOST.to_bits().to_be() },
        sin_zero: [0; 8],
    };
    // SAFETY: an address and its size, which live through the call.
    let result = unsafe {
        libc::connect(
            client.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((client.into(), listener.accept()?.0))
}

/// Name of the thread that writes the files of a recording.
const FILES_THREAD: &str = "sockscope-files";

fn use_reno(socket: RawFd) -> io::Result<()> {
    let name = b"reno";
    // SAFETY: a name and its length, which live through the call.
    let result = unsafe {
        libc::setsockopt(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// CPU time in nanoseconds, in the kernel and outside, of this thread and of the one that writes the
/// files of its recording, if there is one.
///
/// # Errors
/// When the system does not say which threads this process has.
pub fn recorder_cpu_ns() -> io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the call to fill.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let mut cpu_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        // One that ends meanwhile is none that records.
        let read = |file| std::fs::read_to_string(task.join(file)).unwrap_or_default();
        if read("comm").trim_end() == FILES_THREAD {
            let first = read("schedstat").split(' ').next().and_then(|ns| ns.parse::<u64>().ok());
            cpu_ns += first.unwrap_or_default();
        }
    }
    Ok(cpu_ns)
}

/// Waits for the process to end: whether it succeeded, and its peak of resident memory in bytes.
///
/// # Errors
/// When it was waited for already.
pub fn peak_memory_bytes(child: Child) -> io::Result<(bool, u64)> {
    let pid = child.id().cast_signed();
    drop(child);
    let mut status = 0;
    // SAFETY: plain numbers, of which all may be zero.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `status` and `usage` are for the call to fill; `child` was given up without
    // waiting for it, so that the number is still its own.
    if unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // getrusage(2): in KiB.
    Ok((status == 0, usage.ru_maxrss.unsigned_abs() * 1024))
}
