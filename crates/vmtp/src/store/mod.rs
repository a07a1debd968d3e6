//! A storage server: pages of 16 KiB of the files below one folder, read and written by transactions.
//!
//! - [`StoreRequest`] and [`Answer`]: the contents of a Request and its Response;
//! - [`Store`]: carries requests out, without a network;
//! - [`serve`]: a store behind a [`Service`](crate::driver::Service);
//! - [`StoreClient`]: sends requests, repeats them after a restart of the server, copies files.
//!
//! A client begins a session and numbers its changes. The store writes each change, its number and its
//! outcome into a journal before anything else happens to a file. So a change is done once and
//! answered alike, even if a repeated Request or an old packet asks again, before or after a restart.
//! A page is written whole or not at all, and one sync of the journal makes all changes before it
//! durable. Units are octets; pages count from 0.

mod client;
mod dedup_state;
mod folder;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod journal;
mod request_codec;
mod server;
mod sessions;

pub use client::{ClientError, FileInfo, StoreClient};
pub use request_codec::{
    Answer, Creation, Operation, PAGE_BYTES, PAGES_MAX, Refusal, StoreRequest,
};
pub use server::{Reply, Store, serve};

use std::io;

/// A store cannot continue. All answered changes are in its journal: it can be opened again.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// The failed operation.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// Another server has the folder.
    #[error("{0}: another server has this folder")]
    Locked(String),
    /// The journal's first part, which is written in one step, is not whole.
    #[error("the journal is damaged at octet {0}: expected a whole record")]
    Damaged(usize),
}

impl StoreError {
    fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}
