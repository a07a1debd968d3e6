//! The model's benchmark in the plain build and in the trained one, by turns, so that what else the
//! machine does at a time weighs on both.
//!
//! Rates are million segments per second of CPU time, as `cargo bench -p sockscope-sim` counts
//! them; a ratio is that of the two runs of one turn.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::command::{output, words};
use super::workshop::{Workshop, own_flags, packages, trained};

/// Runs of each build; odd, so that a median is one of them.
const TURNS: usize = 5;
/// Segments of the benchmark's last line, which shows memory and is of no use here.
const LAST_SEGMENTS: &str = "8000";

/// What one case of the benchmark reached in all turns.
#[derive(Debug, Default, PartialEq)]
struct Case {
    plain: Vec<f64>,
    trained: Vec<f64>,
}

/// Builds the benchmark both ways, runs it by turns and prints what each case reached.
///
/// Fails when a build or a run does, when the benchmark prints no rate, or when the builds do not
/// print the same cases.
pub fn run(workshop: &Workshop, profile: &Path) -> Result<(), String> {
    println!("release: building the model's benchmark, plain and trained");
    let plain = built(&mut workshop.plain_cargo("bench", &own_flags()))?;
    let trained = built(&mut workshop.cargo("bench", &trained(profile)))?;
    let mut cases = BTreeMap::new();
    for _ in 0..TURNS {
        for (name, rate) in rates(&ran(&plain)?) {
            case(&mut cases, name).plain.push(rate);
        }
        for (name, rate) in rates(&ran(&trained)?) {
            case(&mut cases, name).trained.push(rate);
        }
    }
    comparable(&cases)?;
    print!("{}", table(&cases));
    Ok(())
}

/// Whether there is something to compare, and each case was run as often in both builds.
fn comparable(cases: &BTreeMap<String, Case>) -> Result<(), String> {
    if cases.is_empty() {
        return Err("the model's benchmark printed no rate".to_owned());
    }
    let unequal = |case: &Case| case.plain.len() != case.trained.len();
    match cases.iter().find(|(_, case)| unequal(case)) {
        Some((name, _)) => Err(format!("the builds print different cases: \"{name}\"")),
        None => Ok(()),
    }
}

fn case(cases: &mut BTreeMap<String, Case>, name: String) -> &mut Case {
    cases.entry(name).or_default()
}

/// The benchmark's program, as cargo names it.
///
/// With the programs' packages beside it: what all use is then compiled with the same features,
/// hence under the same names, and only under its names does the compiler find what was counted.
fn built(cargo: &mut Command) -> Result<PathBuf, String> {
    cargo.args(packages()).args(["--package", "sockscope-sim"]);
    cargo.args(["--bench", "segments", "--no-run", "--quiet", "--message-format=json"]);
    let messages = output(cargo)?;
    executable(&messages).ok_or_else(|| format!("`{}` names no program", words(cargo)))
}

/// The program in cargo's messages, one JSON object a line.
fn executable(messages: &str) -> Option<PathBuf> {
    let values = messages.lines().filter_map(|line| line.parse::<serde_json::Value>().ok());
    values.filter_map(|value| Some(PathBuf::from(value.get("executable")?.as_str()?))).next_back()
}

fn ran(program: &Path) -> Result<String, String> {
    output(Command::new(program).arg(LAST_SEGMENTS))
}

/// Cases and their rates in what one run of the benchmark prints, without its controls.
fn rates(printed: &str) -> Vec<(String, f64)> {
    let rate = |line: &str| {
        let (case, _) = line.split_once(" million segments/s")?;
        let (name, rate) = case.rsplit_once(' ')?;
        let is_case = !name.contains("(control)");
        is_case.then_some((name.trim_end().to_owned(), rate.parse().ok()?))
    };
    printed.lines().filter_map(rate).collect()
}

/// A line for each of `cases`, which are [`comparable`]: the medians of both builds, and the median
/// and range of their ratios.
fn table(cases: &BTreeMap<String, Case>) -> String {
    let mut text = format!(
        "million segments/s of CPU time, medians of {TURNS} turns\n{:32}{:>7}{:>9}  ratio\n",
        "", "plain", "trained"
    );
    for (name, Case { plain, trained }) in cases {
        let ratios = trained.iter().zip(plain).map(|(trained, plain)| trained / plain);
        let ratios = in_order(ratios.collect());
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        let middle = |rates: &[f64]| in_order(rates.to_vec())[rates.len() / 2];
        let (plain, trained, ratio) = (middle(plain), middle(trained), middle(&ratios));
        text +=
            &format!("{name:32}{plain:7.2}{trained:9.2}  {ratio:.2} ({least:.2} to {most:.2})\n");
    }
    text
}

fn in_order(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_the_benchmark_prints_them() {
        let printed = "\
line, instant                      0.83 million segments/s (0.79 to 0.84)
line, instant (control)            0.82 million segments/s (0.80 to 0.84)
Ethernet, sparcstation-1          10.75 million segments/s (0.70 to 0.76)
8000 segments at 0.61 million/s; resident 3044 KiB before, 3044 after
";
        let read = rates(printed);
        let expected = [("line, instant", 0.83), ("Ethernet, sparcstation-1", 10.75)];
        assert_eq!(read, expected.map(|(name, rate)| (name.to_owned(), rate)));
    }

    #[test]
    fn a_ratio_is_of_runs_that_followed_each_other() {
        let case = Case { plain: vec![1.0, 2.0, 4.0], trained: vec![1.5, 3.0, 4.0] };
        let text = table(&BTreeMap::from([("line".to_owned(), case)]));
        let line = text.lines().last().unwrap_or_default();
        assert_eq!(
            line.split_whitespace().collect::<Vec<_>>().join(" "),
            "line 2.00 3.00 1.50 (1.00 to 1.50)"
        );
    }

    #[test]
    fn a_case_of_one_build_alone_is_refused() {
        let case = |plain: &[f64], trained: &[f64]| {
            let case = Case { plain: plain.to_vec(), trained: trained.to_vec() };
            BTreeMap::from([("line".to_owned(), case)])
        };
        let unequal = Err("the builds print different cases: \"line\"".to_owned());
        assert_eq!(comparable(&case(&[1.0], &[])), unequal);
        assert_eq!(comparable(&case(&[], &[1.0])), unequal);
        assert_eq!(comparable(&case(&[1.0], &[2.0])), Ok(()));
        assert!(comparable(&BTreeMap::new()).is_err());
    }

    #[test]
    fn the_program_is_the_one_that_cargo_names() {
        let messages = "{\"executable\":null}\n{\"executable\":\"/t/segments-1\"}\n{\"success\":1}";
        assert_eq!(executable(messages), Some(PathBuf::from("/t/segments-1")));
        assert_eq!(executable("no JSON"), None);
    }
}
