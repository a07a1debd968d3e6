//! What a run says to a claim.

use sockscope_experiment::papers::{Claim, Where};
use sockscope_record::named;

/// The end of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The model shows what the paper found, within the tolerance.
    Reproduced,
    /// It does not.
    Differs,
    /// Nothing here can tell; the note says why.
    NotCheckable,
}

named! {
    Verdict {
        Reproduced => "reproduced",
        Differs => "differs",
        NotCheckable => "not-checkable",
    }
}

/// A value of a claim or a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    /// One or more numbers in the claim's unit.
    Numbers(Vec<f64>),
    /// What numbers do not say.
    Words(String),
    /// No value.
    Nothing,
}

/// A verdict with both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The verdict.
    pub verdict: Verdict,
    /// What the paper says.
    pub expected: Shown,
    /// What the model shows.
    pub got: Shown,
    /// What a reader should know of it; may be empty.
    pub note: String,
}

impl Comparison {
    /// Numbers against those of the paper, each within the claim's tolerance.
    pub(crate) fn numbers(claim: &Claim, got: &[f64]) -> Self {
        Self::against(claim, &claim.values, got)
    }

    /// Numbers against `expected`, each within the claim's tolerance. Fewer or more numbers differ.
    pub(crate) fn against(claim: &Claim, expected: &[f64], got: &[f64]) -> Self {
        let is_near = |(expected, got): (&f64, &f64)| {
            // A tolerance of exactly 0 must accept equal numbers; sums of floats may be off by a hair.
            let slack = 1e-9 * expected.abs();
            (got - expected).abs() <= claim.tolerance(*expected) + slack
        };
        let agree = expected.len() == got.len() && expected.iter().zip(got).all(is_near);
        Self {
            verdict: if agree { Verdict::Reproduced } else { Verdict::Differs },
            expected: Shown::Numbers(expected.to_vec()),
            got: Shown::Numbers(got.to_vec()),
            note: String::new(),
        }
    }

    /// Numbers that must lie between the claim's bounds, its tolerance added.
    pub(crate) fn within(claim: &Claim, got: &[f64]) -> Self {
        let (low, high) = (claim.low.unwrap_or(f64::NAN), claim.high.unwrap_or(f64::NAN));
        let is_inside =
            |got: &f64| (low - claim.tolerance(low)..=high + claim.tolerance(high)).contains(got);
        Self {
            verdict: if got.iter().all(is_inside) { Verdict::Reproduced } else { Verdict::Differs },
            expected: Shown::Numbers(vec![low, high]),
            got: Shown::Numbers(got.to_vec()),
            note: String::new(),
        }
    }

    /// A shape or an ordering: whether it holds, what was expected in words, and what was seen.
    pub(crate) fn holds(holds: bool, expected: impl Into<String>, got: impl Into<String>) -> Self {
        Self {
            verdict: if holds { Verdict::Reproduced } else { Verdict::Differs },
            expected: Shown::Words(expected.into()),
            got: Shown::Words(got.into()),
            note: String::new(),
        }
    }

    /// Nothing here can tell, for this reason.
    pub(crate) fn not_checkable(why: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::NotCheckable,
            expected: Shown::Nothing,
            got: Shown::Nothing,
            note: why.into(),
        }
    }

    /// The same with a word to the reader.
    #[must_use]
    pub(crate) fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Both this and `also` must hold; the first that does not is reported. Notes are of both when both do.
    #[must_use]
    pub(crate) fn and(mut self, also: Self) -> Self {
        if self.verdict != Verdict::Reproduced {
            return self;
        }
        if also.verdict != Verdict::Reproduced {
            return also;
        }
        let between = if self.note.is_empty() || also.note.is_empty() { "" } else { "; " };
        self.note = format!("{}{between}{}", self.note, also.note);
        self
    }

    /// The comparison of a claim that has no check yet.
    pub(crate) fn no_experiment(claim: &Claim) -> Self {
        match claim.check {
            Where::Live => Self::not_checkable("only a live machine can show it"),
            Where::Model | Where::Both => {
                Self::not_checkable("no experiment of this release runs what it needs on the model")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockscope_experiment::papers::Claims;

    fn verdict(id: &str, got: &[f64]) -> Verdict {
        let claims = Claims::builtin().unwrap();
        Comparison::numbers(claims.claim(id).unwrap(), got).verdict
    }

    #[test]
    fn a_number_at_the_tolerance_is_reproduced_and_one_past_it_differs() {
        assert_eq!(verdict("layering/T3-b", &[215.0]), Verdict::Reproduced);
        assert_eq!(verdict("layering/T3-b", &[215.1]), Verdict::Differs);
        assert_eq!(verdict("bsd-buffers/4.3-a", &[10000.0]), Verdict::Reproduced);
        assert_eq!(verdict("bsd-buffers/4.3-a", &[9999.0]), Verdict::Differs);
        assert_eq!(verdict("bsd-buffers/4.3-a", &[10000.0, 10000.0]), Verdict::Differs);
    }

    #[test]
    fn the_first_part_that_fails_is_told() {
        let (good, bad) = (Comparison::holds(true, "a", "a"), Comparison::holds(false, "b", "c"));
        assert_eq!(good.clone().and(bad.clone()), bad);
        assert_eq!(bad.clone().and(good.clone()), bad);
        assert_eq!(good.clone().and(good.clone()), good);
    }

    #[test]
    fn a_note_is_of_what_holds() {
        let good = |note: &str| Comparison::holds(true, "a", "a").with_note(note);
        let bad = Comparison::holds(false, "b", "c");
        assert_eq!(good("as printed").and(bad.clone()).note, "");
        assert_eq!(bad.and(good("as printed")).note, "");
        assert_eq!(good("one").and(good("")).and(good("two")).note, "one; two");
    }
}
