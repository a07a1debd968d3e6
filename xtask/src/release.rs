//! `cargo xtask release`: the programs as users get them, compiled with a profile of themselves at work.
//!
//! The model's code is larger than a CPU's first-level cache, so that its speed is where the
//! compiler puts which code. Built once with counters, trained ([`training`]), and built again with
//! what was counted; [`turns`] then compares the two builds. Nothing is fetched.

mod command;
mod training;
mod turns;
mod workshop;

use std::fs;
use std::path::Path;

use command::at;
use workshop::Workshop;

/// Builds the trained programs of the checkout at `root` and says where they are; `arguments` may hold
/// `--bench`, to compare their model with that of the plain build.
///
/// Fails with one line when the arguments are unknown, a tool is missing or a step fails.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let is_bench = match arguments {
        [] => false,
        [word] if word == "--bench" => true,
        _ => return Err("release takes --bench or nothing".to_owned()),
    };
    let workshop = Workshop::find(root)?;
    let counting = workshop.build_with_counters()?;
    let counts = training::run(&counting, &workshop.root, &workshop.training);
    // Wherever they run they write files of counts: nobody is to run them by mistake.
    fs::remove_dir_all(&counting).map_err(|error| at(&counting, &error))?;
    let profile = workshop.merge(&counts?)?;
    for program in workshop.build(&profile)? {
        let bytes = fs::metadata(&program).map_err(|error| at(&program, &error))?.len();
        println!("release: {} ({:.1} MB)", program.display(), bytes as f64 / 1e6);
    }
    if is_bench { turns::run(&workshop, &profile) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_argument_is_refused() {
        let refused = run(Path::new("."), &["--fast".to_owned()]);
        assert_eq!(refused, Err("release takes --bench or nothing".to_owned()));
    }
}
