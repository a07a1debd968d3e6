//! The server of the page, on loopback, in threads of its own.

use std::net::TcpListener;
use std::sync::{Arc, PoisonError, RwLock};

use sockscope_program::failure::Failure;
use sockscope_record::FlowId;
use sockscope_view::page::Trace;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use super::guard::Guard;
use super::laboratory::Laboratory;
use super::routes;
use super::shared::Shared;
use super::token::Token;

/// Threads that take requests; their work is done by others.
const THREADS: usize = 2;

/// A running server.
pub struct Server {
    runtime: Runtime,
    guard: Arc<Guard>,
    shared: Arc<Shared>,
}

impl Server {
    /// Serves these traces from now on.
    pub fn start(listener: TcpListener, traces: Vec<Trace>) -> Result<Self, Failure> {
        let cannot = |error| Failure::new(format!("cannot serve the page: {error}"));
        let port = listener.local_addr().map_err(cannot)?.port();
        let guard = Arc::new(Guard::new(Token::new()?, port));
        let shared = Arc::new(Shared {
            traces: traces.into_iter().map(RwLock::new).collect(),
            refreshed: watch::channel(0).0,
            laboratory: Laboratory::new()?,
        });
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let runtime = runtime.map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let routes = routes::all(Arc::clone(&guard), Arc::clone(&shared));
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(cannot)?
        };
        runtime.spawn(async move { axum::serve(listener, routes).await });
        Ok(Self { runtime, guard, shared })
    }

    /// The address of the page, with its token.
    pub fn address(&self) -> String {
        self.guard.address()
    }

    /// Makes the curves of the first connection of each trace before they are asked for.
    pub fn prepare(&self) {
        for index in 0..self.shared.traces.len() {
            let shared = Arc::clone(&self.shared);
            self.runtime.spawn_blocking(move || {
                let trace = shared.traces[index].read().unwrap_or_else(PoisonError::into_inner);
                if let Some(flow) = first_shown(&trace) {
                    trace.prepare(flow);
                }
            });
        }
    }

    /// Changes the first trace, and says so to the pages.
    pub fn refresh(&self, change: impl FnOnce(&mut Trace)) {
        if let Some(trace) = self.shared.traces.first() {
            change(&mut trace.write().unwrap_or_else(PoisonError::into_inner));
        }
        self.shared.refreshed.send_modify(|number| *number += 1);
    }

    /// Reads the first trace.
    pub fn records(&self) -> usize {
        let first = self.shared.traces.first();
        first.map_or(0, |trace| trace.read().unwrap_or_else(PoisonError::into_inner).records())
    }

    /// Ends it at once: pages that wait for news would keep it.
    pub fn end(self) {
        self.shared.laboratory.end();
        self.runtime.shutdown_background();
    }
}

/// The flow of the finding that costs most, else the one with most bytes.
fn first_shown(trace: &Trace) -> Option<FlowId> {
    let connections = &trace.analysis().connections;
    let findings = connections.iter().flat_map(|one| &one.findings);
    let worst = findings.max_by_key(|finding| finding.cost_ns).map(|finding| finding.flow);
    let flows = connections.iter().flat_map(|one| &one.flows);
    worst.or_else(|| flows.max_by_key(|flow| flow.bytes).map(|flow| flow.id))
}
