//! The server of the metrics, in a thread of its own.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use sockscope_program::failure::Failure;
use sockscope_watch::Metrics;
use tokio::runtime::{Builder, Runtime};

/// The type of OpenMetrics 1.0.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The type of the older text form.
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the server shows, and what it was asked for.
#[derive(Debug, Default)]
pub struct Shared {
    pub metrics: Mutex<Metrics>,
    /// To keep the last seconds.
    pub keep: AtomicBool,
}

/// A running server.
pub struct Server {
    _runtime: Runtime,
    pub address: SocketAddr,
}

impl Server {
    /// Listens from now on.
    pub fn start(address: SocketAddr, shared: Arc<Shared>) -> Result<Self, Failure> {
        let cannot = |error| Failure::new(format!("--listen {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let bound = listener.local_addr().map_err(cannot)?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(cannot)?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(cannot)?
        };
        let routes = Router::new()
            .route("/metrics", get(metrics))
            .route("/keep", post(keep))
            .route("/healthz", get(|| async { "ok\n" }))
            .with_state(shared);
        runtime.spawn(async move { axum::serve(listener, routes).await });
        Ok(Self { _runtime: runtime, address: bound })
    }
}

/// OpenMetrics for those that ask for it, as Prometheus does. A program that does not may know the older form alone.
async fn metrics(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let accepted = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let metrics = shared.metrics.lock().unwrap_or_else(PoisonError::into_inner);
    if accepted.into_iter().any(|types| types.contains("application/openmetrics-text")) {
        ([(CONTENT_TYPE, OPEN_METRICS)], metrics.text()).into_response()
    } else {
        ([(CONTENT_TYPE, PLAIN)], metrics.plain_text()).into_response()
    }
}

/// A page of another site that a browser shows here may send a request, and then has an origin.
async fn keep(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    if headers.contains_key(ORIGIN) {
        return (StatusCode::FORBIDDEN, "not from a page of a browser\n").into_response();
    }
    shared.keep.store(true, Ordering::Relaxed);
    (StatusCode::ACCEPTED, "the last seconds are kept\n").into_response()
}
