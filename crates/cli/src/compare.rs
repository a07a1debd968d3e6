//! `sockscope compare`: bundles side by side.

use std::path::{Path, PathBuf};

use sockscope_analysis::Analysis;
use sockscope_program::failure::Failure;
use sockscope_program::output::output;
use sockscope_report::{
    Compared, Comparison, draw_compare, write_compare, write_compare_csv, write_compare_json,
};

use crate::args::{self, CompareFormat};
use crate::bundle;
use crate::terminal::{self, Target};

/// Size of the figure in pixels.
const FIGURE_PX: (u32, u32) = (800, 600);

/// `sockscope compare`.
pub fn compare(arguments: &args::Compare) -> Result<(), Failure> {
    let dirs: Vec<PathBuf> =
        [&arguments.first].into_iter().chain(&arguments.others).cloned().collect();
    let names = names(&dirs);
    let mut analyses: Vec<Analysis> = Vec::new();
    for (dir, name) in dirs.iter().zip(&names) {
        let analysis = bundle::analyze(dir)?.0;
        for note in &analysis.facts.notes {
            stderr!("sockscope: {name}: {note}");
        }
        analyses.push(analysis);
    }
    let rounds: Vec<[&Analysis; 1]> = analyses.iter().map(|analysis| [analysis]).collect();
    let runs = names.iter().zip(&rounds).map(|(name, rounds)| Compared { name, rounds });
    let comparison = Comparison::of(&runs.collect::<Vec<_>>());
    let mut out = output(&arguments.output)?;
    match arguments.format {
        CompareFormat::Text => {
            let options = terminal::options(Target::named(&arguments.output), arguments.color);
            write_compare(&comparison, &options, &mut out)?;
        }
        CompareFormat::Json => write_compare_json(&comparison, &mut out)?,
        CompareFormat::Csv => write_compare_csv(&comparison, &mut out)?,
        CompareFormat::Svg => {
            let (width, height) = FIGURE_PX;
            let svg = draw_compare(&comparison, width, height);
            let svg = svg.map_err(|error| Failure::new(error.to_string()))?;
            out.write_all(svg.as_bytes()).map_err(|error| Failure::output(&error))?;
        }
    }
    out.flush().map_err(|error| Failure::output(&error))
}

/// The last part of each path, or all of it where these are not different.
fn names(dirs: &[PathBuf]) -> Vec<String> {
    let last = |dir: &PathBuf| {
        let name = dir.file_name().map(|name| name.to_string_lossy().into_owned());
        name.map(|name| name.strip_suffix(".sockscope").map_or(name.clone(), str::to_owned))
    };
    let short: Option<Vec<String>> = dirs.iter().map(last).collect();
    let is_different = |names: &Vec<String>| {
        let different: std::collections::BTreeSet<_> = names.iter().collect();
        different.len() == names.len()
    };
    let whole = || dirs.iter().map(|dir| Path::display(dir).to_string()).collect();
    short.filter(is_different).unwrap_or_else(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_are_named_by_what_differs() {
        let named = |dirs: &[&str]| names(&dirs.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(named(&["x/a.sockscope", "b"]), ["a", "b"]);
        assert_eq!(
            named(&["x/a.sockscope", "y/a.sockscope/"]),
            ["x/a.sockscope", "y/a.sockscope/"]
        );
        assert_eq!(named(&["..", "a"]), ["..", "a"]);
    }
}
