//! The experiments that `sockscope lab` knows by name, and what is said of a name that it does not know.

use sockscope_experiment::{Error, builtin};
use sockscope_live::{composed, integrated, protocols};
use sockscope_program::failure::Failure;
use sockscope_program::suggest::did_you_mean;

/// Experiments on this machine, by id and title.
pub const LIVE: [(&str, &str); 3] = [
    (protocols::ID, "Calls over protocols of this machine"),
    (integrated::ID, "A call through layers and by one path"),
    (composed::ID, "Functions in one loop over a socket"),
];

/// Ids that `lab run` knows.
fn experiment_ids() -> Vec<String> {
    let builtin = builtin().into_iter().flatten().map(|experiment| experiment.id);
    builtin.chain(LIVE.iter().map(|(id, _)| (*id).to_owned())).collect()
}

/// An error of the laboratory as the user sees it, with the name that was probably meant.
pub fn failure(error: &Error) -> Failure {
    let meant = match error {
        Error::NoSuchExperiment { wanted } => {
            let known = experiment_ids();
            did_you_mean(wanted, known.iter().map(String::as_str))
        }
        Error::NoSuchPaper { wanted, known } => {
            did_you_mean(wanted, known.split(|it: char| !it.is_alphanumeric() && it != '-'))
        }
        _ => String::new(),
    };
    Failure::new(format!("{error}{meant}"))
}
