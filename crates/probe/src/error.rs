//! Errors between the program and the kernel.

use std::io;
use std::path::PathBuf;

/// Why a recording cannot start or continue. Each is one line with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The right that is missing.
    #[error(
        "cannot load probes without {right}; run as root (sudo) or grant what is missing; `sockscope doctor` says what for"
    )]
    NoRight {
        /// All that are missing, as `CAP_BPF, CAP_PERFMON`.
        right: String,
    },
    /// The kernel lacks something that every recording needs.
    #[error("cannot load probes: this kernel has no {what}; {instead}")]
    NoKernelSupport {
        /// As `BTF (/sys/kernel/btf/vmlinux)`.
        what: &'static str,
        /// The remedy.
        instead: &'static str,
    },
    /// The kernel refused the programs.
    #[error("the kernel refused the probes: {0}; `sockscope doctor` shows which hook failed")]
    Load(String),
    /// The counters of the probes cannot be read.
    #[error("the probes' counters of missed events cannot be read: {reason}")]
    Uncounted {
        /// The kernel's answer.
        reason: String,
    },
    /// A hook could not be attached.
    #[error("cannot attach {hook}: {reason}")]
    Attach {
        /// As `tp_btf/netif_rx`.
        hook: &'static str,
        /// The kernel's answer.
        reason: String,
    },
    /// No control group of version 2.
    #[error("no cgroup2 file system is mounted; mount one: mount -t cgroup2 none /sys/fs/cgroup")]
    NoCgroup,
    /// The groups' folder is not ours to write to.
    #[error(
        "cannot make a control group for the command in {}: it is another user's, or closed to writing, and \
         CAP_DAC_OVERRIDE is missing; run as root (sudo) or grant it, or pick sockets without a command: \
         `sockscope record --port N`",
        folder.display()
    )]
    NoGroupRight {
        /// Where the version 2 hierarchy is.
        folder: PathBuf,
    },
    /// A file of the system could not be used.
    #[error("{what} {}: {source}", path.display())]
    File {
        /// The attempted action, as `cannot create`.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The command could not be started.
    #[error("cannot start {command}: {source}")]
    Spawn {
        /// Its first word.
        command: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A pick that cannot be used.
    #[error("{0}")]
    Pick(String),
    /// The caller could not keep the records.
    #[error("cannot write the trace: {0}")]
    Sink(String),
}
