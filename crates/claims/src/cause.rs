//! The cause of a difference, and what runs say to it.

use sockscope_record::named;

/// What runs say to the cause of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CauseVerdict {
    /// Runs show the cause at work.
    Holds,
    /// They do not.
    DoesNotHold,
    /// No run shows a cause. What is known of the difference is observed as said.
    NotKnown,
}

named! {
    CauseVerdict {
        Holds => "holds",
        DoesNotHold => "does-not-hold",
        NotKnown => "not-known",
    }
}

/// Why a claim differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The cause, or what is known where none is.
    pub cause: &'static str,
    /// Whether it is the cause.
    pub verdict: CauseVerdict,
    /// What the runs had.
    pub observed: String,
    /// What the paper leaves open.
    pub open: &'static str,
}
