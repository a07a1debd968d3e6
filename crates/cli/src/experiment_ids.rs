//! The experiments that `sockscope lab` knows by name.

use sockscope_experiment::carried;
use sockscope_live::{integrated, protocols};

/// Experiments on this machine, by id and title.
pub const LIVE: [(&str, &str); 2] = [
    (protocols::ID, "Calls over protocols of this machine"),
    (integrated::ID, "A call through layers and by one path"),
];

/// Ids that `lab run` knows.
pub fn experiment_ids() -> Vec<String> {
    let carried = carried().into_iter().flatten().map(|experiment| experiment.id);
    carried.chain(LIVE.iter().map(|(id, _)| (*id).to_owned())).collect()
}
