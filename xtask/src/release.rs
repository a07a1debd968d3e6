//! `cargo xtask release`: the program as users get it, compiled with a profile of itself at work.
//!
//! The model's code is larger than a CPU's first-level cache, so that its speed is where the
//! compiler puts which code. Built once with counters, trained ([`training`]), and built again with
//! what was counted; [`turns`] then compares the two builds. Nothing is fetched.

mod training;
mod turns;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The cargo profile of both builds, in the workspace's `Cargo.toml`.
const PROFILE: &str = "optimized";
/// Counts what runs. Where the counts go is said when the program starts.
const COUNTING: &str = "-Cprofile-generate";
/// What no training reaches and the compiler would take for code that hardly ever runs, and make
/// small: without a profile it is compiled as always. Part of the functions' names.
const UNTRAINED: &str = "sockscope_(probe|channel|remote|vmtp6driver|lab4live)|libbpf|quinn|tokio";

/// Paths and the compiler's words that all steps share.
struct Workshop {
    root: PathBuf,
    /// Cargo's target folder.
    target: PathBuf,
    /// Counts, and what training writes.
    training: PathBuf,
    /// The triple that is built for: this machine.
    host: String,
    /// `llvm-profdata` of the compiler's own LLVM: others cannot read its counts.
    profdata: PathBuf,
}

/// Builds the trained program of the checkout at `root` and says where it is; `arguments` may hold
/// `--bench`, to compare its model with that of the plain build.
///
/// Fails with one line when the arguments are unknown, a tool is missing or a step fails.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let is_bench = match arguments {
        [] => false,
        [word] if word == "--bench" => true,
        _ => return Err("release takes --bench or nothing".to_owned()),
    };
    let workshop = Workshop::find(root)?;
    workshop.build_with_counters()?;
    let counts = training::run(&workshop.program(), &workshop.root, &workshop.training)?;
    workshop.merge(&counts)?;
    let program = workshop.build()?;
    let bytes = fs::metadata(&program).map_err(|error| at(&program, &error))?.len();
    println!("release: {} ({:.1} MB)", program.display(), bytes as f64 / 1e6);
    if is_bench { turns::run(&workshop) } else { Ok(()) }
}

impl Workshop {
    fn find(root: &Path) -> Result<Self, String> {
        let version = output(Command::new("rustc").arg("-vV"))?;
        let host = host(&version).ok_or("rustc -vV does not say its host")?.to_owned();
        let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
        let tools = Path::new(sysroot.trim()).join("lib/rustlib").join(&host).join("bin");
        let profdata = tools.join("llvm-profdata");
        if !profdata.exists() {
            let advice = "install it with `rustup component add llvm-tools`";
            return Err(format!("{} is missing: {advice}", profdata.display()));
        }
        // The compiler runs in other folders: a path from here would be another one there.
        let target = crate::ci::target_folder(root);
        let target = std::path::absolute(&target).map_err(|error| at(&target, &error))?;
        let training = target.join("training");
        Ok(Self { root: root.to_owned(), target, training, host, profdata })
    }

    /// Where cargo puts the program of either build.
    fn program(&self) -> PathBuf {
        self.target.join(&self.host).join(PROFILE).join("sockscope")
    }

    fn profile(&self) -> PathBuf {
        self.training.join("merged.profdata")
    }

    /// Flags of the second build.
    fn trained(&self) -> String {
        format!("-Cprofile-use={}", self.profile().display())
    }

    /// Cargo with `flags` for what is built, but not for what runs during the build: hence
    /// `--target`. The user's own flags come first.
    fn cargo(&self, task: &str, flags: &str) -> Command {
        let mut command = Command::new("cargo");
        command
            .args([task, "--profile", PROFILE, "--target", &self.host])
            .env("CARGO_ENCODED_RUSTFLAGS", encoded(std::env::var("RUSTFLAGS").ok(), flags))
            .env("CARGO_TARGET_DIR", &self.target)
            .current_dir(&self.root);
        command
    }

    fn build_with_counters(&self) -> Result<(), String> {
        println!("release: building the program with counters");
        succeed(self.cargo("build", COUNTING).args(["--quiet", "--package", "sockscope-cli"]))
    }

    /// Sums the counts up, without those of code that training does not reach.
    fn merge(&self, counts: &[PathBuf]) -> Result<(), String> {
        let mut command = Command::new(&self.profdata);
        command.arg("merge").arg(format!("--no-function={UNTRAINED}")).arg("-o");
        // Its one remark, how many functions that leaves out, helps nobody.
        let output = command.arg(self.profile()).args(counts).output();
        let output = output.map_err(|error| not_started(self.profdata.as_os_str(), &error))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{command:?} failed: {}", said.trim_end()))
    }

    /// Builds with the profile, and returns where the program is.
    fn build(&self) -> Result<PathBuf, String> {
        println!("release: building it again with what was counted");
        let cargo = ["--quiet", "--package", "sockscope-cli"];
        succeed(self.cargo("build", &self.trained()).args(cargo))?;
        // Cargo's own place holds the program with counters while that is built.
        let folder = self.target.join(PROFILE);
        let program = folder.join("sockscope");
        fs::create_dir_all(&folder).map_err(|error| at(&folder, &error))?;
        // A program that runs keeps its file: it is replaced, not written to.
        let fresh = folder.join("sockscope.new");
        fs::copy(self.program(), &fresh).map_err(|error| at(&fresh, &error))?;
        fs::rename(&fresh, &program).map_err(|error| at(&program, &error))?;
        Ok(program)
    }
}

/// The triple in what `rustc -vV` prints.
fn host(version: &str) -> Option<&str> {
    version.lines().find_map(|line| line.strip_prefix("host: "))
}

/// Flags as cargo reads them where they may hold spaces: the words of `own`, then `flags` as one.
fn encoded(own: Option<String>, flags: &str) -> String {
    let own = own.unwrap_or_default();
    own.split_whitespace().chain([flags]).collect::<Vec<_>>().join("\u{1f}")
}

/// Runs a command to its end, its output on the terminal.
fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| not_started(command.get_program(), &error))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed")) }
}

/// What a command prints.
fn output(command: &mut Command) -> Result<String, String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| not_started(command.get_program(), &error))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(text) } else { Err(format!("{command:?} failed")) }
}

fn not_started(program: &OsStr, error: &std::io::Error) -> String {
    format!("cannot start {}: {error}", program.display())
}

fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workshop() -> Workshop {
        Workshop {
            root: "/src".into(),
            target: "/a b/target".into(),
            training: "/a b/target/training".into(),
            host: "x86_64-unknown-linux-gnu".to_owned(),
            profdata: "llvm-profdata".into(),
        }
    }

    #[test]
    fn both_builds_differ_in_one_flag_and_spare_what_runs_during_the_build() {
        let workshop = workshop();
        for (flags, expected) in [
            (COUNTING.to_owned(), "-Cprofile-generate"),
            (workshop.trained(), "-Cprofile-use=/a b/target/training/merged.profdata"),
        ] {
            let command = workshop.cargo("build", &flags);
            let words = ["build", "--profile", "optimized", "--target", "x86_64-unknown-linux-gnu"];
            assert!(command.get_args().eq(words));
            let set = |name: &str| command.get_envs().find(|(key, _)| *key == name)?.1;
            let given = set("CARGO_ENCODED_RUSTFLAGS").and_then(OsStr::to_str);
            assert_eq!(given.and_then(|flags| flags.rsplit('\u{1f}').next()), Some(expected));
            assert_eq!(set("CARGO_TARGET_DIR"), Some(OsStr::new("/a b/target")));
        }
    }

    #[test]
    fn own_flags_stay_and_a_space_in_a_path_is_no_end() {
        assert_eq!(encoded(None, "-Ca=/b c"), "-Ca=/b c");
        assert_eq!(encoded(Some(" -Cx  -Cy".into()), "-Ca=b"), "-Cx\u{1f}-Cy\u{1f}-Ca=b");
    }

    #[test]
    fn the_host_is_the_compilers() {
        assert_eq!(host("rustc 1.88.0\nhost: a-b-c\nrelease: 1.88.0\n"), Some("a-b-c"));
        assert_eq!(host("rustc 1.88.0\n"), None);
    }

    #[test]
    fn the_profile_is_in_the_workspace() {
        let manifest = fs::read_to_string(crate::tree::root().join("Cargo.toml"));
        let manifest: toml::Table = manifest.expect("a manifest").parse().expect("TOML");
        assert!(manifest["profile"].get(PROFILE).is_some());
    }

    #[test]
    fn an_unknown_argument_is_refused() {
        let refused = run(Path::new("."), &["--fast".to_owned()]);
        assert_eq!(refused, Err("release takes --bench or nothing".to_owned()));
    }
}
