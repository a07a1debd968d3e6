//! The tests that load probes into the running kernel: their names begin with `root_`.
//!
//! They run when this process has the rights, or can have them from sudo without a password.
//! `SOCKSCOPE_LIVE=0` leaves them out, `SOCKSCOPE_LIVE=1` makes it an error when they cannot run.

use std::path::Path;
use std::process::{Command, Stdio};

use super::programs::Program;
use super::skipped::Skipped;
use super::step::Printed;

/// Capabilities that live recording needs (linux/capability.h), with their bit.
const CAPABILITIES: [(&str, u32); 3] =
    [("CAP_NET_ADMIN", 12), ("CAP_SYS_ADMIN", 21), ("CAP_BPF", 39)];

/// Where the kernel shows its types; without it no probe loads.
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Number of repetitions of a failed test. Some depend on the scheduler and on chance. A fault in every second run
/// still fails three of four of the runs in which it shows.
const REPEATS: u32 = 2;

/// The most tests that run again. More of them have a common cause, and fail the run.
const REPEATED_AT_MOST: usize = 2;

/// The common part of the live tests' names.
const LIVE: &str = "root_";

/// Modules whose live tests start `sockscope-lab` or `sockscope-view`, which are built with everything else.
const OF_LAB: [&str; 9] = [
    "faces::",
    "lab_link::",
    "last_trace::",
    "replays::",
    "situations::newcomers::",
    "soak::strangers::",
    "trial_link::",
    "two_clocks::",
    "vmtp::",
];

/// The live tests of a program to run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All.
    All,
    /// Those that do without other programs.
    WithoutLab,
    /// The others.
    OfLab,
}

impl Which {
    /// The arguments by which a test program runs these.
    fn arguments(self) -> Vec<String> {
        match self {
            Self::All => vec![LIVE.to_owned()],
            Self::WithoutLab => {
                let skipped = OF_LAB.iter().flat_map(|module| ["--skip", module]);
                [LIVE].into_iter().chain(skipped).map(str::to_owned).collect()
            }
            Self::OfLab => OF_LAB.iter().map(|module| format!("{module}{LIVE}")).collect(),
        }
    }
}

/// Whether the live tests can run.
pub enum Rights {
    /// This process may load probes.
    Root,
    /// sudo gives the rights without asking.
    Sudo,
    /// They cannot run, and why.
    Missing(String),
}

/// The rights of this process here.
pub fn rights() -> Rights {
    if std::env::var("SOCKSCOPE_LIVE").is_ok_and(|wish| wish == "0") {
        return Rights::Missing("SOCKSCOPE_LIVE=0".to_owned());
    }
    if !Path::new(KERNEL_TYPES).exists() {
        return Rights::Missing(format!("this kernel has no {KERNEL_TYPES}"));
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    match missing_capability(&status) {
        None => Rights::Root,
        Some(_) if sudo_needs_no_password() => Rights::Sudo,
        Some(name) => Rights::Missing(format!("no {name}, and sudo would ask for a password")),
    }
}

/// Runs live tests of these programs, one at a time: they share the kernel's hooks and the machine's CPUs.
///
/// All programs run; fails with the names of those in which a test failed. A few failed tests run again, alone. A test
/// that then passes each time is added to `unsteady` and fails nothing.
pub fn run(
    programs: &[Program],
    which: Which,
    rights: &Rights,
    skipped: &mut Skipped,
    unsteady: &mut Vec<String>,
) -> Result<(), String> {
    let runner: &[&str] = if let Rights::Sudo = rights { &["sudo", "-n", "-E"] } else { &[] };
    let mut failed = Vec::new();
    for program in programs {
        if count(program)? == 0 {
            continue;
        }
        println!("ci: live tests of {}", program.name);
        let mut once = |arguments: &[String]| {
            let mut command = program.command(runner);
            command.args(arguments).arg("--test-threads=1");
            let mut seen = TestRun::default();
            let status = skipped
                .watch(&mut command, |line| seen.note(line))
                .map_err(|error| format!("cannot start {}: {error}", program.name))?;
            Ok::<_, String>((status.success(), seen))
        };
        let (passed, seen) = once(&which.arguments())?;
        if !passed && !seen.pass_when_repeated(once)? {
            failed.push(program.name.as_str());
        } else {
            unsteady.extend(seen.failed);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("in {}", failed.join(", "))) }
}

/// One run of a program of tests, from the lines of libtest.
#[derive(Debug, Default)]
struct TestRun {
    failed: Vec<String>,
    /// Tests that passed and tests that failed, by the last line; `None` when the program did not reach its end.
    counts: Option<(usize, usize)>,
}

impl TestRun {
    fn note(&mut self, line: &str) {
        let name = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"));
        self.failed.extend(name.map(str::to_owned));
        if let Some(result) = line.strip_prefix("test result: ") {
            let number = |word: &str| {
                let (before, _) = result.split_once(word)?;
                before.split([' ', ';']).rfind(|it| !it.is_empty())?.parse().ok()
            };
            self.counts = number(" passed").zip(number(" failed"));
        }
    }

    /// Whether all tests ran, few of them failed, and each repeat runs exactly these and passes.
    fn pass_when_repeated(
        &self,
        mut repeat: impl FnMut(&[String]) -> Result<(bool, Self), String>,
    ) -> Result<bool, String> {
        let count = self.failed.len();
        let is_whole = self.counts.is_some_and(|(_, failed)| failed == count);
        if !is_whole || count == 0 || count > REPEATED_AT_MOST {
            return Ok(false);
        }
        let exactly: Vec<_> =
            [String::from("--exact")].into_iter().chain(self.failed.iter().cloned()).collect();
        for round in 1..=REPEATS {
            println!("ci: repeat {round} of {REPEATS} of {}", self.failed.join(", "));
            let (passed, again) = repeat(&exactly)?;
            if !passed || again.counts != Some((count, 0)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The line about the tests that failed once and passed each repeat.
pub fn unsteady_line(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| {
        format!(
            "ci: {} failed once, then passed {REPEATS} times alone: find the fault from the failure above: {}",
            if names.len() == 1 { "1 live test".to_owned() } else { format!("{} live tests", names.len()) },
            names.join(", ")
        )
    })
}

/// Number of live tests in this program.
pub fn count(program: &Program) -> Result<usize, String> {
    let printed = Printed::by(program.command(&[]).args([LIVE, "--list"]))?;
    // A program without libtest may list tests that were not asked for.
    let is_live = |line: &&str| line.ends_with(": test") && line.contains(LIVE);
    Ok(printed.output.lines().filter(is_live).count())
}

/// The loud notice for a run without the live tests.
pub fn notice(reason: &str) -> String {
    let rule = "*".repeat(72);
    format!(
        "{rule}\n** The live tests did NOT run: {reason}.\n\
         ** Nothing above shows that the probes work on this kernel.\n\
         ** Run `sudo make test`, or give this user passwordless sudo.\n{rule}"
    )
}

/// Whether the caller insists on the live tests.
pub fn required() -> bool {
    std::env::var("SOCKSCOPE_LIVE").is_ok_and(|wish| wish == "1")
}

/// The first capability that the process with this `/proc/PID/status` lacks.
fn missing_capability(status: &str) -> Option<&'static str> {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let effective = effective.unwrap_or(0);
    CAPABILITIES.iter().find(|(_, bit)| effective >> bit & 1 == 0).map(|(name, _)| *name)
}

fn sudo_needs_no_password() -> bool {
    let mut sudo = Command::new("sudo");
    sudo.args(["-n", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
    sudo.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(lines: &[&str]) -> TestRun {
        let mut run = TestRun::default();
        lines.iter().for_each(|line| run.note(line));
        run
    }

    const ONE_FAILED: &str = "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.5s";
    const ONE_PASSED: &str = "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.5s";

    #[test]
    fn a_failed_test_runs_again_by_its_name_and_must_pass_each_time() {
        let one = seen(&["test a::root_x ... ok", "test a::root_y ... FAILED", "", ONE_FAILED]);
        let mut runs = Vec::new();
        let mut after = |results: [(bool, &str); 2]| {
            let mut results = results.into_iter();
            one.pass_when_repeated(|arguments| {
                runs.push(arguments.join(" "));
                let (passed, line) = results.next().unwrap();
                Ok((passed, seen(&[line])))
            })
        };
        let (good, bad) = ((true, ONE_PASSED), (false, ONE_FAILED));
        assert_eq!(after([good, good]), Ok(true));
        assert_eq!(after([good, bad]), Ok(false));
        assert_eq!(after([bad, good]), Ok(false));
        // No test has that name, or the program ended early.
        assert_eq!(
            after([(true, "test result: ok. 0 passed; 0 failed; 0 ignored"), good]),
            Ok(false)
        );
        assert_eq!(after([(true, ""), good]), Ok(false));
        assert_eq!(runs, ["--exact a::root_y"; 7]);
    }

    #[test]
    fn many_failed_tests_and_a_run_without_its_end_are_not_repeated() {
        let never = |_: &[String]| panic!("nothing runs again");
        let lines = [
            "test a ... FAILED",
            "test b ... FAILED",
            "test c ... FAILED",
            "test result: FAILED. 4 passed; 3 failed; 0 ignored",
        ];
        assert_eq!(seen(&lines).pass_when_repeated(never), Ok(false));
        assert_eq!(seen(&["error: killed"]).pass_when_repeated(never), Ok(false));
        // The tests after the first one did not run.
        assert_eq!(seen(&["test a ... FAILED"]).pass_when_repeated(never), Ok(false));
        assert_eq!(seen(&["test a - x ... FAILED", ONE_FAILED]).counts, Some((1, 1)));
    }

    #[test]
    fn the_first_missing_capability_is_named() {
        assert_eq!(missing_capability("Name:\ta\nCapEff:\t000001ffffffffff\n"), None);
        assert_eq!(missing_capability("CapEff:\t0000000000000000\n"), Some("CAP_NET_ADMIN"));
        assert_eq!(missing_capability("CapEff:\t0000000000201000\n"), Some("CAP_BPF"));
    }

    #[test]
    fn each_live_test_of_lab_is_left_out_first_and_run_later() {
        let words = |which: Which| which.arguments().join(" ");
        assert_eq!(
            words(Which::WithoutLab),
            "root_ --skip faces:: --skip lab_link:: --skip last_trace:: --skip replays:: \
             --skip situations::newcomers:: --skip soak::strangers:: --skip trial_link:: --skip two_clocks:: --skip vmtp::"
        );
        assert_eq!(
            words(Which::OfLab),
            "faces::root_ lab_link::root_ last_trace::root_ replays::root_ \
             situations::newcomers::root_ soak::strangers::root_ trial_link::root_ two_clocks::root_ vmtp::root_"
        );
        assert_eq!(words(Which::All), "root_");
    }

    #[test]
    fn an_unreadable_status_gives_no_rights() {
        assert!(missing_capability("").is_some());
        assert!(missing_capability("CapEff:\tzz").is_some());
    }

    #[test]
    fn the_notice_says_why_and_what_to_do() {
        let text = notice("no CAP_BPF");
        assert!(text.contains("did NOT run: no CAP_BPF.") && text.contains("sudo make test"));
    }
}
