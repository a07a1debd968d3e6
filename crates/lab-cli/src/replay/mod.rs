//! `sockscope replay`: the calls of a recorded connection once more, unchanged and changed.

pub mod args;
mod closeness;
mod document;
mod figures;
mod live;
mod on_model;
mod own_time;
mod page;
mod result;
mod runner;

use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;

use args::{Replay, ReplayOn};

/// `sockscope replay`.
pub fn replay(arguments: &Replay) -> Result<Outcome, Failure> {
    match arguments.on {
        ReplayOn::Live => live::replay(arguments),
        ReplayOn::Model => on_model::replay(arguments),
    }
}
