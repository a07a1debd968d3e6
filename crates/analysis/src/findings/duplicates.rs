//! Retransmissions that the peer reported as received twice (D-SACK, RFC 2883).
//!
//! A report has a number of segments and does not name their retransmissions. Those whose original is
//! known to have arrived are first, then the latest ones. A retransmission whose original the kernel
//! is known to have dropped is no candidate.

/// A retransmission of `segments` segments that the peer may still report.
#[derive(Debug, Clone, Copy)]
struct Unreported {
    index: usize,
    segments: u32,
}

/// The retransmissions that the peer has not reported as received twice.
#[derive(Debug, Default)]
pub(super) struct Duplicates {
    known: Vec<Unreported>,
    guessed: Vec<Unreported>,
}

impl Duplicates {
    /// Retransmission number `index` has `len` bytes; `has_arrived`: so had its original.
    pub(super) fn add(&mut self, index: usize, len: u32, segment_bytes: u32, has_arrived: bool) {
        let segments = len.div_ceil(segment_bytes.max(1));
        let list = if has_arrived { &mut self.known } else { &mut self.guessed };
        list.extend((segments > 0).then_some(Unreported { index, segments }));
    }

    /// The peer reports `segments` more; calls `needless` with each retransmission that this shows to
    /// have been needless: all of its segments are reported.
    pub(super) fn report(&mut self, mut segments: u32, mut needless: impl FnMut(usize)) {
        for (is_guessed, list) in [(false, &mut self.known), (true, &mut self.guessed)] {
            while segments > 0
                && let Some(last) = list.last_mut()
            {
                let taken = last.segments.min(segments);
                last.segments -= taken;
                segments -= taken;
                if last.segments > 0 {
                    break;
                }
                let index = last.index;
                list.pop();
                if is_guessed {
                    needless(index);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(duplicates: &mut Duplicates, segments: u32) -> Vec<usize> {
        let mut all = Vec::new();
        duplicates.report(segments, |index| all.push(index));
        all
    }

    #[test]
    fn a_report_counts_segments_and_not_retransmissions() {
        let mut duplicates = Duplicates::default();
        duplicates.add(0, 1_000, 1_000, false);
        duplicates.add(1, 45_000, 1_000, false);
        assert_eq!(reported(&mut duplicates, 44), []);
        assert_eq!(reported(&mut duplicates, 1), [1]);
        assert_eq!(reported(&mut duplicates, 7), [0]);
        assert_eq!(reported(&mut duplicates, 7), []);
    }

    #[test]
    fn one_whose_original_arrived_explains_a_report_first() {
        let mut duplicates = Duplicates::default();
        duplicates.add(0, 2_000, 1_000, true);
        duplicates.add(1, 1_000, 1_000, false);
        assert_eq!(reported(&mut duplicates, 1), []);
        assert_eq!(reported(&mut duplicates, 2), [1]);
    }
}
