//! Rights that are given up as soon as the probes are attached.
//!
//! Landlock leaves the folders of the recording to write, and a few others to read. A filter of system calls (seccomp)
//! leaves no way to another program, file system or namespace. The calls of a recorder stay.

use std::collections::BTreeMap;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, path_beneath_rules,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use sockscope_program::failure::Failure;

/// Newer kernels know more rights, older ones less: what a kernel does not know it does not restrict.
const RIGHTS: ABI = ABI::V5;

/// To read: processes and their names, devices and control groups.
const READ: [&str; 2] = ["/proc", "/sys"];
/// To list: the names of network namespaces, whose folder the first of them makes.
const LIST: &str = "/run";
/// To read for the address of a collector's name.
const READ_FOR_NAMES: [&str; 4] = ["/etc", "/lib", "/usr/lib", "/run/systemd/resolve"];

/// System calls that a recorder never needs.
const REFUSED: [i64; 24] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_chroot,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_reboot,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// Rules that are ready; nothing is restricted yet.
pub struct Sandbox {
    files: RulesetCreated,
    calls: BpfProgram,
}

impl Sandbox {
    /// Files of these folders may be written.
    pub fn new(folders: &[&Path], has_collector: bool) -> Result<Self, Failure> {
        let files = rules(folders, has_collector)
            .map_err(|error| Failure::new(format!("cannot make rules of Landlock: {error}")))?;
        let calls = filter()
            .map_err(|error| Failure::new(format!("cannot make a filter of calls: {error}")))?;
        Ok(Self { files, calls })
    }

    /// The rules of files for another thread. Landlock restricts a thread and those that it starts.
    pub fn files(&self) -> Result<RulesetCreated, Failure> {
        let copied = self.files.try_clone();
        copied.map_err(|error| Failure::new(format!("cannot copy rules of Landlock: {error}")))
    }

    /// Restricts this thread's files, and the calls of all threads. Whether the kernel does restrict files.
    pub fn enter(self) -> Result<bool, Failure> {
        let is_restricted = restrict(self.files)?;
        seccompiler::apply_filter_all_threads(&self.calls)
            .map_err(|error| Failure::new(format!("cannot filter system calls: {error}")))?;
        Ok(is_restricted)
    }
}

/// Restricts the files of this thread. Whether the kernel does.
pub fn restrict(files: RulesetCreated) -> Result<bool, Failure> {
    let status = files.restrict_self();
    let status = status.map_err(|error| Failure::new(format!("cannot restrict files: {error}")))?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

fn rules(folders: &[&Path], has_collector: bool) -> Result<RulesetCreated, RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write = AccessFs::from_write(RIGHTS) | read;
    let names = if has_collector { &READ_FOR_NAMES[..] } else { &[] };
    let rules = Ruleset::default().handle_access(AccessFs::from_all(RIGHTS))?.create()?;
    let rules = rules.add_rules(path_beneath_rules([LIST], AccessFs::ReadDir))?;
    let mut rules = rules.add_rules(path_beneath_rules(READ.iter().chain(names), read))?;
    let rules_of_names = path_beneath_rules(sockscope_probe::folders_of_names(), read);
    rules = rules.add_rules(rules_of_names)?;
    for folder in folders {
        if let Ok(opened) = PathFd::new(folder) {
            rules = rules.add_rule(PathBeneath::new(opened, write))?;
        }
    }
    Ok(rules)
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let refused: BTreeMap<i64, _> = REFUSED.into_iter().map(|call| (call, Vec::new())).collect();
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let architecture = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(refused, SeccompAction::Allow, refuse, architecture)?.try_into()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{ErrorKind, Write};
    use std::process::Command;

    use super::*;

    #[test]
    fn files_elsewhere_and_other_programs_are_refused() {
        let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(other.path().join("secret"), "s").unwrap();
        let sandbox = Sandbox::new(&[own.path()], false).unwrap();
        let thread = std::thread::spawn(move || {
            // Of this thread alone: other tests go on.
            let is_restricted = restrict(sandbox.files).unwrap();
            seccompiler::apply_filter(&sandbox.calls).unwrap();
            let refused = Command::new("true").status().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
            if !is_restricted {
                let _ = writeln!(std::io::stderr(), "SKIPPED: a part: the kernel has no Landlock");
                return;
            }
            fs::write(own.path().join("kept"), "k").unwrap();
            assert_eq!(fs::read_to_string(own.path().join("kept")).unwrap(), "k");
            fs::read_to_string("/proc/self/status").unwrap();
            let refused = fs::read_to_string(other.path().join("secret")).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
            let refused = fs::write(other.path().join("new"), "n").unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        });
        thread.join().unwrap();
    }
}
