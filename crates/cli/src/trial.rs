//! `sockscope try`: a fix set from outside on an unchanged command, without and with it in turns.

mod difference;
mod document;
mod page;
mod round;
mod rounds;

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use sockscope_probe::{RunAs, Scope, Sides};
use sockscope_program::failure::Failure;
use sockscope_program::signals::StopSignals;
use sockscope_program::temporary;
use sockscope_record::Side;
use sockscope_report::{Report, findings_by_cost, fix_to_try};

use crate::args::{HowArgs, SideArg, Try, TryFormat};
use crate::recording::{CommandOutput, Forcing, Job};
use crate::terminal::{self, Target};
use crate::{bundle, command};
use round::Round;
use rounds::{Chosen, Trial};
use sockscope_program::pick::{PickArgs, Ports, sudo_caller};

/// `sockscope try`.
///
/// # Errors
///
/// When a round cannot be recorded.
pub fn try_fixes(arguments: &Try) -> Result<(), Failure> {
    command::check(&arguments.command)?;
    check_processes(&arguments.pid)?;
    let signals = StopSignals::register()?;
    let run_as = arguments.user.find(sudo_caller().as_deref())?;
    let temporary = if arguments.output.is_none() { Some(temporary::folder()?) } else { None };
    let folder = match (&arguments.output, &temporary) {
        (Some(folder), _) => folder.clone(),
        (None, Some(folder)) => folder.path().to_owned(),
        (None, None) => return Err(Failure::new("there is no folder for the rounds")),
    };
    fs::create_dir_all(&folder).map_err(|error| Failure::file("cannot create", &folder, &error))?;
    let named = arguments.fixes.as_ref().map(|fixes| fixes.0.clone());
    let mut trial = Trial {
        arguments,
        fixes: named.unwrap_or_default(),
        sides: arguments.side.map(SideArg::sides).unwrap_or_default(),
        chosen: None,
        rounds: Vec::new(),
    };
    if arguments.fixes.is_none() {
        trial.round(&folder, false, run_as.as_ref())?;
        trial.choose()?;
    }
    if !trial.fixes.is_empty() {
        trial.announce();
        for at in trial.rounds.len()..arguments.rounds {
            // The command may have ended well in spite of it: each recording has handlers of its own.
            if signals.stop_requested() {
                return Err(Failure::new(format!("interrupted after round {at}")));
            }
            trial.round(&folder, has_fix(at), run_as.as_ref())?;
        }
    }
    trial.write()
}

/// A process that does not run opens no connection: its number is a mistake.
fn check_processes(pids: &[u32]) -> Result<(), Failure> {
    let gone = pids.iter().find(|pid| !Path::new(&format!("/proc/{pid}")).exists());
    gone.map_or(Ok(()), |pid| {
        Err(Failure::new(format!("--pid {pid}: no process has this number; ps -e lists them")))
    })
}

/// Without, with, with, without: a steady change of the machine is the same for both.
fn has_fix(round: usize) -> bool {
    matches!(round % 4, 1 | 2)
}

impl Trial<'_> {
    /// Records the next round.
    fn round(
        &mut self,
        folder: &Path,
        with_fix: bool,
        run_as: Option<&RunAs>,
    ) -> Result<(), Failure> {
        let number = self.rounds.len() + 1;
        let kind = if with_fix { "with" } else { "without" };
        let dir: PathBuf = folder.join(format!("{number}-{kind}.sockscope"));
        let arguments = self.arguments;
        let pick = PickArgs {
            port: arguments.port.clone(),
            addr: arguments.addr.clone(),
            ..PickArgs::default()
        };
        let job = Job {
            pick: &pick,
            how: HowArgs::default(),
            command: &arguments.command,
            run_as,
            stdout: CommandOutput::Stderr,
            dir: &dir,
            duration: None,
            max_records: None,
            other: None,
        };
        let scope = Scope {
            group: None,
            ports: arguments.port.iter().flat_map(Ports::each).collect(),
            addresses: arguments.addr.clone(),
            pids: arguments.pid.clone(),
            sides: self.sides,
        };
        let forcing = Forcing { fixes: &self.fixes, scope };
        let recorded = job.record_with(with_fix.then_some(&forcing))?;
        let forced = recorded.forced().clone();
        let status = match recorded.ended() {
            (_, Some(failure)) => return Err(failure),
            (Some(status), None) => status,
            (None, None) => return Err(Failure::new(format!("round {number} was interrupted"))),
        };
        let round = Round::read((with_fix, &dir), status, forced, (&self.fixes, self.sides))?;
        let first_with = with_fix && !self.rounds.iter().any(|round| round.with_fix);
        self.rounds.push(round);
        if arguments.fixes.is_some() || self.chosen.is_some() {
            stderr!("sockscope: round {number} of {}, {kind}", arguments.rounds);
        }
        if first_with {
            self.peers().iter().for_each(|peer| {
                stderr!(
                    "sockscope: {} is also set on sockets of a peer: {peer}",
                    self.named_accepted()
                );
            });
        }
        Ok(())
    }

    /// Takes the fix from the finding of the first round that costs most and has one.
    fn choose(&mut self) -> Result<(), Failure> {
        let Some(first) = self.rounds.first() else { return Ok(()) };
        let (analysis, origin) = bundle::analyze(&first.dir)?;
        let options = terminal::options(Target::Stdout, self.arguments.color);
        let report = Report { origin: &origin, analysis: &analysis, options: &options };
        let mut changes = Vec::new();
        let mut found = None;
        for finding in findings_by_cost(&report) {
            match fix_to_try(finding) {
                Some(fix) => {
                    found = Some((finding.clone(), fix));
                    break;
                }
                None => changes.push(finding.clone()),
            }
        }
        if let Some((finding, fix)) = &found {
            self.fixes = vec![fix.fix.parse().map_err(Failure::new)?];
            let named = if fix.side == Side::Client { Sides::Client } else { Sides::Server };
            self.sides = self.arguments.side.map_or(named, SideArg::sides);
            stderr!(
                "sockscope: {} at the {}, for {}: {}",
                fix.fix,
                page::sides(self.sides),
                finding.id.name(),
                finding.summary
            );
        }
        self.chosen = Some(Chosen { finding: found.map(|(finding, _)| finding), changes });
        Ok(())
    }

    /// Says whose sockets are changed other than the command's.
    fn announce(&self) {
        for pid in &self.arguments.pid {
            let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            stderr!(
                "sockscope: --pid {pid}: {} is also set on new connections of {} during rounds with it; they keep it \
                 until they are closed",
                self.named(),
                comm.trim_end()
            );
        }
    }

    fn write(&self) -> Result<(), Failure> {
        let mut out = BufWriter::new(std::io::stdout().lock());
        match self.arguments.format {
            TryFormat::Text => page::write(self, &mut out)?,
            TryFormat::Json => document::write(self, &mut out)?,
        }
        out.flush().map_err(|error| Failure::output(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_alternate_so_that_a_steady_change_cancels_out() {
        let with: Vec<usize> = (0..8).filter(|at| has_fix(*at)).collect();
        assert_eq!(with, [1, 2, 5, 6]);
        let without: usize = (0..8).filter(|at| !has_fix(*at)).sum();
        assert_eq!(with.iter().sum::<usize>(), without);
    }
}
