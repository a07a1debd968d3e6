//! What goes wrong on the link of a case, by chance on the case's seed.

/// Frames of a million that suffer one thing, at most: half of them.
const PER_MILLION_MAX: u32 = 500_000;

/// How long a frame is held back at most: a second. Two frames of full size pass on an Ethernet of
/// 10 Mbit/s while a third waits for 3 ms.
const REORDERED_BY_US_MAX: u64 = 1_000_000;

/// The faults of a link as parameters give them: under the same names for every workload that has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faults {
    /// Frames of a million that are lost.
    pub lost_per_million: u32,
    /// Frames of a million that arrive twice.
    pub duplicated_per_million: u32,
    /// Frames of a million that are held back, so that others overtake them.
    pub reordered_per_million: u32,
    /// How long such a frame is held back at most, in microseconds.
    pub reordered_by_us: Option<u64>,
    /// Frames of a million in which a bit is turned.
    pub corrupted_per_million: u32,
}

impl Faults {
    /// The shares by their names.
    fn shares(&self) -> [(&'static str, u32); 4] {
        [
            ("lost_per_million", self.lost_per_million),
            ("duplicated_per_million", self.duplicated_per_million),
            ("reordered_per_million", self.reordered_per_million),
            ("corrupted_per_million", self.corrupted_per_million),
        ]
    }

    /// The first that is given, by its name.
    pub(crate) fn first(&self) -> Option<&'static str> {
        let given = self.shares().into_iter().find(|(_, share)| *share > 0);
        given.map(|(name, _)| name).or(self.reordered_by_us.map(|_| "reordered_by_us"))
    }

    /// What to do about an error that they may have caused, to stand behind it: nothing if none is given.
    pub fn hint(&self) -> String {
        match self.first() {
            Some(name) => format!("; the link has `{name}`: set less of it, or another seed"),
            None => String::new(),
        }
    }

    /// Refuses numbers out of their range, and a delay of frames of which none is held back.
    pub(super) fn validate(&self) -> Result<(), String> {
        for (name, share) in self.shares() {
            if share > PER_MILLION_MAX {
                return Err(format!("expected `{name}` from 0 to {PER_MILLION_MAX}"));
            }
        }
        match self.reordered_by_us {
            Some(us) if !(1..=REORDERED_BY_US_MAX).contains(&us) => {
                Err(format!("expected `reordered_by_us` from 1 to {REORDERED_BY_US_MAX}"))
            }
            Some(_) if self.reordered_per_million == 0 => {
                Err("`reordered_by_us` goes with `reordered_per_million`".to_owned())
            }
            _ => Ok(()),
        }
    }
}
