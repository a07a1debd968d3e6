//! Why a profile was not made.

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The kernel takes no samples for this process.
    #[error(
        "the kernel refuses samples: {0}: run it as root, or allow it with sysctl kernel.perf_event_paranoid=1"
    )]
    Refused(#[source] std::io::Error),
    /// The command did not start.
    #[error("cannot run the command: {0}")]
    Command(#[source] std::io::Error),
    /// No list of functions.
    #[error("cannot read /proc/kallsyms: {0}")]
    Symbols(#[source] std::io::Error),
    /// A list without addresses.
    #[error(
        "the kernel hides the addresses of its functions: run it as root, or allow it with sysctl kernel.kptr_restrict=0"
    )]
    HiddenSymbols,
}
