//! The loss model of a line, with its state.

use crate::random::{Choice, Random};
use crate::settings::LossModel;

/// A loss model with its state.
#[derive(Debug, Clone)]
pub(crate) struct Loss {
    model: LossModel,
    drops: Random,
    changes: Random,
    packets: u64,
    is_bad: bool,
}

impl Loss {
    pub(crate) fn new(model: LossModel, seed: u64) -> Self {
        let (drops, changes) =
            (Random::new(seed, Choice::Loss), Random::new(seed, Choice::LossState));
        Self { model, drops, changes, packets: 0, is_bad: false }
    }

    /// Whether the line drops the next packet. Asked once for each, in the order of their arrival.
    pub(crate) fn drops_next(&mut self) -> bool {
        self.packets += 1;
        match self.model {
            LossModel::None => false,
            LossModel::Random(share) => self.drops.is(share),
            LossModel::EveryNth(nth) => self.packets.is_multiple_of(nth),
            LossModel::GilbertElliott { to_bad, to_good, in_bad, in_good } => {
                let change = if self.is_bad { to_good } else { to_bad };
                self.is_bad ^= self.changes.is(change);
                self.drops.is(if self.is_bad { in_bad } else { in_good })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `packets` packets, those that are dropped, by number.
    fn dropped(model: &str, seed: u64, packets: u64) -> Vec<u64> {
        let mut loss = Loss::new(model.parse().unwrap(), seed);
        (1..=packets).filter(|_| loss.drops_next()).collect()
    }

    /// Whether a count lies within four standard deviations of the mean of independent drops.
    fn is_binomial(count: usize, packets: f64, share: f64) -> bool {
        let deviation = (packets * share * (1.0 - share)).sqrt();
        (count as f64 - packets * share).abs() < 4.0 * deviation
    }

    #[test]
    fn every_nth_is_dropped() {
        assert_eq!(dropped("every:3", 1, 10), [3, 6, 9]);
        assert_eq!(dropped("every:1", 1, 2), [1, 2]);
    }

    #[test]
    fn random_drops_have_their_share_and_no_memory() {
        for (seed, percent) in [(1, 0.1), (2, 1.0), (3, 20.0)] {
            let drops = dropped(&format!("{percent}%"), seed, 100_000);
            assert!(is_binomial(drops.len(), 1e5, percent / 100.0), "{percent} %: {}", drops.len());
            let pairs = drops.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
            let share = percent / 100.0;
            assert!(is_binomial(pairs, 1e5, share * share), "{percent} %: {pairs} pairs");
        }
    }

    #[test]
    fn the_model_of_gilbert_and_elliott_drops_in_bursts_of_their_length() {
        // In the bad state for 1 / 0.25 packets on average, and for 1 / (1 + 0.25 / 0.01) of the time.
        let drops = dropped("gilbert:1%,25%", 7, 200_000);
        let share = drops.len() as f64 / 2e5;
        assert!((share - 0.01 / 0.26).abs() < 0.004, "{share}");
        let bursts = 1 + drops.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        let length = drops.len() as f64 / bursts as f64;
        assert!((length - 4.0).abs() < 0.4, "{length}");
    }

    #[test]
    fn a_seed_gives_the_same_drops_and_another_one_others() {
        for model in ["5%", "gilbert:5%,20%,90%,1%"] {
            assert_eq!(dropped(model, 42, 5_000), dropped(model, 42, 5_000));
            assert_ne!(dropped(model, 42, 5_000), dropped(model, 43, 5_000));
        }
    }

    #[test]
    fn certain_drops_are_certain() {
        assert_eq!(dropped("100%", 5, 4), [1, 2, 3, 4]);
        assert!(dropped("0%", 5, 1_000).is_empty());
    }
}
