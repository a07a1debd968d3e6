//! What the program does while its counters run: what its users do with the model and with traces.
//!
//! The claims of all papers, some experiments with their figures, transfers without costs or wire,
//! and reports of small and large bundles. The model has no clock of the machine in it, so that
//! each training counts the same. Recording is not trained: it needs rights.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::at;

/// One run of the program, words separated by single spaces; in the checkout, `{}` being the folder
/// for what is written.
const RUNS: &[&str] = &[
    "lab check",
    "lab check --format json",
    "lab run lh-1 -o {}/lh-1",
    "lab run si-1c --format json",
    "lab run si-2a -o {}/si-2a --set total_bytes=16777216",
    "lab run lh-6 -o {}/lh-6",
    "report {}/si-2a/si-2a.sockscope",
    "report {}/si-2a/si-2a.sockscope --format json",
    "report tests/bundles/v1/calls.sockscope",
    "report tests/bundles/v2/calls.sockscope --format csv",
    "report crates/cli/demo/two-writes.sockscope",
    "report crates/cli/demo/one-write.sockscope --format json",
    "show tests/bundles/v2/calls.sockscope",
    "plot {}/si-2a/si-2a.sockscope --figure layers -o {}/layers.svg",
    "convert crates/convert/tests/samples/rpc-call.txt -o {}/rpc-call",
];

/// Runs `program` in the checkout at `root` through everything in [`RUNS`]; returns the files of
/// counts, in a folder of `folder` that is emptied before.
///
/// Fails with the first run that does, or when nothing was counted.
pub fn run(program: &Path, root: &Path, folder: &Path) -> Result<Vec<PathBuf>, String> {
    let written = folder.join("written");
    let counts = folder.join("counts");
    for folder in [&written, &counts] {
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(|error| at(folder, &error))?;
        }
        fs::create_dir_all(folder).map_err(|error| at(folder, &error))?;
    }
    println!("release: training it in {} runs", RUNS.len());
    for run in RUNS {
        train(&mut command(program, root, &written, &counts, run), run)?;
    }
    files(&counts)
}

/// A run as a command; its counts are added to those of the runs before it (`%m`, one file for each
/// program and not for each process).
fn command(program: &Path, root: &Path, written: &Path, counts: &Path, run: &str) -> Command {
    let mut command = Command::new(program);
    command
        .args(run.split(' ').map(|word| word.replace("{}", &written.to_string_lossy())))
        .env("LLVM_PROFILE_FILE", counts.join("%m.profraw"))
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

fn train(command: &mut Command, run: &str) -> Result<(), String> {
    let output = command.stderr(Stdio::piped()).output();
    let output = output.map_err(|error| format!("cannot start the program: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("`sockscope {run}` failed in training: {}", said.trim_end()))
}

fn files(counts: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error| at(counts, &error);
    let mut files = Vec::new();
    for entry in fs::read_dir(counts).map_err(unreadable)? {
        files.push(entry.map_err(unreadable)?.path());
    }
    files.sort();
    if files.is_empty() { Err("training counted nothing".to_owned()) } else { Ok(files) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_writes_and_counts_below_its_folders() {
        let [root, written, counts] = ["/src", "/t/a b", "/t/counts"].map(Path::new);
        let run = "lab run x -o {}/x";
        let command = command(Path::new("/p"), root, written, counts, run);
        assert!(command.get_args().eq(["lab", "run", "x", "-o", "/t/a b/x"]));
        let variable = command.get_envs().next().and_then(|(_, value)| value);
        assert_eq!(variable, Some("/t/counts/%m.profraw".as_ref()));
    }

    #[test]
    fn experiments_and_bundles_of_the_training_exist() {
        let root = crate::tree::root();
        for run in RUNS {
            let words: Vec<&str> = run.split(' ').collect();
            let needed = match words[..] {
                ["lab", "run", id, ..] => format!("experiments/{id}.toml"),
                ["report" | "show", path, ..] if !path.starts_with("{}") => path.to_owned(),
                _ => continue,
            };
            assert!(root.join(&needed).exists(), "{run}: no {needed}");
        }
    }

    #[test]
    fn what_a_run_reads_an_earlier_one_wrote() {
        for (at, run) in RUNS.iter().enumerate() {
            if let Some(path) = run.strip_prefix("report {}/") {
                let folder = path.split('/').next().unwrap_or_default();
                let writes = format!("-o {{}}/{folder}");
                assert!(RUNS[..at].iter().any(|earlier| earlier.contains(&writes)), "{run}");
            }
        }
    }
}
