//! Licences of our dependencies: each package must offer a choice that we may take.
//!
//! Expressions are SPDX (annex D of SPDX 2.3): `OR` is a choice, `AND` binds tighter, `WITH` adds
//! an exception. The old `MIT/Apache-2.0` is read as `OR`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Licences that let us hand on a program built with the package.
///
/// The LGPL is not here: libbpf-rs and libbpf-sys offer BSD-2-Clause as well.
const ALLOWED: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "NCSA",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Exceptions that only add rights.
const ALLOWED_EXCEPTIONS: [&str; 1] = ["LLVM-exception"];

/// One line for each package of the workspace's build on this machine that offers no such choice.
///
/// Fails when cargo cannot say which packages there are.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let host = host_triple()?;
    let metadata = run(Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--filter-platform", &host])
        .current_dir(root))?;
    let metadata: Value =
        serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata.get("packages").and_then(Value::as_array);
    let packages = packages.ok_or("cargo metadata: no packages")?;
    Ok(packages.iter().filter_map(refusal).collect())
}

/// The reason why this package of `cargo metadata` may not be used; our own, which have no registry, may.
fn refusal(package: &Value) -> Option<String> {
    package.get("source").filter(|source| !source.is_null())?;
    let text = |key: &str| package.get(key).and_then(Value::as_str);
    let place = || format!("{} {}", text("name").unwrap_or("?"), text("version").unwrap_or("?"));
    match text("license") {
        Some(expression) if is_allowed(expression) => None,
        Some(expression) => Some(format!("{}: `{expression}` is not allowed", place())),
        None => Some(format!("{}: names no licence", place())),
    }
}

/// Whether a choice in this SPDX expression is allowed.
///
/// An expression that does not parse is not.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let allowed = either(&mut rest);
    allowed == Some(true) && rest.is_empty()
}

/// `a OR b`; `None` when it does not parse.
fn either(words: &mut &[&str]) -> Option<bool> {
    let mut allowed = both(words)?;
    while take(words, "OR") {
        allowed |= both(words)?;
    }
    Some(allowed)
}

/// `a AND b`.
fn both(words: &mut &[&str]) -> Option<bool> {
    let mut allowed = single(words)?;
    while take(words, "AND") {
        allowed &= single(words)?;
    }
    Some(allowed)
}

/// A licence, perhaps with an exception, or an expression in parentheses.
fn single(words: &mut &[&str]) -> Option<bool> {
    if take(words, "(") {
        let allowed = either(words)?;
        return take(words, ")").then_some(allowed);
    }
    let mut allowed = ALLOWED.contains(&next(words)?);
    if take(words, "WITH") {
        allowed &= ALLOWED_EXCEPTIONS.contains(&next(words)?);
    }
    Some(allowed)
}

fn take(words: &mut &[&str], expected: &str) -> bool {
    let found = words.first() == Some(&expected);
    if found {
        *words = &words[1..];
    }
    found
}

fn next<'a>(words: &mut &[&'a str]) -> Option<&'a str> {
    let (first, rest) = words.split_first()?;
    *words = rest;
    Some(first)
}

/// The triple that rustc builds for, as `x86_64-unknown-linux-gnu`.
pub fn host_triple() -> Result<String, String> {
    let version = run(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".to_owned())
}

fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot start {name}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_allowed_choice_is_enough() {
        for expression in [
            "MIT",
            "NCSA",
            "MIT/Apache-2.0",
            "LGPL-2.1-only OR BSD-2-Clause",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
            "GPL-2.0 AND MIT OR ISC",
        ] {
            assert!(is_allowed(expression), "{expression}");
        }
    }

    #[test]
    fn no_allowed_choice_or_no_sense_is_refused() {
        for expression in [
            "GPL-3.0",
            "LGPL-2.1-only",
            "MIT AND GPL-2.0",
            "(MIT OR Apache-2.0) AND Other",
            "MIT WITH Other-exception",
            "MIT OR",
            "(MIT",
            "MIT)",
            "MIT MIT",
            "",
        ] {
            assert!(!is_allowed(expression), "{expression}");
        }
    }

    #[test]
    fn a_package_without_a_licence_is_named() {
        let of = |license: Value, source: Value| {
            refusal(&json!({"name": "a", "version": "1.0.0", "license": license, "source": source}))
        };
        let registry = || json!("registry");
        assert_eq!(of(Value::Null, registry()).as_deref(), Some("a 1.0.0: names no licence"));
        let refused = Some("a 1.0.0: `AGPL-3.0` is not allowed");
        assert_eq!(of(json!("AGPL-3.0"), registry()).as_deref(), refused);
        assert_eq!(of(json!("MIT"), registry()), None);
        assert_eq!(of(json!("GPL-2.0-only"), Value::Null), None);
    }
}
