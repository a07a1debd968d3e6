//! Rules on manifests: levels, lints and the workspace's dependency table.

use toml::{Table, Value};

use super::problem::Problem;
use crate::levels;
use crate::tree::{File, Tree};

/// Tables of a manifest that name dependencies.
const DEPENDENCY_TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

const NOT_INHERITED: &str = "expected `[lints] workspace = true`; a crate that may hold `unsafe` \
                             allows it in its lib.rs";

/// A crate is in the level table, is named after its folder and uses only lower levels.
pub fn levels(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for folder in tree.crates() {
        let path = format!("crates/{folder}/Cargo.toml");
        let Some(level) = levels::level(folder) else {
            problems.push(Problem::file(&path, "the level table does not list this crate"));
            continue;
        };
        match manifest(tree, &path) {
            Ok(manifest) => problems.extend(edges(&path, folder, level, &manifest)),
            Err(problem) => problems.push(problem),
        }
    }
    problems
}

fn edges(path: &str, folder: &str, level: u8, manifest: &Table) -> Vec<Problem> {
    let mut problems = Vec::new();
    let name = manifest.get("package").and_then(|package| package.get("name"));
    if name.and_then(Value::as_str) != Some(&format!("sockscope-{folder}")) {
        problems.push(Problem::file(path, format!("the package must be `sockscope-{folder}`")));
    }
    for (dependency, _) in dependencies(manifest) {
        let Some(used) = levels::folder_of(dependency) else { continue };
        match levels::level(used) {
            Some(used_level) if used_level < level => {}
            Some(used_level) => problems.push(Problem::file(
                path,
                format!(
                    "level {level} uses `{used}` of level {used_level}; only lower ones may be"
                ),
            )),
            None => {
                problems.push(Problem::file(path, format!("`{used}` is not in the level table")));
            }
        }
    }
    problems
}

/// Every member takes the workspace's lints, and those deny missing docs and unsafe code.
pub fn lints(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in members(tree) {
        let inherits = manifest(tree, &file.path).is_ok_and(|manifest| {
            let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
            lints.and_then(Value::as_bool) == Some(true)
        });
        if !inherits {
            problems.push(Problem::file(&file.path, NOT_INHERITED));
        }
    }
    for lint in ["missing_docs", "unsafe_code"] {
        let level = workspace(tree, "lints")
            .and_then(|lints| lints.get("rust")?.get(lint)?.as_str().map(str::to_owned));
        if !matches!(level.as_deref(), Some("deny" | "forbid")) {
            problems.push(Problem::file("Cargo.toml", format!("the lint `{lint}` must be denied")));
        }
    }
    problems
}

/// Each line of `[workspace.dependencies]` is used by a member.
pub fn unused_workspace_dependencies(tree: &Tree) -> Vec<Problem> {
    let Some(Value::Table(declared)) = workspace(tree, "dependencies") else { return Vec::new() };
    let manifests: Vec<Table> =
        members(tree).filter_map(|file| manifest(tree, &file.path).ok()).collect();
    let used = |name: &str| {
        manifests.iter().any(|manifest| {
            let mut all = dependencies(manifest);
            all.any(|(dependency, value)| dependency == name && inherited(value))
        })
    };
    let unused = declared.keys().filter(|name| !used(name));
    unused
        .map(|name| Problem::file("Cargo.toml", format!("no member uses `{name}`: remove it")))
        .collect()
}

fn inherited(dependency: &Value) -> bool {
    dependency.get("workspace").and_then(Value::as_bool) == Some(true)
}

fn members(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.ending("/Cargo.toml").filter(|file| {
        let folder = file.path.trim_end_matches("/Cargo.toml");
        ["fuzz", "xtask"].contains(&folder)
            || folder.strip_prefix("crates/").is_some_and(|name| !name.contains('/'))
    })
}

fn manifest(tree: &Tree, path: &str) -> Result<Table, Problem> {
    let text = tree.file(path).map_or("", |file| file.text.as_str());
    text.parse().map_err(|error: toml::de::Error| Problem::file(path, error.message()))
}

fn workspace(tree: &Tree, key: &str) -> Option<Value> {
    manifest(tree, "Cargo.toml").ok()?.get("workspace")?.get(key).cloned()
}

/// Name and value of each dependency, those under `[target.*]` too.
fn dependencies(manifest: &Table) -> impl Iterator<Item = (&str, &Value)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets.into_iter().flat_map(|table| table.values().filter_map(Value::as_table));
    std::iter::once(manifest)
        .chain(targets)
        .flat_map(|table| DEPENDENCY_TABLES.iter().filter_map(|name| table.get(*name)?.as_table()))
        .flat_map(|table| table.iter().map(|(name, value)| (name.as_str(), value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_using(folder: &str, tables: &str) -> Vec<String> {
        let manifest = format!("[package]\nname = \"sockscope-{folder}\"\n{tables}");
        let path = format!("crates/{folder}/Cargo.toml");
        texts(levels(&Tree::of(&[(&path, &manifest)])))
    }

    fn texts(problems: Vec<Problem>) -> Vec<String> {
        problems.into_iter().map(|problem| problem.text).collect()
    }

    #[test]
    fn a_crate_may_use_lower_levels_and_strangers() {
        let tables = "[dependencies]\nsockscope-record.workspace = true\nlibc.workspace = true";
        assert!(crate_using("trace", tables).is_empty());
    }

    #[test]
    fn a_crate_may_use_neither_its_own_level_nor_a_higher_one_in_any_table() {
        for table in ["dependencies", "dev-dependencies", "target.'cfg(unix)'.build-dependencies"] {
            let upward = format!("[{table}]\nsockscope-report.workspace = true");
            assert_eq!(
                crate_using("trace", &upward),
                ["level 1 uses `report` of level 2; only lower ones may be"]
            );
        }
        let sideways = "[dependencies]\nsockscope-analysis.workspace = true";
        assert_eq!(crate_using("trace", sideways).len(), 1);
    }

    #[test]
    fn a_crate_or_a_dependency_that_the_table_does_not_list_is_refused() {
        assert_eq!(crate_using("extra", ""), ["the level table does not list this crate"]);
        let tables = "[dependencies]\nsockscope-extra.workspace = true";
        assert_eq!(crate_using("cli", tables), ["`extra` is not in the level table"]);
    }

    #[test]
    fn a_package_is_named_after_its_folder() {
        let tree = Tree::of(&[("crates/trace/Cargo.toml", "[package]\nname = \"trace\"")]);
        assert_eq!(texts(levels(&tree)), ["the package must be `sockscope-trace`"]);
    }

    const DENIED: &str = "[workspace.lints.rust]\nmissing_docs = \"deny\"\nunsafe_code = \"deny\"";

    #[test]
    fn members_inherit_lints() {
        let good = Tree::of(&[
            ("Cargo.toml", DENIED),
            ("crates/record/Cargo.toml", "[lints]\nworkspace = true"),
        ]);
        assert!(lints(&good).is_empty());
        let bad = Tree::of(&[("Cargo.toml", DENIED), ("xtask/Cargo.toml", "[package]")]);
        assert_eq!(texts(lints(&bad)), [NOT_INHERITED]);
    }

    #[test]
    fn the_workspace_denies_missing_docs() {
        let weak = DENIED.replace("missing_docs = \"deny\"", "missing_docs = \"warn\"");
        let tree = Tree::of(&[("Cargo.toml", &weak)]);
        assert_eq!(texts(lints(&tree)), ["the lint `missing_docs` must be denied"]);
    }

    #[test]
    fn a_workspace_dependency_without_a_user_is_refused() {
        let root = "[workspace.dependencies]\nlibc = \"0.2\"\nclap = \"4\"";
        let one = "[dependencies]\nlibc.workspace = true\n[dev-dependencies]\nclap = \"4\"";
        let tree = Tree::of(&[("Cargo.toml", root), ("crates/cli/Cargo.toml", one)]);
        assert_eq!(
            texts(unused_workspace_dependencies(&tree)),
            ["no member uses `clap`: remove it"]
        );
        let both = format!("{one}\n[build-dependencies]\nclap = {{ workspace = true }}");
        let tree = Tree::of(&[("Cargo.toml", root), ("crates/cli/Cargo.toml", &both)]);
        assert!(unused_workspace_dependencies(&tree).is_empty());
    }
}
