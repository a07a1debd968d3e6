//! The figures of the connections by which a copy is judged.

use sockscope_analysis::{Analysis, Ledger, LedgerPart};
use sockscope_record::Direction;
use sockscope_report::exchange_times_ns;

/// Of one run; of several, the median of each figure.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// Exchanges, of one run.
    pub exchanges: u64,
    /// Time of an exchange, nanoseconds; `None` without exchanges.
    pub p50_ns: Option<f64>,
    /// The 99th percentile.
    pub p99_ns: Option<f64>,
    /// Bytes a second of the direction of most bytes.
    pub throughput: Option<f64>,
    /// Of each direction, the share of the time that its oldest byte spent in each place; empty without bytes.
    pub shares: [Vec<f64>; 2],
    /// The share of the reads on the CPU of the write that they waited for.
    pub same_cpu: Option<f64>,
    /// The part of the CPU time that the host of a virtual machine gave to others.
    pub steal: Option<f64>,
}

impl Figures {
    /// Of all connections of the run, which are those that were replayed.
    pub fn of(analysis: &Analysis, same_cpu: Option<f64>) -> Self {
        let mut times: Vec<u64> = analysis.connections.iter().flat_map(exchange_times_ns).collect();
        times.sort_unstable();
        let at = |share: f64| {
            let rank = (share * times.len() as f64).ceil() as usize;
            times.get(rank.max(1) - 1).map(|ns| *ns as f64)
        };
        let flows = || analysis.connections.iter().flat_map(|connection| &connection.flows);
        let shares = [Direction::FromClient, Direction::FromServer].map(|direction| {
            let mut sum = Ledger::default();
            for flow in flows().filter(|flow| flow.id.direction() == direction && flow.bytes > 0) {
                sum.ns.iter_mut().zip(flow.ledger.ns).for_each(|(sum, ns)| *sum += ns);
            }
            let has_time = sum.total_ns() > 0;
            let shares = LedgerPart::ALL.map(|part| sum.share(part)).to_vec();
            if has_time { shares } else { Vec::new() }
        });
        Self {
            exchanges: times.len() as u64,
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            throughput: flows()
                .max_by_key(|flow| flow.bytes)
                .and_then(|flow| flow.throughput_bytes_per_s),
            shares,
            same_cpu,
            steal: analysis.facts.steal_share,
        }
    }

    /// The median of each figure of the runs.
    pub fn median(runs: &[Self]) -> Self {
        let of = |figure: &dyn Fn(&Self) -> Option<f64>| median(runs.iter().filter_map(figure));
        let shares = [0, 1].map(|flow: usize| {
            let places = 0..LedgerPart::ALL.len();
            let place = |place: usize| of(&|run: &Self| run.shares[flow].get(place).copied());
            places.map_while(place).collect()
        });
        Self {
            exchanges: runs.first().map_or(0, |run| run.exchanges),
            p50_ns: of(&|run| run.p50_ns),
            p99_ns: of(&|run| run.p99_ns),
            throughput: of(&|run| run.throughput),
            shares,
            same_cpu: of(&|run| run.same_cpu),
            steal: of(&|run| run.steal),
        }
    }

    /// The figure that a run is judged by: the median exchange, else the throughput.
    pub fn main(&self) -> Option<f64> {
        self.p50_ns.or(self.throughput)
    }
}

/// The median; of an even number the mean of the two in the middle.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let high = *sorted.get(sorted.len() / 2)?;
    let low = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_the_median_of_each_figure() {
        let run = |p50, share| Figures {
            exchanges: 9,
            p50_ns: Some(p50),
            shares: [vec![share, 1.0 - share], Vec::new()],
            ..Figures::default()
        };
        let median = Figures::median(&[run(3.0, 0.25), run(1.0, 0.75), run(2.0, 0.5)]);
        assert_eq!(median, run(2.0, 0.5));
        assert_eq!(Figures::median(&[run(1.0, 0.5), run(2.0, 0.5)]).p50_ns, Some(1.5));
        assert_eq!(Figures::median(&[]), Figures::default());
    }
}
