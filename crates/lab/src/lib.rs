//! Experiments of classic papers as files, run on the model, and their claims checked.
//!
//! An [`Experiment`](experiment::Experiment) says what is run, varied and recorded; a run gives a
//! [`RunResult`](result::RunResult); a [`Claims`](papers::Claims) register says what the papers found,
//! and `check` compares. Times are nanoseconds of the model's clock, sizes octets. Results depend on
//! the experiment and its seed alone, not on the number of threads.
//!
//! The parts in their order, each using only what stands above it:
//!
//! | part | what it is |
//! |---|---|
//! | `papers` | what the papers say |
//! | `experiment` | an experiment's file: parameters, cases, what to keep, what to draw |
//! | `seen` | what one run may see: times, counts, lists |
//! | `workload` | the programs, as processes of the model |
//! | `model`, `atm_pair`, `vmtp_pair` | one run of one case, and what its records show |
//! | `run`, `result` | all runs of an experiment, and what they gave |
//! | `bundle`, `figure`, `check` | traces, charts and verdicts made of that |
//!
//! `live` and `integrated` stand beside them: they ask the same questions of this machine.

mod atm_pair;
pub mod bundle;
pub mod check;
mod error;
pub mod experiment;
pub mod figure;
pub mod integrated;
mod link_faults;
pub mod live;
mod model;
pub mod papers;
pub mod result;
pub mod run;
pub mod seen;
mod vmtp_pair;
mod wire;
mod workload;

pub use error::{Error, Result};
