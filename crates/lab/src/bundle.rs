//! Trace bundles of an experiment's cases: the records of the eight points, as in a live recording.

use std::path::{Path, PathBuf};

use sockscope_experiment::{Case, Error, Experiment, Keep, Parameters, Result, Topology};
use sockscope_sim::BundleSink;
use sockscope_trace::{Meta, Ring, Source};

use crate::model;

/// Writes the bundle of the first repetition of each case into `folder`, if the experiment records
/// traces at all; gives their paths with their cases, in order.
///
/// # Errors
///
/// When a run fails, or a bundle cannot be written.
pub fn write_bundles(experiment: &Experiment, folder: &Path) -> Result<Vec<(Case, PathBuf)>> {
    if !experiment.keeps(Keep::Trace) {
        return Ok(Vec::new());
    }
    let cases = experiment.cases()?.into_iter();
    cases
        .map(|case| {
            let path = write_bundle(experiment, &case, folder)?;
            Ok((case, path))
        })
        .collect()
}

fn write_bundle(experiment: &Experiment, case: &Case, folder: &Path) -> Result<PathBuf> {
    let path = folder.join(experiment.bundle_name(case));
    let refuse = |error: sockscope_trace::Error| Error::Write {
        what: format!("trace bundle {}", path.display()),
        problem: error.to_string(),
    };
    let meta = meta(experiment, case)?;
    std::fs::create_dir_all(folder).map_err(|error| Error::Write {
        what: format!("folder {}", folder.display()),
        problem: error.to_string(),
    })?;
    let sink = BundleSink::create(&path, &meta).map_err(refuse)?;
    let recorded = model::record_with_costs(experiment, case, sink);
    let recorded = recorded.map_err(|problem| experiment.failed(case, problem))?;
    let meta = Meta { cost: recorded.probe_costs, ..meta };
    recorded.sink.finish(&recorded.connections, meta).map_err(refuse)?;
    Ok(path)
}

/// Octets of a record in a kernel's list: time, length, type, and the link to the next one.
const PROBE_RECORD_BYTES: u64 = 20;

/// The room of the lists of both hosts' probes, where these have an end.
fn list(parameters: &Parameters) -> Ring {
    let hosts = if parameters.topology == Topology::Loopback { 1 } else { 2 };
    let records = parameters.probe_list_records.map_or(0, u64::from);
    Ring { records: records.saturating_sub(1), bytes: records * PROBE_RECORD_BYTES * hosts }
}

/// What the bundle says of itself. Nothing of the machine that ran the model stands in it, so that
/// the same experiment gives the same bytes everywhere.
fn meta(experiment: &Experiment, case: &Case) -> Result<Meta> {
    let command = experiment.command(case);
    let case = model::without_path(case).map_err(|problem| experiment.failed(case, problem))?;
    Ok(Meta {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        source: Source::Model,
        pick: case.words(),
        ring: list(&case.parameters),
        host: case.parameters.machine,
        kernel: case.parameters.personality,
        command,
        notes: experiment.notes.clone(),
        ..Meta::default()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use sockscope_experiment::builtin_by_id;

    const MACHINE: &str = include_str!("../../../machines/sparcstation-1.toml");

    /// The files of the only bundle of an experiment whose machine is in `folder`, by name.
    fn files(experiment: &mut Experiment, folder: &Path) -> BTreeMap<String, Vec<u8>> {
        let machine = folder.join("a machine.toml");
        std::fs::write(&machine, MACHINE.replace("\"sparcstation-1\"", "\"slow\"")).unwrap();
        experiment.set(&format!("machine={}", machine.display())).unwrap();
        let written = write_bundles(experiment, &folder.join("results")).unwrap();
        let entries = std::fs::read_dir(&written[0].1).unwrap().map(|entry| entry.unwrap());
        let file = |entry: std::fs::DirEntry| {
            let content = std::fs::read(entry.path()).unwrap();
            (entry.file_name().display().to_string(), content)
        };
        entries.map(file).collect()
    }

    #[test]
    fn a_bundle_says_nothing_of_where_a_machine_s_file_was() {
        let of = |folder: &Path| files(&mut builtin_by_id("lh-2").unwrap(), folder);
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let bundle = of(here.path());
        assert!(bundle.len() > 2);
        assert!(bundle == of(there.path()));
        let says_name = |content: &Vec<u8>| String::from_utf8_lossy(content).contains("\"slow\"");
        assert!(bundle.values().any(says_name));
    }

    /// The command in the bundle of the last case of `id` with these changes.
    fn command(id: &str, changes: &[&str]) -> Vec<String> {
        let mut experiment = builtin_by_id(id).unwrap();
        experiment.set_all(changes).unwrap();
        experiment.seed = 7;
        let case = experiment.cases().unwrap().pop().unwrap();
        meta(&experiment, &case).unwrap().command
    }

    #[test]
    fn a_bundle_has_the_command_line_that_runs_its_case_again() {
        let line = |id, changes: &[&str]| command(id, changes).join(" ");
        let swept = line("lh-2", &["data_bytes=4900"]);
        let set = "--set data_bytes=4900 --set server_timer_ms=180";
        assert_eq!(swept, format!("sockscope lab run lh-2 {set} --seed 7"));
        let word = line("si-4c", &["depth=1"]);
        assert_eq!(
            word,
            "sockscope lab run si-4c --set depth=1 --set scheduler=round-robin --seed 7"
        );
        let repeated = line("lh-6", &["total_bytes=8192"]);
        let set = "--set total_bytes=8192 --set write_bytes=4096";
        assert_eq!(repeated, format!("sockscope lab run lh-6 {set} --seed 7 --repetitions 1"));
    }

    #[test]
    fn the_case_of_a_bundle_is_among_those_that_its_command_line_runs() {
        for experiment in sockscope_experiment::builtin().unwrap() {
            for case in experiment.cases().unwrap().into_iter().take(20) {
                let command = experiment.command(&case);
                assert_eq!(command[..4], ["sockscope", "lab", "run", &experiment.id]);
                let mut again = builtin_by_id(&command[3]).unwrap();
                let sets: Vec<_> = command
                    .windows(2)
                    .filter(|pair| pair[0] == "--set")
                    .map(|pair| &pair[1])
                    .collect();
                again.set_all(&sets).unwrap();
                let is_this = |other: &Case| {
                    (&other.parameters, &other.atm, &other.vmtp)
                        == (&case.parameters, &case.atm, &case.vmtp)
                };
                assert!(again.cases().unwrap().iter().any(is_this), "{}", command.join(" "));
            }
        }
    }

    #[test]
    fn a_file_of_one_s_own_stands_in_the_command_line_without_its_folder() {
        const OWN: &str = include_str!("../../../experiments/lh-8.toml");
        let mut experiment = Experiment::parse("/a folder/own.toml", OWN).unwrap();
        experiment.set("machine=/elsewhere/slow.toml").unwrap();
        let case = experiment.cases().unwrap().remove(0);
        let command = experiment.command(&case).join(" ");
        assert_eq!(command, "sockscope lab run own.toml --set machine=slow.toml --seed 1");
    }
}
