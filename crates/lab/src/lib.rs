//! Experiments of classic papers as files, run on the model, and their claims checked.
//!
//! An [`Experiment`](experiment::Experiment) says what is run, varied and recorded; a run gives a
//! [`RunResult`](result::RunResult); a [`Claims`](papers::Claims) register says what the papers found,
//! and `check` compares. Times are nanoseconds of the model's clock, sizes octets. Results depend on
//! the experiment and its seed alone, not on the number of threads.

mod atm_pair;
pub mod bundle;
pub mod check;
mod error;
pub mod experiment;
pub mod figure;
pub mod integrated;
pub mod live;
mod model;
pub mod papers;
pub mod result;
pub mod rpc;
pub mod run;
pub mod seen;
mod sunos;
mod vmtp_pair;
mod wire;
mod workload;

pub use error::{Error, Result};
