//! Counts of verdicts, of predictions and of causes.

use serde::Serialize;
use sockscope_experiment::papers::Role;

use super::{CauseVerdict, Checked, Verdict};

/// How many claims have each verdict.
#[derive(Serialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Counts {
    pub(super) reproduced: usize,
    pub(super) differs: usize,
    pub(super) not_checkable: usize,
}

impl Counts {
    pub(super) fn of<'a>(checked: impl IntoIterator<Item = &'a Checked>) -> Self {
        let mut counts = Self::default();
        for one in checked {
            match one.comparison.verdict {
                Verdict::Reproduced => counts.reproduced += 1,
                Verdict::Differs => counts.differs += 1,
                Verdict::NotCheckable => counts.not_checkable += 1,
            }
        }
        counts
    }

    pub(super) fn checkable(self) -> usize {
        self.reproduced + self.differs
    }

    pub(super) fn words(self) -> String {
        let Self { reproduced, differs, not_checkable } = self;
        let differ = if differs == 1 { "differs" } else { "differ" };
        format!("{reproduced} reproduced, {differs} {differ}, {not_checkable} not checkable")
    }
}

/// Predictions of a paper that the model can show.
#[derive(Serialize, Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Predictions {
    pub(super) reproduced: usize,
    pub(super) checkable: usize,
    /// How many more are needed for 90 % of them.
    pub(super) missing: usize,
    /// Those that differ by a cause that runs show.
    pub(super) explained: usize,
}

impl Predictions {
    pub(super) fn of(checked: &[&Checked]) -> Self {
        let predictions = || checked.iter().filter(|one| one.claim.role == Role::Prediction);
        let counts = Counts::of(predictions().copied());
        let (reproduced, checkable) = (counts.reproduced, counts.checkable());
        let missing = (9 * checkable).div_ceil(10).saturating_sub(reproduced);
        let is_explained = |one: &&&Checked| {
            let explanation = one.explanation.as_ref();
            explanation.is_some_and(|it| it.verdict == CauseVerdict::Holds)
        };
        let explained = predictions().filter(is_explained).count();
        Self { reproduced, checkable, missing, explained }
    }

    /// Those reproduced, in percent; none where there is no prediction.
    pub(super) fn percent(self) -> Option<f64> {
        let Self { reproduced, checkable, .. } = self;
        (checkable > 0).then(|| 100.0 * reproduced as f64 / checkable as f64)
    }
}

/// How many of the claims that differ have a cause, by what the runs say to it.
#[derive(Serialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Causes {
    pub(super) holds: usize,
    pub(super) does_not_hold: usize,
    pub(super) not_known: usize,
    pub(super) unexplained: usize,
}

impl Causes {
    pub(super) fn of(checked: &[Checked]) -> Self {
        let mut causes = Self::default();
        for one in checked.iter().filter(|one| one.comparison.verdict == Verdict::Differs) {
            let verdict = one.explanation.as_ref().map(|explanation| explanation.verdict);
            match verdict {
                Some(CauseVerdict::Holds) => causes.holds += 1,
                Some(CauseVerdict::DoesNotHold) => causes.does_not_hold += 1,
                Some(CauseVerdict::NotKnown) => causes.not_known += 1,
                None => causes.unexplained += 1,
            }
        }
        causes
    }

    pub(super) fn words(self) -> String {
        let Self { holds, does_not_hold, not_known, unexplained } = self;
        format!(
            "Causes of what differs: {holds} hold, {does_not_hold} do not hold, {not_known} not known, {unexplained} without an explanation."
        )
    }
}
