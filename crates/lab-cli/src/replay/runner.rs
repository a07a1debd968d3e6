//! Runs of a pattern by two processes, each recorded by the program `sockscope`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sockscope_analysis::{Analysis, TraceFacts};
use sockscope_link::Interval;
use sockscope_program::failure::Failure;
use sockscope_program::loaded::{Loaded, STEAL_MIN};

use super::figures::Figures;
use crate::same_cpu::same_cpu;
use crate::work::pattern::cpus::Cpus;

/// The recorder, in the folder of this program or in PATH.
const RECORDER: &str = "sockscope";
/// A run with missed records, or a disturbed one, is made so often at most.
const ATTEMPTS: u32 = 3;
/// Of the server at the other end of a wire.
const AT: &str = "198.18.0.2:7000";

/// Between the two processes.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    /// Loopback, on these CPUs; without them, the kernel chooses.
    Loopback(Option<Cpus>),
    /// A wire with this delay in each direction.
    Wire(Interval),
}

/// Runs patterns.
pub struct Runner {
    program: PathBuf,
    recorder: PathBuf,
    /// A run is made again where the host of a virtual machine gave more of the CPU time to others.
    steal_max: f64,
}

impl Runner {
    /// Of these programs. So much of the CPU time of the recording went to others on the same host.
    pub fn new(steal: Option<f64>) -> Result<Self, Failure> {
        let program = std::env::current_exe()?;
        let near = program.with_file_name(RECORDER);
        let recorder = if near.exists() { near } else { RECORDER.into() };
        Ok(Self { program, recorder, steal_max: STEAL_MIN.max(steal.unwrap_or_default()) })
    }

    /// Records a run of the pattern in `file` into `dir`. A run with missed records is made again: its exchanges are not
    /// known. So is one that had less of the CPUs than the recording.
    pub fn run(&self, file: &Path, dir: &Path, way: Way) -> Result<(Analysis, Figures), Failure> {
        for _ in 1..ATTEMPTS {
            let run = self.run_once(file, dir, way)?;
            let Some(reason) = self.reason_to_repeat(&run.0.facts) else { return Ok(run) };
            stderr!("sockscope: {reason}, and is made again");
            fs::remove_dir_all(dir).map_err(|error| Failure::file("cannot remove", dir, &error))?;
        }
        self.run_once(file, dir, way)
    }

    fn reason_to_repeat(&self, facts: &TraceFacts) -> Option<String> {
        if facts.missed.total() > 0 {
            return Some("this run missed records".to_owned());
        }
        let steal = facts.steal_share.filter(|share| *share > self.steal_max)?;
        Some(format!(
            "other guests had {:.1} % of the CPU time: this run was disturbed",
            steal * 100.0
        ))
    }

    fn run_once(&self, file: &Path, dir: &Path, way: Way) -> Result<(Analysis, Figures), Failure> {
        let mut recorder = Command::new(&self.recorder);
        recorder.args(["record", "--calls", "-o"]).arg(dir).arg("--").arg(&self.program);
        recorder.args(self.words(file, way));
        let output = recorder.stdin(Stdio::null()).stdout(Stdio::null()).output();
        let output =
            output.map_err(|error| Failure::file("cannot start", &self.recorder, &error))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let words = |line: &str| line.trim_start_matches("sockscope: ").to_owned();
        let failed = said.lines().find(|line| line.starts_with("sockscope: lab")).map(words);
        match failed {
            Some(reason) => Err(Failure::new(format!("replay: {reason}"))),
            None if !output.status.success() => {
                let reason = said.lines().last().map(words).unwrap_or_default();
                Err(Failure::new(format!("replay: the run was not recorded: {reason}")))
            }
            None => {
                let analysis = Loaded::read(dir)?.finish().0;
                let figures = Figures::of(&analysis, same_cpu(dir)?);
                Ok((analysis, figures))
            }
        }
    }

    fn words(&self, file: &Path, way: Way) -> Vec<OsString> {
        let work = ["lab", "work", "pattern"].map(OsString::from);
        let client = |more: &[&str]| {
            let more = more.iter().map(OsString::from).chain([file.into()]);
            work.iter().cloned().chain(more).collect::<Vec<_>>()
        };
        let delay = match way {
            Way::Loopback(None) => return client(&[]),
            Way::Loopback(Some(cpus)) => return client(&["--cpus", &cpus.to_string()]),
            Way::Wire(delay) => delay,
        };
        let server =
            [self.program.as_os_str(), "lab".as_ref(), "work".as_ref(), "pattern".as_ref()];
        let server = server.into_iter().chain(["--listen".as_ref(), AT.as_ref(), file.as_os_str()]);
        let server: Vec<String> = server.map(|word| quoted(&word.to_string_lossy())).collect();
        let link =
            ["lab", "link", "--delay", &delay.to_string(), "--server", &server.join(" "), "--"];
        let mut words: Vec<OsString> = link.map(OsString::from).into();
        words.push(self.program.clone().into());
        words.extend(client(&["--to", AT]));
        words
    }
}

/// A word for sh.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use sockscope_record::LossCounts;

    use super::*;

    #[test]
    fn a_run_that_missed_records_or_had_less_of_the_cpus_is_made_again() {
        let runner = Runner { program: "".into(), recorder: "".into(), steal_max: 0.02 };
        let of = |steal_share, events| {
            let missed = LossCounts { events, ..LossCounts::default() };
            runner.reason_to_repeat(&TraceFacts { steal_share, missed, ..TraceFacts::default() })
        };
        assert_eq!([of(None, 0), of(Some(0.0), 0), of(Some(0.02), 0)], [None, None, None]);
        assert_eq!(of(None, 1).unwrap(), "this run missed records");
        let disturbed = "other guests had 2.1 % of the CPU time: this run was disturbed";
        assert_eq!(of(Some(0.021), 0).unwrap(), disturbed);
    }

    #[test]
    fn a_wire_has_a_server_at_its_other_end() {
        let runner = Runner { program: "/x/it's".into(), recorder: "r".into(), steal_max: 0.01 };
        let words = |way| {
            let words = runner.words(Path::new("a b.toml"), way);
            words
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
                .join("|")
        };
        assert_eq!(words(Way::Loopback(None)), "lab|work|pattern|a b.toml");
        let on_two = words(Way::Loopback(Some(Cpus::Two)));
        assert_eq!(on_two, "lab|work|pattern|--cpus|two|a b.toml");
        assert_eq!(
            words(Way::Wire(Interval(10_000_000))),
            "lab|link|--delay|10ms|--server|'/x/it'\\''s' 'lab' 'work' 'pattern' '--listen' '198.18.0.2:7000' \
             'a b.toml'|--|/x/it's|lab|work|pattern|--to|198.18.0.2:7000|a b.toml"
        );
    }
}
