//! Calls of the kernel for the benchmarks (feature `bench`).
//!
//! They load empty programs to compare with, keep a thread on one CPU, and read the CPU time and memory of
//! threads and processes.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Child;

use libbpf_rs::libbpf_sys;
use rustix::net::sockopt::set_tcp_congestion;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::ClockId;

use crate::error::Error;
use crate::hooks::{HOOKS, HookEntry, Kernel, When};
use crate::programs::{owned, program_info};
use crate::recorder::nanoseconds;

/// `r0 = 0; exit`, encoded as in the kernel's Documentation/bpf/standardization.
const RETURN_ZERO: [u64; 2] = [0xb7_u64.to_le(), 0x95_u64.to_le()];

/// Programs that do nothing, on every hook that a recording of TCP uses. A transfer's rate with them is
/// the upper limit for any probe on these hooks. Dropping it detaches them.
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
            // SAFETY: a plain system call on a descriptor that `program` keeps open; it makes another.
            let link = unsafe {
                owned(libbpf_sys::bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd()))
            };
            let link = link.map_err(failed)?;
            loaded.push((entry.program, program, link));
        }
        Ok(Self { loaded })
    }

    /// Hits and run time in nanoseconds so far, by the program that each one replaces. The time
    /// does not advance while the kernel's statistics are off.
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
    // own size in them, all of which live through the call. It makes a descriptor.
    unsafe {
        owned(libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_TRACING,
            c"empty".as_ptr(),
            c"GPL".as_ptr(),
            RETURN_ZERO.as_ptr().cast(),
            RETURN_ZERO.len() as libbpf_sys::size_t,
            &raw mut options,
        ))
    }
}

/// Keeps this thread, and the processes that it starts, on one CPU.
///
/// # Errors
/// When there is no such CPU, or the process may not use it.
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// The client and server end of a connection over loopback. Both send with Reno (RFC 5681), which every
/// kernel has, and which never paces. A transfer that waits for a timer leaves CPU time over, and hides the
/// cost of the probes in it.
///
/// # Errors
/// When the kernel refuses.
pub fn unpaced_connection() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Before they connect: a socket that once paced continues to pace.
    set_tcp_congestion(&listener, "reno")?;
    set_tcp_congestion(&client, "reno")?;
    connect(&client, &listener.local_addr()?)?;
    Ok((client.into(), listener.accept()?.0))
}

/// Name of the thread that writes the files of a recording.
const FILES_THREAD: &str = "sockscope-files";

/// CPU time in nanoseconds of this thread and of the thread that writes the files of its recording. Time in
/// the kernel counts, too.
///
/// # Errors
/// When the system does not list the threads of this process.
pub fn recorder_cpu_ns() -> io::Result<u64> {
    let mut cpu_ns = nanoseconds(ClockId::ThreadCPUTime);
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        // A thread that ends meanwhile does not record.
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
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    // libc, as the waiting calls of rustix do not return the use of resources.
    // SAFETY: `status` and `usage` are for the call to fill; all zero is a value, too. `child` was given
    // up without waiting for it, so that the number is still its own.
    let usage = unsafe {
        if libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) < 0 {
            return Err(io::Error::last_os_error());
        }
        usage.assume_init()
    };
    // getrusage(2): in KiB.
    Ok((status == 0, usage.ru_maxrss.unsigned_abs() * 1024))
}
