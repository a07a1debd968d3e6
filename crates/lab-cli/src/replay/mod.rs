//! `sockscope replay`: the calls of a recorded connection once more, unchanged and changed.

pub mod args;
mod on_model;

use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;

use args::{Replay, ReplayOn};

/// `sockscope replay`.
pub fn replay(arguments: &Replay) -> Result<Outcome, Failure> {
    match arguments.on {
        ReplayOn::Model => on_model::replay(arguments),
        ReplayOn::Live => Err(Failure::new("replay: --on live is not available yet")),
    }
}
