//! The faults of an experiment's link, as the model's links take them.

use sockscope_experiment::Faults;
use sockscope_sim::Faults as LinkFaults;

/// The longest delay of a frame where an experiment gives none: longer than two frames of full size
/// take on an Ethernet of 10 Mbit/s.
const REORDERED_BY_US: u64 = 10_000;

/// The faults for a link of the model.
pub(crate) fn link_faults(faults: Faults) -> LinkFaults {
    let by_us = faults.reordered_by_us.unwrap_or(REORDERED_BY_US);
    let is_reordered = faults.reordered_per_million > 0;
    LinkFaults {
        loss_ppm: faults.lost_per_million,
        duplication_ppm: faults.duplicated_per_million,
        reordering_ppm: faults.reordered_per_million,
        reordering_ns_max: if is_reordered { by_us * 1000 } else { 0 },
        corruption_ppm: faults.corrupted_per_million,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_parameter_is_the_link_s_own() {
        let faults = Faults {
            lost_per_million: 1,
            duplicated_per_million: 2,
            reordered_per_million: 3,
            reordered_by_us: Some(4),
            corrupted_per_million: 5,
        };
        let expected = LinkFaults {
            loss_ppm: 1,
            duplication_ppm: 2,
            reordering_ppm: 3,
            reordering_ns_max: 4000,
            corruption_ppm: 5,
        };
        assert_eq!(link_faults(faults), expected);
        let held_back = Faults { reordered_by_us: None, ..faults };
        assert_eq!(link_faults(held_back).reordering_ns_max, 10_000_000);
    }
}
