//! `sockscope replay --on model`.

use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;

use super::args::Replay;

/// Makes the calls in the model.
pub fn replay(_arguments: &Replay) -> Result<Outcome, Failure> {
    Err(Failure::new("replay: --on model is not available yet: use --on live"))
}
