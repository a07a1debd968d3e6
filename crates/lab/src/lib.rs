//! Experiments of classic papers as files, run on the model, and their claims checked.

pub mod rpc;
