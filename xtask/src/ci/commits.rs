//! The form of commit subjects: `area: imperative`, at most 50 characters.

use std::path::Path;
use std::process::Command;

/// The last commit before the rule. Commits after it are checked.
const BASE: &str = "d4dedaee72857d7d8c9e681f24aae622718bec8e";

/// Characters of a subject, at most.
const CHARACTERS_MAX: usize = 50;

/// Checks the subjects of all commits between [`BASE`] and the checkout at `root`.
///
/// Checks nothing, and prints that, where the history does not reach back to [`BASE`], as in a shallow clone.
pub fn check(root: &Path) -> Result<(), String> {
    let range = format!("{BASE}..HEAD");
    let Some(subjects) = git(root, &["log", "--format=%s", "--no-merges", &range])? else {
        println!("ci: commit subjects not checked: the history does not reach {BASE}");
        return Ok(());
    };
    let refused: Vec<String> = subjects.lines().filter_map(refusal).collect();
    if refused.is_empty() { Ok(()) } else { Err(refused.join("; ")) }
}

/// The output of git; `None` where it fails.
fn git(root: &Path, arguments: &[&str]) -> Result<Option<String>, String> {
    let output = Command::new("git")
        .args(["-c", "safe.directory=*"])
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot start git: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(output.status.success().then_some(text))
}

/// Why a subject is refused, if it is.
fn refusal(subject: &str) -> Option<String> {
    let is_area = |area: &str| {
        !area.is_empty()
            && area.chars().all(|char| char.is_ascii_lowercase() || "-, ".contains(char))
    };
    let length = subject.chars().count();
    let reason = match subject.split_once(": ") {
        _ if subject.starts_with("Revert \"") => return None,
        Some((area, text)) if is_area(area) && text.starts_with(char::is_lowercase) => {
            if length > CHARACTERS_MAX {
                format!("{length} characters, {CHARACTERS_MAX} at most")
            } else if subject.ends_with('.') {
                "no full stop at the end".to_owned()
            } else {
                return None;
            }
        }
        _ => "expected `area: imperative`".to_owned(),
    };
    Some(format!("`{subject}`: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_an_area_and_an_imperative() {
        assert_eq!(refusal("probe: key sockets by storage, not address"), None);
        assert_eq!(refusal("Revert \"probe: key sockets by storage, not by their address\""), None);
        for subject in ["Key sockets", "probe: Key sockets", "The probe: keys", ": key"] {
            let expected = format!("`{subject}`: expected `area: imperative`");
            assert_eq!(refusal(subject), Some(expected));
        }
        assert_eq!(
            refusal("probe: key it."),
            Some("`probe: key it.`: no full stop at the end".to_owned())
        );
    }

    #[test]
    fn a_subject_of_50_characters_passes_and_a_longer_one_is_refused() {
        let subject = format!("docs: {}", "x".repeat(44));
        assert_eq!(refusal(&subject), None);
        let expected = format!("`{subject}x`: 51 characters, 50 at most");
        assert_eq!(refusal(&format!("{subject}x")), Some(expected));
    }

    #[test]
    fn a_history_without_the_base_is_not_checked() {
        let root = crate::tree::root();
        assert_eq!(git(&root, &["log", "no-such-commit..HEAD"]).unwrap(), None);
    }
}
