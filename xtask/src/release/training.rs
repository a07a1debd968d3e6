//! What the programs do while their counters run: what users do with the model and with traces.
//!
//! The claims of all papers, some experiments with their figures, transfers without costs or wire,
//! and reports of small and large bundles. The model has no clock of the machine in it, so that
//! each training counts the same. Recording is not trained: it needs rights.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::command::{at, files, last_line, not_started, words};

/// One run of `sockscope`, which starts the other program for its commands. Words are separated by
/// single spaces; it runs in the checkout, `{}` being the folder for what is written.
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

/// Runs the programs in the folder `programs` through everything in [`RUNS`], in the checkout at `root`;
/// returns the files of counts, in a folder of `folder` that is emptied before.
///
/// Fails with the first run that does, or when nothing was counted.
pub fn run(programs: &Path, root: &Path, folder: &Path) -> Result<Vec<PathBuf>, String> {
    let written = folder.join("written");
    let counts = folder.join("counts");
    for folder in [&written, &counts] {
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(|error| at(folder, &error))?;
        }
        fs::create_dir_all(folder).map_err(|error| at(folder, &error))?;
    }
    println!("release: training them in {} runs", RUNS.len());
    let program = programs.join("sockscope");
    for run in RUNS {
        train(&mut command(&program, root, &written, &counts, run))?;
    }
    let counted = files(&counts, "profraw")?;
    if counted.is_empty() { Err("training counted nothing".to_owned()) } else { Ok(counted) }
}

/// A run as a command; its counts are added to those of the runs before it (`%m`, one file for each
/// program and not for each process).
///
/// Their folder is named as that for temporary files (`%t`): a `%` in a path written out would begin
/// a pattern too, and nothing escapes it.
fn command(program: &Path, root: &Path, written: &Path, counts: &Path, run: &str) -> Command {
    let mut command = Command::new(program);
    command
        .args(run.split(' ').map(|word| word.replace("{}", &written.to_string_lossy())))
        .env("LLVM_PROFILE_FILE", "%t/%m.profraw")
        .env("TMPDIR", counts)
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

fn train(command: &mut Command) -> Result<(), String> {
    let output = command.stderr(Stdio::piped()).output();
    let output = output.map_err(|error| not_started(command.get_program(), &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = last_line(&output.stderr);
    Err(format!("`{}` failed in training: {said}", words(command)))
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
        let set: Vec<_> =
            command.get_envs().filter_map(|(name, value)| Some((name, value?))).collect();
        let expected = [("LLVM_PROFILE_FILE", "%t/%m.profraw"), ("TMPDIR", "/t/counts")];
        assert_eq!(set, expected.map(|(name, value)| (name.as_ref(), value.as_ref())));
    }

    #[test]
    fn a_run_that_fails_is_named_with_its_words_and_the_last_line_it_wrote() {
        let mut command = Command::new("sh");
        let refused = train(command.args(["-c", "echo one >&2; echo two >&2; false"]));
        let expected = "`sh -c echo one >&2; echo two >&2; false` failed in training: two";
        assert_eq!(refused, Err(expected.to_owned()));
    }

    #[test]
    fn experiments_and_files_of_the_training_exist() {
        let root = crate::tree::root();
        for run in RUNS {
            let words: Vec<&str> = run.split(' ').collect();
            if let ["lab", "run", id, ..] = words[..] {
                assert!(root.join(format!("experiments/{id}.toml")).exists(), "{run}");
            }
            let paths = words.iter().filter(|word| word.contains('/') && !word.starts_with("{}"));
            for path in paths {
                assert!(root.join(path).exists(), "{run}: no {path}");
            }
        }
    }

    #[test]
    fn what_a_run_reads_an_earlier_one_wrote() {
        let mut written = Vec::new();
        for run in RUNS {
            let words: Vec<&str> = run.split(' ').collect();
            for (at, word) in words.iter().enumerate().filter(|(_, word)| word.starts_with("{}/")) {
                let folder = word.split('/').nth(1);
                if at > 0 && words[at - 1] == "-o" {
                    written.push(folder);
                } else {
                    assert!(written.contains(&folder), "{run}: nothing wrote {word}");
                }
            }
        }
    }
}
