//! The result of a replay, before it is written.

use sockscope_analysis::Analysis;
use sockscope_lab::pattern_file::PatternFile;
use sockscope_report::{Compared, Comparison};

use super::closeness::{Pair, Verdict, pairs, spread, verdict};
use super::figures::Figures;
use crate::work::pattern::cpus::Cpus;

/// Runs of one kind.
#[derive(Default)]
pub struct Runs {
    pub analyses: Vec<Analysis>,
    pub figures: Vec<Figures>,
}

/// A replay.
pub struct Replayed {
    pub file: PatternFile,
    /// As `one-write, delay=10ms`; empty without a change.
    pub changes: String,
    /// As `over loopback`.
    pub path: String,
    pub original: Figures,
    pub unchanged: Runs,
    pub changed: Runs,
    /// The changed calls with every think time as it was recorded, where that differs.
    pub as_recorded: Option<Figures>,
    /// The CPUs of the runs over loopback; `None` where the kernel chose.
    pub cpus: Option<Cpus>,
    /// The changed calls with the two programs on the other CPUs.
    pub other_cpus: Runs,
    /// Steps that a wait went before, and all steps.
    pub after_wait: (u64, u64),
    /// Time of a run itself between two calls at most, which its think times are shorter by; by sides.
    pub own_ns: [u64; 2],
}

impl Runs {
    pub fn push(&mut self, (analysis, figures): (Analysis, Figures)) {
        self.figures.push(figures);
        self.analyses.push(analysis);
    }

    pub fn median(&self) -> Figures {
        Figures::median(&self.figures)
    }

    pub fn spread(&self) -> f64 {
        spread(&self.figures)
    }
}

impl Replayed {
    /// The original's figures next to the copy's.
    pub fn pairs(&self) -> Vec<Pair> {
        pairs(&self.original, &self.unchanged.median())
    }

    /// The unchanged runs next to the changed ones.
    pub fn comparison(&self) -> Comparison {
        let [unchanged, changed] = [&self.unchanged, &self.changed]
            .map(|runs| runs.analyses.iter().collect::<Vec<&Analysis>>());
        Comparison::of(&[
            Compared { name: "unchanged", rounds: &unchanged },
            Compared { name: "changed", rounds: &changed },
        ])
    }

    pub fn verdict(&self) -> Verdict {
        verdict(&self.pairs(), &self.unchanged.figures)
    }

    /// Writes, and those for which the rule of dependencies is certain.
    pub fn writes(&self) -> (u64, u64) {
        let sides = &self.file.pattern.sides;
        (
            sides.iter().map(|side| side.writes).sum(),
            sides.iter().map(|side| side.certain_writes).sum(),
        )
    }
}
