//! The test programs: cargo builds them, and they are run without it.
//!
//! So the programs of the live tests can run while cargo still builds the others. Clippy and rustdoc look at each crate
//! when it is built.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::step::target_folder;

/// Arguments of cargo for the longest live tests: their program, and the one that it starts.
pub const LIVE: &str = "build --quiet --workspace --bin sockscope --test live";
/// The same for all libraries, programs, tests, benchmarks and fuzz targets.
pub const ALL: &str = "build --quiet --workspace --all-targets";

/// The variable by which cargo has each crate of the workspace compiled, linted and documented at once.
pub const LINT: (&str, &str) = ("RUSTC_WORKSPACE_WRAPPER", "scripts/lint");

/// One test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its crate and target, as `sockscope-cli live`.
    pub name: String,
    path: PathBuf,
    /// The folder of its crate, in which cargo would run it.
    folder: PathBuf,
}

impl Program {
    /// The command that runs it, after `runner`, as in `sudo -n`.
    pub fn command(&self, runner: &[&str]) -> Command {
        let mut words = runner.iter().map(AsRef::as_ref).chain([self.path.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }
}

/// Has cargo build, with these arguments, and returns the test programs that it built, in its order.
///
/// `runner` precedes cargo. The compiler's messages go to standard error.
pub fn build(root: &Path, runner: &[&str], arguments: &str) -> Result<Vec<Program>, String> {
    let mut words = runner.iter().copied().chain(["cargo"]).chain(arguments.split(' '));
    let output = Command::new(words.next().unwrap_or_default())
        .args(words)
        .arg("--message-format=json-render-diagnostics")
        .env("CARGO_TARGET_DIR", target_folder(root))
        .env(LINT.0, LINT.1)
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("run `cargo {arguments}` alone"));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut programs: Vec<Program> = messages.lines().filter_map(program).collect();
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

/// The test program of this message of cargo ("The Cargo Book", External tools, JSON messages).
fn program(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
    let is_test = message.pointer("/profile/test").and_then(Value::as_bool)?;
    // A benchmark is built as a test, and takes minutes.
    let is_test = is_test && text("/target/kind/0") != Some("bench");
    let path = text("/executable").filter(|_| is_test)?;
    let folder = Path::new(text("/manifest_path")?).parent()?;
    let package = folder.file_name()?.to_string_lossy();
    let target = text("/target/name")?;
    Some(Program {
        name: format!("{package} {target}"),
        path: path.into(),
        folder: folder.to_path_buf(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(test: bool, executable: &str) -> String {
        message_of("test", test, executable)
    }

    fn message_of(kind: &str, test: bool, executable: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/a/crates/cli/Cargo.toml",
            "target":{{"kind":["{kind}"],"name":"live"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
        )
    }

    #[test]
    fn what_cargo_built_for_tests_is_a_program() {
        let found = program(&message(true, "\"/t/live-1\"")).unwrap();
        assert_eq!(
            (found.name.as_str(), found.folder.to_str()),
            ("cli live", Some("/a/crates/cli"))
        );
        assert_eq!(format!("{:?}", found.command(&["sudo", "-n"]).get_program()), "\"sudo\"");
        assert_eq!(found.command(&[]).get_program(), "/t/live-1");
    }

    #[test]
    fn binaries_libraries_and_other_messages_are_none() {
        assert_eq!(program(&message(false, "\"/t/sockscope\"")), None);
        assert_eq!(program(&message(true, "null")), None);
        assert_eq!(program(&message_of("bench", true, "\"/t/live-1\"")), None);
        assert_eq!(program(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
