//! Where the program `sockscope` is, which some tests need together with `sockscope-lab`.

use std::path::{Path, PathBuf};

/// The program in the folder of `sockscope-lab`, where cargo puts both.
pub fn sockscope() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_sockscope-lab")).with_file_name("sockscope");
    assert!(program.exists(), "cargo build -p sockscope-cli builds {}", program.display());
    program
}
