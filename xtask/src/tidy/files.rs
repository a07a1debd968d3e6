//! Rules on files of any kind: size, licences and paths in their text.

use super::problem::Problem;
use crate::tree::Tree;

/// Largest file in the repository.
const BYTES_MAX: u64 = 1 << 20;

/// Licence files, each with a line of the text that it must hold.
const LICENCES: [(&str, &str); 3] = [
    ("LICENSE-MIT", "Permission is hereby granted, free of charge"),
    ("LICENSE-APACHE", "Apache License"),
    ("LICENSE-GPL-2.0", "GNU GENERAL PUBLIC LICENSE"),
];

/// Starts of paths that exist on one machine only. In parts, so that this file may hold them.
const MACHINE_PATHS: [&str; 6] = [
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/tmp/", "target"),
    concat!("/fa", "rm/"),
];

/// The texts of the licences are there.
pub fn licence_files(tree: &Tree) -> Vec<Problem> {
    let missing = LICENCES
        .iter()
        .filter(|(path, line)| !tree.file(path).is_some_and(|file| file.text.contains(line)));
    missing
        .map(|(path, line)| Problem::file(path, format!("expected its text: `{line}`")))
        .collect()
}

/// A folder with a script of others, as `assets/uplot-1.6.32`, has the licence next to it: who hands the script on
/// must hand on its licence too.
pub fn vendored_licence(tree: &Tree) -> Vec<Problem> {
    let scripts = tree.ending(".min.js");
    scripts
        .filter(|file| {
            let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            tree.file(&format!("{folder}/LICENSE")).is_none_or(|file| file.text.is_empty())
        })
        .map(|file| Problem::file(&file.path, "expected its licence in a file LICENSE next to it"))
        .collect()
}

/// The kernel half of the probes declares the GPL in its first line: the kernel lets
/// only such programs call the functions that they need.
pub fn bpf_licence(tree: &Tree) -> Vec<Problem> {
    let sources = tree.ending(".c").chain(tree.ending(".h"));
    let bpf = sources.filter(|file| file.path.starts_with("crates/probe/"));
    bpf.filter(|file| {
        let first = file.text.lines().next().unwrap_or("");
        !first.contains("SPDX-License-Identifier: GPL-2.0")
    })
    .map(|file| Problem::at(&file.path, 1, "expected `SPDX-License-Identifier: GPL-2.0`"))
    .collect()
}

/// No file is larger than [`BYTES_MAX`].
pub fn size(tree: &Tree) -> Vec<Problem> {
    let large = tree.files.iter().filter(|file| file.bytes > BYTES_MAX);
    large
        .map(|file| {
            let text = format!("{} bytes, {BYTES_MAX} at most: make it in a test", file.bytes);
            Problem::file(&file.path, text)
        })
        .collect()
}

/// No file speaks of a path that exists on one machine only.
pub fn machine_paths(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in &tree.files {
        for (line, number) in file.text.lines().zip(1..) {
            if let Some(path) = MACHINE_PATHS.iter().find(|path| speaks_of(line, path)) {
                let text = format!("`{path}` exists on one machine only");
                problems.push(Problem::at(&file.path, number, text));
            }
        }
    }
    problems
}

/// Whether `line` has `path` as the start of an absolute path.
fn speaks_of(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|char| char.is_alphanumeric() || "._-}".contains(char))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_must_hold_their_text() {
        let texts = LICENCES.map(|(path, line)| (path, line));
        assert!(licence_files(&Tree::of(&texts)).is_empty());
        assert_eq!(licence_files(&Tree::of(&texts[..2])).len(), 1);
        let empty = [texts[0], texts[1], ("LICENSE-GPL-2.0", "")];
        assert_eq!(licence_files(&Tree::of(&empty)).len(), 1);
    }

    #[test]
    fn a_vendored_script_has_its_licence_next_to_it() {
        let script = ("crates/a/assets/plot-1.0/plot.min.js", "var plot");
        assert_eq!(vendored_licence(&Tree::of(&[script])).len(), 1);
        let empty = ("crates/a/assets/plot-1.0/LICENSE", "");
        assert_eq!(vendored_licence(&Tree::of(&[script, empty])).len(), 1);
        let elsewhere = ("LICENSE", "MIT");
        assert_eq!(vendored_licence(&Tree::of(&[script, elsewhere])).len(), 1);
        let licence = ("crates/a/assets/plot-1.0/LICENSE", "MIT");
        assert!(vendored_licence(&Tree::of(&[script, licence])).is_empty());
    }

    #[test]
    fn kernel_code_carries_its_licence() {
        let of = |text: &str| bpf_licence(&Tree::of(&[("crates/probe/src/a.bpf.c", text)])).len();
        assert_eq!(of("// SPDX-License-Identifier: GPL-2.0\nint a;"), 0);
        assert_eq!(of("int a;\n// SPDX-License-Identifier: GPL-2.0"), 1);
        let elsewhere = Tree::of(&[("crates/record/a.c", "int a;")]);
        assert!(bpf_licence(&elsewhere).is_empty());
    }

    #[test]
    fn a_large_file_is_refused() {
        let mut tree = Tree::of(&[("a.bin", "")]);
        tree.files[0].bytes = BYTES_MAX;
        assert!(size(&tree).is_empty());
        tree.files[0].bytes = BYTES_MAX + 1;
        assert_eq!(size(&tree).len(), 1);
    }

    #[test]
    fn a_path_of_one_machine_is_refused() {
        let of = |text: &str| machine_paths(&Tree::of(&[("a.md", text)])).len();
        for path in MACHINE_PATHS {
            assert_eq!(of(&format!("see {path}a")), 1, "{path}");
        }
        assert_eq!(of("see /usr/lib and /sys/fs/cgroup"), 0);
        assert_eq!(of(concat!("docs/frame", "wo", "rk/a.md and my/ho", "me/a")), 0);
    }
}
