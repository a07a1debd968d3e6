//! Runs of a pattern by two processes, each recorded by the program `sockscope`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sockscope_analysis::Analysis;
use sockscope_link::Interval;
use sockscope_program::failure::Failure;
use sockscope_program::loaded::Loaded;

/// The recorder, in the folder of this program or in PATH.
const RECORDER: &str = "sockscope";
/// A run with missed records is made so often at most.
const ATTEMPTS: u32 = 3;
/// Of the server at the other end of a wire.
const AT: &str = "198.18.0.2:7000";

/// Runs patterns.
pub struct Runner {
    program: PathBuf,
    recorder: PathBuf,
}

impl Runner {
    /// Of these programs.
    pub fn new() -> Result<Self, Failure> {
        let program = std::env::current_exe()?;
        let near = program.with_file_name(RECORDER);
        let recorder = if near.exists() { near } else { RECORDER.into() };
        Ok(Self { program, recorder })
    }

    /// Records a run of the pattern in `file` into `dir`, over loopback or over a wire with this delay. A run with missed
    /// records is made again: its exchanges are not known.
    pub fn run(
        &self,
        file: &Path,
        dir: &Path,
        delay: Option<Interval>,
    ) -> Result<Analysis, Failure> {
        for _ in 1..ATTEMPTS {
            let analysis = self.run_once(file, dir, delay)?;
            if analysis.facts.missed.total() == 0 {
                return Ok(analysis);
            }
            stderr!("sockscope: this run missed records, and is made again");
            fs::remove_dir_all(dir).map_err(|error| Failure::file("cannot remove", dir, &error))?;
        }
        self.run_once(file, dir, delay)
    }

    fn run_once(
        &self,
        file: &Path,
        dir: &Path,
        delay: Option<Interval>,
    ) -> Result<Analysis, Failure> {
        let mut recorder = Command::new(&self.recorder);
        recorder.args(["record", "--calls", "-o"]).arg(dir).arg("--").arg(&self.program);
        recorder.args(self.words(file, delay));
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
            None => Ok(Loaded::read(dir)?.finish().0),
        }
    }

    fn words(&self, file: &Path, delay: Option<Interval>) -> Vec<OsString> {
        let work = ["lab", "work", "pattern"].map(OsString::from);
        let client = |more: &[&str]| {
            let more = more.iter().map(OsString::from).chain([file.into()]);
            work.iter().cloned().chain(more).collect::<Vec<_>>()
        };
        let Some(delay) = delay else { return client(&[]) };
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
    use super::*;

    #[test]
    fn a_wire_has_a_server_at_its_other_end() {
        let runner = Runner { program: "/x/it's".into(), recorder: "r".into() };
        let words = |delay| {
            let words = runner.words(Path::new("a b.toml"), delay);
            words
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
                .join("|")
        };
        assert_eq!(words(None), "lab|work|pattern|a b.toml");
        assert_eq!(
            words(Some(Interval(10_000_000))),
            "lab|link|--delay|10ms|--server|'/x/it'\\''s' 'lab' 'work' 'pattern' '--listen' '198.18.0.2:7000' \
             'a b.toml'|--|/x/it's|lab|work|pattern|--to|198.18.0.2:7000|a b.toml"
        );
    }
}
