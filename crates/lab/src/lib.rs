//! Experiments of classic papers run on the model.
//!
//! An [`Experiment`](sockscope_experiment::Experiment) defines runs, parameters and records; a run gives
//! a [`RunResult`](sockscope_experiment::result::RunResult). Times are nanoseconds of the model's clock,
//! sizes octets. Results depend on the experiment and its seed alone, not on the number of threads.
//!
//! The parts in their order, each using only those above it:
//!
//! | part | contents |
//! |---|---|
//! | `workload` | the programs, as processes of the model |
//! | `model`, `atm_pair`, `vmtp_pair` | one run of one case, and the results of its records |
//! | `run` | all runs of an experiment |
//! | `bundle`, `figure` | traces and charts made of that |
//! | `pattern_file`, `pattern_change` | what programs did with their sockets, as a file, and a change to it |
//! | `replay` | these calls made again on modelled hosts |
//! | `fleet` | a spool of many modelled hosts, and the truth about it |
//! | `comparison` | the same experiment on the model and on a kernel |

mod atm_pair;
pub mod bundle;
mod cache_interface;
pub mod capture;
pub mod comparison;
pub mod figure;
pub mod fleet;
mod link_faults;
pub mod model;
pub mod pattern_change;
pub mod pattern_file;
pub mod replay;
pub mod run;
mod vmtp_pair;
mod wire;
mod workload;
