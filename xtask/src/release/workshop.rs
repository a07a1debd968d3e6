//! The two builds of a release: with counters, and with what they counted.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::command::{at, files, last_line, not_started, output, succeed, words};

/// The cargo profile of both builds, in the workspace's `Cargo.toml`.
const PROFILE: &str = "optimized";
/// Counts what runs. Where the counts go is said when the program starts.
const COUNTING: &str = "-Cprofile-generate";
/// What cargo reads between flags in `CARGO_ENCODED_RUSTFLAGS`.
const BETWEEN_FLAGS: &str = "\u{1f}";
/// The programs of a release, each with the package that builds it. The first one starts the second,
/// which it finds in its own folder.
pub const PROGRAMS: [(&str, &str); 2] =
    [("sockscope", "sockscope-cli"), ("sockscope-lab", "sockscope-lab-cli")];
/// Where the trained programs stand, below cargo's target folder: no place of cargo's own, where its
/// next build would put another program.
const PLACE: &str = "release-trained";
/// What no training reaches and the compiler would take for code that hardly ever runs, and make
/// small: without a profile it is compiled as always. Crates and modules as functions' names hold
/// them: a module behind the length of its name.
const UNTRAINED: &[&str] = &[
    "sockscope_probe",
    "sockscope_channel",
    "sockscope_remote",
    "sockscope_vmtp6driver",
    "sockscope_live9protocols",
    "libbpf",
    "quinn",
    "tokio",
];

/// Paths and the compiler's words that all steps share.
pub struct Workshop {
    /// Root of the checkout.
    pub root: PathBuf,
    /// Cargo's target folder.
    target: PathBuf,
    /// Counts, and what training writes.
    pub training: PathBuf,
    /// The triple that is built for: this machine.
    host: String,
    /// `llvm-profdata` of the compiler's own LLVM: others cannot read its counts.
    profdata: PathBuf,
}

impl Workshop {
    pub fn find(root: &Path) -> Result<Self, String> {
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

    /// Where cargo puts a program of either build.
    fn program(&self, name: &str) -> PathBuf {
        self.target.join(&self.host).join(PROFILE).join(name)
    }

    /// Cargo with `flags` for what is built, but not for what runs during the build: hence
    /// `--target`. The environment's own flags come first ([`own_flags`]).
    pub fn cargo(&self, task: &str, flags: &str) -> Command {
        let mut command = self.plain_cargo(task, &encoded(&own_flags(), flags));
        command.args(["--profile", PROFILE, "--target", &self.host]);
        command
    }

    /// Cargo with nothing but `flags` for the compiler, as [`encoded`] returns them. Flags in cargo's
    /// configuration files do not count then, with none here either, so that all builds have the
    /// same.
    pub fn plain_cargo(&self, task: &str, flags: &str) -> Command {
        let mut command = Command::new("cargo");
        command
            .arg(task)
            .env("CARGO_ENCODED_RUSTFLAGS", flags)
            .env("CARGO_TARGET_DIR", &self.target)
            .current_dir(&self.root);
        command
    }

    /// Builds the programs that count, and moves them out of cargo's place to where they are trained;
    /// returns their folder.
    pub fn build_with_counters(&self) -> Result<PathBuf, String> {
        println!("release: building the programs with counters");
        succeed(self.cargo("build", COUNTING).arg("--quiet").args(packages()))?;
        let folder = self.training.join("counting");
        fs::create_dir_all(&folder).map_err(|error| at(&folder, &error))?;
        for (name, _) in PROGRAMS {
            let counting = folder.join(name);
            fs::rename(self.program(name), &counting).map_err(|error| at(&counting, &error))?;
        }
        Ok(folder)
    }

    /// Sums the counts up, without those of code that training does not reach; returns the profile.
    pub fn merge(&self, counts: &[PathBuf]) -> Result<PathBuf, String> {
        let merged = self.training.join("merged");
        let mut command = Command::new(&self.profdata);
        command.arg("merge").arg(format!("--no-function={}", UNTRAINED.join("|")));
        // Its one remark, how many functions that leaves out, helps nobody.
        let output = command.arg("-o").arg(&merged).args(counts).output();
        let output = output.map_err(|error| not_started(self.profdata.as_os_str(), &error))?;
        if !output.status.success() {
            return Err(format!("`{}` failed: {}", words(&command), last_line(&output.stderr)));
        }
        named_by_content(&merged)
    }

    /// Builds with the profile, and returns where the programs are.
    pub fn build(&self, profile: &Path) -> Result<[PathBuf; PROGRAMS.len()], String> {
        println!("release: building them again with the counts");
        succeed(self.cargo("build", &trained(profile)).arg("--quiet").args(packages()))?;
        let folder = self.target.join(PLACE);
        fs::create_dir_all(&folder).map_err(|error| at(&folder, &error))?;
        for (name, _) in PROGRAMS {
            let program = folder.join(name);
            // A program that runs keeps its file: it is replaced, not written to.
            let fresh = folder.join(format!("{name}.new"));
            fs::copy(self.program(name), &fresh).map_err(|error| at(&fresh, &error))?;
            fs::rename(&fresh, &program).map_err(|error| at(&program, &error))?;
        }
        Ok(PROGRAMS.map(|(name, _)| folder.join(name)))
    }
}

/// Cargo's words for the packages of both programs.
pub fn packages() -> impl Iterator<Item = &'static str> {
    PROGRAMS.into_iter().flat_map(|(_, package)| ["--package", package])
}

/// The flag of builds with `profile`.
pub fn trained(profile: &Path) -> String {
    format!("-Cprofile-use={}", profile.display())
}

/// Renames a profile after what is in it, removes those of earlier trainings and returns its path.
///
/// Cargo builds a registry's crate again when its flags change, but not when a file that they name
/// does: another profile needs another name.
fn named_by_content(merged: &Path) -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    fs::read(merged).map_err(|error| at(merged, &error))?.hash(&mut hasher);
    let folder = merged.parent().unwrap_or(Path::new(""));
    for earlier in files(folder, "profdata")? {
        fs::remove_file(&earlier).map_err(|error| at(&earlier, &error))?;
    }
    let profile = folder.join(format!("{:016x}.profdata", hasher.finish()));
    fs::rename(merged, &profile).map_err(|error| at(&profile, &error))?;
    Ok(profile)
}

/// The triple in what `rustc -vV` prints.
fn host(version: &str) -> Option<&str> {
    version.lines().find_map(|line| line.strip_prefix("host: "))
}

/// The compiler's flags that the environment asks for, from the variable that cargo itself prefers.
pub fn own_flags() -> String {
    let variable = |name| std::env::var(name).ok();
    own(variable("CARGO_ENCODED_RUSTFLAGS"), variable("RUSTFLAGS"))
}

/// Flags as cargo reads them where they may hold spaces: those of `encoded` where it is set, else
/// the words of `plain`.
fn own(encoded: Option<String>, plain: Option<String>) -> String {
    let words = |plain: String| plain.split_whitespace().collect::<Vec<_>>().join(BETWEEN_FLAGS);
    encoded.unwrap_or_else(|| words(plain.unwrap_or_default()))
}

/// `flag` as one, behind those of `own`.
fn encoded(own: &str, flag: &str) -> String {
    if own.is_empty() { flag.to_owned() } else { [own, flag].join(BETWEEN_FLAGS) }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

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
            (trained(Path::new("/a b/1.profdata")), "-Cprofile-use=/a b/1.profdata"),
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
        assert_eq!(encoded("", "-Ca=/b c"), "-Ca=/b c");
        let words = own(None, Some(" -Cx  -Cy".into()));
        assert_eq!(encoded(&words, "-Ca=b"), "-Cx\u{1f}-Cy\u{1f}-Ca=b");
    }

    #[test]
    fn encoded_flags_go_before_plain_ones_as_they_do_for_cargo() {
        let plain = || Some("-Cy".to_owned());
        assert_eq!(own(Some("-L\u{1f}/a b".into()), plain()), "-L\u{1f}/a b");
        assert_eq!(own(Some(String::new()), plain()), "");
        assert_eq!(own(None, None), "");
    }

    #[test]
    fn what_is_not_trained_is_still_in_the_tree() {
        let root = crate::tree::root();
        let lock = fs::read_to_string(root.join("Cargo.lock")).expect("a lock file");
        for name in UNTRAINED {
            let Some(own) = name.strip_prefix("sockscope_") else {
                assert!(lock.contains(&format!("name = \"{name}")), "no crate {name}");
                continue;
            };
            let (own, module) = own.split_at(own.find(char::is_numeric).unwrap_or(own.len()));
            let name = module.trim_start_matches(char::is_numeric);
            assert_eq!(module, if name.is_empty() { String::new() } else { mangled(name) });
            let source = root.join("crates").join(own).join("src").join(name);
            assert!(source.exists(), "no {}", source.display());
        }
    }

    fn mangled(name: &str) -> String {
        format!("{}{name}", name.len())
    }

    #[test]
    fn another_profile_has_another_name_and_replaces_the_earlier_one() {
        let folder = std::env::temp_dir().join(format!("xtask-profile-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let named = |content: &str| {
            let merged = folder.join("merged");
            fs::write(&merged, content).expect("a profile");
            named_by_content(&merged).expect("a name")
        };
        let (first, again, other) = (named("1"), named("1"), named("2"));
        let left = files(&folder, "profdata");
        fs::remove_dir_all(&folder).expect("the folder");
        assert_eq!(first, again);
        assert_ne!(first, other);
        assert_eq!(left, Ok(vec![other]));
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
}
