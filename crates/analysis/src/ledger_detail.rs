//! The ledger of a flow at any zoom: the time in each place within each column of a picture, exact.
//!
//! Sums of all places stand at every so many spans; a column takes the difference of two sums, and adds the few spans
//! between them.

use crate::{LedgerPart, LedgerSpan};

/// Spans between two sums.
const EVERY: usize = 64;
const PARTS: usize = LedgerPart::ALL.len();

/// The spans of a ledger, with sums of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LedgerDetail {
    spans: Vec<LedgerSpan>,
    /// Nanoseconds in each part before each [`EVERY`]th span.
    sums: Vec<[u64; PARTS]>,
}

impl LedgerDetail {
    /// Of spans in time order that touch.
    pub fn new(spans: Vec<LedgerSpan>) -> Self {
        let mut sum = [0; PARTS];
        let mut sums = Vec::with_capacity(spans.len() / EVERY + 1);
        for group in spans.chunks(EVERY) {
            sums.push(sum);
            add(&mut sum, group);
        }
        Self { spans, sums }
    }

    /// Its spans.
    pub fn spans(&self) -> &[LedgerSpan] {
        &self.spans
    }

    /// Nanoseconds in each part, in the order of [`LedgerPart::ALL`], between each two edges.
    pub fn columns(&self, edges: &[u64]) -> Vec<[u64; PARTS]> {
        let mut columns = Vec::with_capacity(edges.len().saturating_sub(1));
        let mut before = edges.first().map(|edge| self.until(*edge));
        for edge in edges.iter().skip(1) {
            let until = self.until(*edge);
            columns.extend(
                before.map(|before| std::array::from_fn(|part| until[part] - before[part])),
            );
            before = Some(until);
        }
        columns
    }

    /// Nanoseconds in each part before an instant.
    fn until(&self, at_ns: u64) -> [u64; PARTS] {
        let ended = self.spans.partition_point(|span| span.end_ns <= at_ns);
        let Some(mut sum) = self.sums.get(ended / EVERY).or(self.sums.last()).copied() else {
            return [0; PARTS];
        };
        let group = (ended / EVERY).min(self.sums.len().saturating_sub(1)) * EVERY;
        add(&mut sum, &self.spans[group..ended]);
        if let Some(open) = self.spans.get(ended) {
            sum[open.part as usize] += at_ns.saturating_sub(open.start_ns);
        }
        sum
    }
}

fn add(sum: &mut [u64; PARTS], spans: &[LedgerSpan]) {
    for span in spans {
        sum[span.part as usize] += span.duration_ns();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::detail::edges;

    fn naive(spans: &[LedgerSpan], edges: &[u64]) -> Vec<[u64; PARTS]> {
        let column = |pair: &[u64]| {
            let mut column = [0; PARTS];
            for span in spans {
                let (from_ns, to_ns) = (span.start_ns.max(pair[0]), span.end_ns.min(pair[1]));
                column[span.part as usize] += to_ns.saturating_sub(from_ns);
            }
            column
        };
        edges.windows(2).map(column).collect()
    }

    fn spans(lengths: Vec<(u64, usize)>) -> Vec<LedgerSpan> {
        let mut start_ns = 50;
        let span = |(length, part): (u64, usize)| {
            let end_ns = start_ns + length;
            let span = LedgerSpan { start_ns, end_ns, offset: 0, part: LedgerPart::ALL[part] };
            start_ns = end_ns;
            span
        };
        lengths.into_iter().map(span).collect()
    }

    proptest! {
        #[test]
        fn columns_are_those_of_a_look_at_each_span(
            lengths in prop::collection::vec((1u64..50, 0..PARTS), 0..400),
            from in 0u64..12_000, width in 0u64..12_000, count in 1usize..40,
        ) {
            let spans = spans(lengths);
            let edges = edges(from, from + width, count);
            let detail = LedgerDetail::new(spans.clone());
            prop_assert_eq!(detail.columns(&edges), naive(&spans, &edges));
        }
    }
}
