//! The rule that no files of a crate use each other in a circle.
//!
//! A file uses another when a `use` declaration or a path in its code names an item that the other
//! file defines. Re-exports are followed to the definition ([`resolve`]), so that `use crate::Thing`
//! means the file of `Thing`, not `lib.rs`. A parent file and its child are two files like any
//! others. These are no uses: `mod child;`, a re-export whose name the file itself does not need,
//! the name of a module alone, and all that is compiled for tests only.
//!
//! The check does not see a method that is called or a field that is read, because neither names a
//! file; paths within strings; a macro that `macro_use` brings; a module that a macro declares.

mod modules;
mod resolve;
mod tokens;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::problem::Problem;
use crate::tree::Tree;
use modules::{Import, Modules, Path};
use resolve::{Crate, Target};

/// Crates whose files still use each other, with the number of files that lie on circles. A number
/// only falls; a crate without a circle leaves the list.
const WITH_CIRCLES: &[(&str, usize)] = &[];

/// The file of [`WITH_CIRCLES`].
const LIST: &str = "xtask/src/tidy/circles.rs";

/// Files that a file uses, each with the first line that does and the name on it.
type Uses<'a> = BTreeMap<&'a str, BTreeMap<&'a str, (usize, &'a str)>>;

/// No two files of a crate use each other, directly or by way of others.
pub fn no_circle(tree: &Tree) -> Vec<Problem> {
    check(tree, WITH_CIRCLES)
}

fn check(tree: &Tree, with_circles: &[(&str, usize)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in packages(tree) {
        let name = name_of(&package);
        let circles = circles(tree, &package);
        let tied: usize = circles.iter().map(|circle| circle.tied).sum();
        match with_circles.iter().find(|(listed, _)| *listed == name) {
            None => problems.extend(circles.into_iter().map(|circle| circle.problem)),
            Some((_, expected)) if *expected == tied && tied > 0 => {}
            Some((_, expected)) => {
                let text = format!("{tied} files of `{name}` lie on circles, not {expected}");
                problems.push(Problem::file(LIST, text));
                if tied > *expected {
                    problems.extend(circles.into_iter().map(|circle| circle.problem));
                }
            }
        }
    }
    problems
}

/// Folders of the crates and of this program.
fn packages(tree: &Tree) -> Vec<String> {
    let crates = tree.crates().into_iter().map(|name| format!("crates/{name}"));
    crates.chain(["xtask".to_owned()]).collect()
}

fn name_of(package: &str) -> &str {
    package.trim_start_matches("crates/")
}

/// Files that all reach each other.
struct Circle {
    /// Number of these files.
    tied: usize,
    /// A shortest circle among them.
    problem: Problem,
}

/// Each set of files of this package that all reach each other.
fn circles(tree: &Tree, package: &str) -> Vec<Circle> {
    let this = read(tree, package);
    let uses = uses(&this);
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|file| (*file, paths_from(&uses, file).into_keys().collect())).collect();
    let mut circles = Vec::new();
    let mut done = BTreeSet::new();
    for (file, reaches) in &reached {
        if !reaches.contains(file) || done.contains(file) {
            continue;
        }
        let reaches_back =
            |other: &&str| reached.get(other).is_some_and(|back| back.contains(file));
        let tied: BTreeSet<&str> = reaches.iter().copied().filter(reaches_back).collect();
        circles.push(Circle { tied: tied.len(), problem: problem(&uses, &tied) });
        done.extend(tied);
    }
    circles
}

/// The modules of the library and the programs of a package.
fn read<'a>(tree: &'a Tree, package: &str) -> Crate<'a> {
    let mut modules = Modules::default();
    let root = modules.read(tree, &format!("{package}/src/lib.rs"));
    modules.read(tree, &format!("{package}/src/main.rs"));
    let name = format!("sockscope_{}", name_of(package));
    Crate { modules, library: root.map(|root| (root, name)) }
}

fn uses<'a>(this: &Crate<'a>) -> Uses<'a> {
    let mut uses = Uses::new();
    for (module, index) in this.modules.all.iter().zip(0..) {
        let mut add = |target, name: &'a str, line| {
            let Some(Target::Item(definer)) = target else { return };
            let definer = this.modules.all[definer].file;
            if definer != module.file {
                let first = uses.entry(module.file).or_default().entry(definer);
                let first = first.or_insert((line, name));
                *first = (line, name).min(*first);
            }
        };
        for Path { names, line } in &module.paths {
            add(this.resolve(index, names), names[names.len() - 1], *line);
        }
        for Import { name, path, is_public } in &module.imports {
            let is_needed = !is_public || module.words.contains_key(name);
            if is_needed {
                add(this.resolve(index, &path.names), name, path.line);
            }
            // A word means an item of that module only because all its names are brought.
            for (word, line) in module.words.iter().filter(|_| *name == "*") {
                if !module.items.contains(word) {
                    add(this.brought(index, &path.names, word), word, *line);
                }
            }
        }
    }
    uses
}

/// The files that `from` reaches, each with the file before it on a shortest way there.
fn paths_from<'a>(uses: &Uses<'a>, from: &'a str) -> BTreeMap<&'a str, &'a str> {
    let mut before = BTreeMap::new();
    let mut waiting = VecDeque::from([from]);
    while let Some(file) = waiting.pop_front() {
        for next in uses.get(file).into_iter().flat_map(BTreeMap::keys) {
            before.entry(*next).or_insert_with(|| {
                waiting.push_back(next);
                file
            });
        }
    }
    before
}

/// Names a shortest circle among the files that are tied to each other, and those not on it.
fn problem(uses: &Uses<'_>, tied: &BTreeSet<&str>) -> Problem {
    let all = tied.iter().map(|file| circle_through(uses, file));
    let circle = all.min_by_key(Vec::len).unwrap_or_default();
    let steps = circle.iter().zip(circle.iter().cycle().skip(1));
    let steps: Vec<String> = steps
        .map(|(file, next)| {
            let (line, name) = uses[file][next];
            format!("{file}:{line} uses `{name}` of {next}")
        })
        .collect();
    let others: Vec<&str> = tied.iter().copied().filter(|file| !circle.contains(file)).collect();
    let mut text = format!("files use each other in a circle: {}", steps.join(", "));
    if !others.is_empty() {
        text.push_str(&format!("; on circles with them: {}", others.join(", ")));
    }
    let line = uses[circle[0]][circle[1 % circle.len()]].0;
    Problem::at(circle[0], line, text)
}

/// A shortest circle that begins with `file`, which lies on one.
fn circle_through<'a>(uses: &Uses<'a>, file: &'a str) -> Vec<&'a str> {
    let before = paths_from(uses, file);
    let mut circle = vec![file];
    let mut at = before[file];
    while at != file {
        circle.push(at);
        at = before[at];
    }
    circle[1..].reverse();
    circle
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        found_beside(files, &[])
    }

    fn found_beside(files: &[(&str, &str)], with_circles: &[(&str, usize)]) -> Vec<String> {
        let mut all = vec![("crates/lab/Cargo.toml", "")];
        all.extend(files);
        check(&Tree::of(&all), with_circles).iter().map(Problem::to_string).collect()
    }

    const LIB: (&str, &str) = ("crates/lab/src/lib.rs", "mod a;\nmod b;\npub use a::A;\n");
    const B: (&str, &str) = ("crates/lab/src/b.rs", "pub struct B;\nfn c(_: crate::A) {}\n");
    const CIRCLE: [(&str, &str); 3] =
        [LIB, ("crates/lab/src/a.rs", "use super::b::B;\n\npub struct A(B);\n"), B];

    #[test]
    fn a_circle_is_refused_with_its_files_and_the_lines_that_close_it() {
        assert_eq!(
            found(&CIRCLE),
            [
                "crates/lab/src/a.rs:1: files use each other in a circle: crates/lab/src/a.rs:1 uses \
              `B` of crates/lab/src/b.rs, crates/lab/src/b.rs:2 uses `A` of crates/lab/src/a.rs"
            ]
        );
    }

    #[test]
    fn a_way_through_three_files_is_a_circle_too() {
        let files = [
            ("crates/lab/src/a.rs", "use crate::b::B;\npub struct A(B);"),
            ("crates/lab/src/b.rs", "use crate::c::C;\npub struct B(C);"),
            ("crates/lab/src/c.rs", "pub struct C;\nfn d(_: crate::a::A) {}\nuse crate::d::D;"),
            ("crates/lab/src/d.rs", "pub struct D(crate::b::B);"),
            ("crates/lab/src/lib.rs", "mod a;\nmod b;\nmod c;\nmod d;"),
        ];
        assert_eq!(
            found(&files),
            [
                "crates/lab/src/a.rs:1: files use each other in a circle: crates/lab/src/a.rs:1 uses \
              `B` of crates/lab/src/b.rs, crates/lab/src/b.rs:1 uses `C` of crates/lab/src/c.rs, \
              crates/lab/src/c.rs:2 uses `A` of crates/lab/src/a.rs; on circles with them: \
              crates/lab/src/d.rs"
            ]
        );
    }

    #[test]
    fn a_face_of_reexports_closes_no_circle() {
        let files = [
            ("crates/lab/src/a.rs", "use crate::B;\npub struct A(B);"),
            ("crates/lab/src/b.rs", "pub struct B;"),
            ("crates/lab/src/lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::B;"),
        ];
        assert!(found(&files).is_empty());
    }

    #[test]
    fn a_parent_that_needs_its_child_and_is_needed_by_it_is_a_circle() {
        let child = ("crates/lab/src/a.rs", "use super::Whole;\npub struct A(Whole);");
        let face = "mod a;\npub use a::A;\npub struct Whole;\n";
        assert!(found(&[child, ("crates/lab/src/lib.rs", face)]).is_empty());
        let parent = format!("{face}fn b() -> A {{}}");
        assert_eq!(found(&[child, ("crates/lab/src/lib.rs", &parent)]).len(), 1);
        let parent = format!("{face}fn b() {{ a::c() }}");
        assert_eq!(found(&[child, ("crates/lab/src/lib.rs", &parent)]).len(), 1);
    }

    #[test]
    fn names_brought_by_a_star_are_uses_where_they_stand() {
        let files = |words: &'static str| {
            [LIB, B, ("crates/lab/src/a.rs", words)].map(|(path, text)| (path, text))
        };
        assert!(found(&files("use crate::b::*;\npub struct A;")).is_empty());
        assert_eq!(found(&files("use crate::b::*;\npub struct A(B);")).len(), 1);
    }

    #[test]
    fn tests_may_use_whom_they_like() {
        let text = "pub struct A;\n#[cfg(test)]\nmod tests { use super::super::b::B; }";
        assert!(found(&[LIB, B, ("crates/lab/src/a.rs", text)]).is_empty());
    }

    #[test]
    fn a_crate_on_the_list_keeps_its_number_and_leaves_with_its_last_circle() {
        assert!(found_beside(&CIRCLE, &[("lab", 2)]).is_empty());
        let wrong = format!("{LIST}: 2 files of `lab` lie on circles, not 3");
        assert_eq!(found_beside(&CIRCLE, &[("lab", 3)]), [wrong]);
        assert_eq!(found_beside(&CIRCLE, &[("lab", 1)]).len(), 2);
        let none = format!("{LIST}: 0 files of `lab` lie on circles, not 2");
        assert_eq!(found_beside(&[LIB, B], &[("lab", 2)]), [none]);
    }

    #[test]
    fn every_crate_on_the_list_is_there_and_has_a_circle() {
        let tree = Tree::read(&crate::tree::root()).expect("git lists the checkout");
        for (name, tied) in WITH_CIRCLES {
            let found = circles(&tree, &format!("crates/{name}"));
            assert_eq!(found.iter().map(|circle| circle.tied).sum::<usize>(), *tied, "{name}");
            assert!(*tied > 1, "{name}");
        }
    }
}
