//! The files of the checkout, read once and held in memory.
//!
//! Paths are relative to the checkout's root, with `/` between parts, in byte order. Rules take a
//! [`Tree`] and nothing else, so that a test can hand them a tree that was never on a disk.

use std::path::{Path, PathBuf};
use std::process::Command;

/// One file of the checkout.
pub struct File {
    /// Relative to the root, as `crates/record/src/lib.rs`.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its content; empty when it is not UTF-8.
    pub text: String,
}

/// All files that git tracks or would track.
pub struct Tree {
    /// In byte order of their paths.
    pub files: Vec<File>,
}

impl Tree {
    /// Reads the checkout at `root`: tracked files and those that are new and not ignored.
    ///
    /// Fails when git cannot list the files; a listed file that has gone meanwhile is left out.
    pub fn read(root: &Path) -> Result<Self, String> {
        let mut files: Vec<File> = listed(root)?
            .into_iter()
            .filter_map(|path| {
                let content = std::fs::read(root.join(&path)).ok()?;
                let bytes = content.len() as u64;
                Some(File { path, bytes, text: String::from_utf8(content).unwrap_or_default() })
            })
            .collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    /// The file at `path`, if there is one.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Files whose path ends with `suffix`.
    pub fn ending<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| file.path.ends_with(suffix))
    }

    /// Folders below `crates/` that have a manifest, as `record`.
    pub fn crates(&self) -> Vec<&str> {
        let manifests = self.ending("/Cargo.toml");
        manifests
            .filter_map(|file| file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
            .filter(|folder| !folder.contains('/'))
            .collect()
    }
}

/// Root of the checkout that this program was built from.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map_or_else(|| manifest.to_path_buf(), Path::to_path_buf)
}

fn listed(root: &Path) -> Result<Vec<String>, String> {
    // The checkout may belong to a user other than the one of this process, as under sudo.
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others"])
        .arg("--exclude-standard")
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot start git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let names = String::from_utf8_lossy(&output.stdout);
    Ok(names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
impl Tree {
    /// A tree of these paths and contents.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| File {
            path: (*path).to_owned(),
            bytes: text.len() as u64,
            text: (*text).to_owned(),
        });
        Self { files: files.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_direct_folders_below_crates_are_crates() {
        let tree = Tree::of(&[
            ("crates/record/Cargo.toml", ""),
            ("crates/record/fuzz/Cargo.toml", ""),
            ("xtask/Cargo.toml", ""),
        ]);
        assert_eq!(tree.crates(), ["record"]);
    }

    #[test]
    fn this_checkout_is_found_and_listed() {
        let tree = Tree::read(&root()).expect("git lists the checkout");
        assert!(tree.file("xtask/src/tree.rs").is_some_and(|file| file.text.contains("fn listed")));
    }
}
