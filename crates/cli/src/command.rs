//! The command that is recorded: whether it can start, how it ended, and what goes on after it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use sockscope_program::failure::Failure;

/// Processes that go on, named at most.
const NAMED: usize = 5;

/// Refuses a program that is not there, before anything else is done.
pub fn check(command: &[OsString]) -> Result<(), Failure> {
    let Some(program) = command.first() else { return Ok(()) };
    let is_there = match Path::new(program).components().count() {
        // Searched as exec does; a program that cannot be started is found out by starting it.
        1 if !program.to_string_lossy().contains('/') => {
            // Without PATH, exec has places of its own.
            let path = std::env::var_os("PATH");
            path.is_none_or(|path| is_in(&path, program))
        }
        _ => Path::new(program).is_file(),
    };
    if is_there {
        return Ok(());
    }
    let program = program.to_string_lossy();
    Err(Failure::new(format!("cannot start {program}: there is no such program")))
}

fn is_in(path: &OsStr, program: &OsStr) -> bool {
    std::env::split_paths(path).any(|folder| folder.join(program).is_file())
}

/// As `exit status 3` or `signal 9 (SIGKILL)`.
pub fn ending(status: ExitStatus) -> String {
    status.to_string().replace(": ", " ")
}

/// The status with which a shell would end: 128 and the signal's number where one ended the command.
pub fn exit_code(status: ExitStatus) -> u8 {
    let of_signal = || status.signal().map(|signal| 128 + signal);
    let code = status.code().or_else(of_signal);
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// What to tell of processes that are still there: of the command itself, given only while it runs,
/// and of those that it started.
pub fn survivors(command: Option<u32>, members: &[u32]) -> Option<String> {
    let started: Vec<u32> = members.iter().copied().filter(|pid| Some(*pid) != command).collect();
    let command = command.map(|pid| format!("the command goes on: {}", named(pid)));
    let parts: Vec<String> = command.into_iter().chain(started_ones(&started)).collect();
    (!parts.is_empty())
        .then(|| format!("{}; what comes later is not in the trace", parts.join("; ")))
}

fn started_ones(pids: &[u32]) -> Option<String> {
    let count = pids.len();
    let what = match count {
        0 => return None,
        1 => "1 process that the command started goes on".to_owned(),
        _ => format!("{count} processes that the command started go on"),
    };
    let mut names: Vec<String> = pids.iter().take(NAMED).map(|pid| named(*pid)).collect();
    if count > NAMED {
        names.push(format!("{} more", count - NAMED));
    }
    Some(format!("{what}: {}", names.join(", ")))
}

fn named(pid: u32) -> String {
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    match comm.trim_end() {
        "" => format!("pid {pid}"),
        comm => format!("{comm} (pid {pid})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(program: &str) -> Option<String> {
        check(&[program.into()]).err().map(|failure| failure.to_string())
    }

    #[test]
    fn a_program_that_is_not_there_is_refused() {
        for program in ["/no/such/program", "no-such-program-anywhere", "./no-such-program", "/"] {
            let expected = format!("cannot start {program}: there is no such program");
            assert_eq!(checked(program), Some(expected));
        }
    }

    #[test]
    fn a_program_is_found_by_its_path_and_by_its_name() {
        assert_eq!((checked("sh"), checked("/bin/sh")), (None, None));
    }

    #[test]
    fn an_ending_reads_as_a_sentence() {
        assert_eq!(ending(ExitStatus::from_raw(3 << 8)), "exit status 3");
        assert_eq!(ending(ExitStatus::from_raw(9)), "signal 9 (SIGKILL)");
    }

    #[test]
    fn an_exit_code_is_that_of_a_shell() {
        let codes = [0, 3 << 8, 9, 255 << 8].map(|raw| exit_code(ExitStatus::from_raw(raw)));
        assert_eq!(codes, [0, 3, 137, 255]);
    }

    #[test]
    fn processes_that_go_on_are_named() {
        assert_eq!(survivors(None, &[]), None);
        // Above the largest process id that Linux gives (2^22).
        let gone = [4_194_999; 7];
        let one = survivors(None, &gone[..1]).unwrap();
        assert_eq!(
            one,
            "1 process that the command started goes on: pid 4194999; what comes later is not in the trace"
        );
        let seven = survivors(None, &gone).unwrap();
        assert!(seven.starts_with("7 processes that the command started go on: "), "{seven}");
        assert!(seven.contains("pid 4194999, 2 more; "), "{seven}");
    }
    #[test]
    fn a_command_that_goes_on_is_not_one_that_it_started() {
        let [command, started] = [4_194_998, 4_194_999];
        assert_eq!(
            survivors(Some(command), &[command]).unwrap(),
            "the command goes on: pid 4194998; what comes later is not in the trace"
        );
        assert_eq!(
            survivors(Some(command), &[started, command]).unwrap(),
            "the command goes on: pid 4194998; 1 process that the command started goes on: \
             pid 4194999; what comes later is not in the trace"
        );
    }

    #[test]
    fn a_program_is_looked_for_in_the_folders_of_the_path() {
        assert!(is_in("/no/such/folder:/bin".as_ref(), "sh".as_ref()));
        assert!(!is_in("/no/such/folder".as_ref(), "sh".as_ref()));
    }
}
