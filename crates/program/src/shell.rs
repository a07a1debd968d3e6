//! Names in a command line.

use std::borrow::Cow;
use std::path::Path;

/// The name of a folder as a word of the shell.
pub fn quoted(folder: &Path) -> String {
    let name = folder.display().to_string();
    shlex::try_quote(&name).map_or(name.clone(), Cow::into_owned)
}
