//! Bundles of other format versions.
//!
//! Every released version's bundle opens in every later release: [`FIXES`] has, for each version
//! that differs from the next, the change from its `meta.json` to the next one's. Version 2 gave
//! the messages of the streams their seals and left `meta.json` as it was, so there is nothing to
//! fix yet; the only check is that a later version gives one clear error. Readers of the two
//! streams check the version in the schema metadata by the same rule.

use std::path::Path;

use serde_json::Value;

use crate::error::Error;
use crate::format::{FORMAT_VERSION, Part};
use crate::meta::Meta;

/// Turns the `meta.json` of one version into that of the next.
type Fix = fn(&mut Value);

/// Fixes by the version that they start from, in ascending order.
const FIXES: &[(u32, Fix)] = &[];

/// Reads a `meta.json` of any version up to ours.
pub(crate) fn meta(bytes: &[u8]) -> Result<Meta, Error> {
    meta_with(bytes, FIXES)
}

fn meta_with(bytes: &[u8], fixes: &[(u32, Fix)]) -> Result<Meta, Error> {
    let found = version_of(bytes)?;
    supported(Path::new(Part::Meta.file_name()), found)?;
    let mut due = fixes.iter().filter(|(from, _)| *from >= found).peekable();
    if due.peek().is_none() {
        // Straight from the bytes, an error has its line and column.
        return serde_json::from_slice(bytes).map_err(|error| Error::json(&error));
    }
    let mut value: Value = serde_json::from_slice(bytes).map_err(|error| Error::json(&error))?;
    due.for_each(|(_, fix)| fix(&mut value));
    serde_json::from_value(value).map_err(|error| Error::json(&error))
}

/// Refuses the files of later releases.
pub(crate) fn supported(path: &Path, found: u32) -> Result<(), Error> {
    if found > FORMAT_VERSION {
        return Err(Error::NewerVersion { path: path.to_owned(), found });
    }
    Ok(())
}

/// Looks at the version alone: the rest may have any shape in a later version.
fn version_of(bytes: &[u8]) -> Result<u32, Error> {
    #[derive(serde::Deserialize)]
    struct Version {
        #[serde(default = "first")]
        format_version: u32,
    }
    fn first() -> u32 {
        1
    }
    let version: Version = serde_json::from_slice(bytes).map_err(|error| Error::json(&error))?;
    Ok(version.format_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_version_gives_one_clear_error_whatever_else_it_holds() {
        let error = meta(br#"{"format_version":3,"host":["now","a","list"]}"#).unwrap_err();
        assert_eq!(
            error.to_string(),
            "meta.json: format version 3, and this sockscope reads up to version 2: \
             a later release opens it"
        );
    }

    #[test]
    fn an_old_version_passes_every_fix_from_its_own_on() {
        let fixes: [(u32, Fix); 2] = [
            (0, |meta| meta["host"] = meta["hostname"].take()),
            (1, |meta| meta["kernel"] = format!("{}-fixed", meta["host"]).into()),
        ];
        let hosts = |json: &str| {
            let meta = meta_with(json.as_bytes(), &fixes).unwrap();
            (meta.host, meta.kernel)
        };
        let old = hosts(r#"{"format_version":0,"hostname":"a"}"#);
        assert_eq!(old, ("a".into(), "\"a\"-fixed".into()));
        let newer = hosts(r#"{"format_version":1,"hostname":"a","host":"b"}"#);
        assert_eq!(newer, ("b".into(), "\"b\"-fixed".into()));
    }
}
