//! The addresses of the server. An error is one line of JSON.

use std::convert::Infallible;
use std::sync::{Arc, PoisonError};

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::Stream;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sockscope_view::page::{
    self, Answer, ByteAsked, FigureAsked, ListAsked, PartAsked, Refused, Trace,
};

use super::guard::{Guard, check, refused};
use super::laboratory::LabAsked;
use super::shared::Shared;

/// All routes, behind the guard.
pub fn all(guard: Arc<Guard>, shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(|| async { file("page.html") }))
        .route("/assets/{name}", get(|Path(name): Path<String>| async move { file(&name) }))
        .route("/api/places", get(|| async { body(page::places()) }))
        .route("/api/traces", get(traces))
        .route("/api/overview", get(overview))
        .route("/api/connection", get(connection))
        .route("/api/report", get(report))
        .route("/api/curves", get(curves))
        .route("/api/ledger", get(ledger))
        .route("/api/marks", get(marks))
        .route("/api/records", get(records))
        .route("/api/byte", get(byte))
        .route("/api/compare", get(compare))
        .route("/api/events", get(events))
        .route("/api/laboratory", get(experiments))
        .route("/api/laboratory/{id}", post(start_experiment).get(experiment))
        .route("/api/laboratory/{id}/{figure}", get(experiment_figure))
        .fallback(|| async { refused(StatusCode::NOT_FOUND, "there is no such page") })
        .layer(from_fn_with_state(guard, check))
        .with_state(shared)
}

/// The trace that a question is about: the first one where it names none.
#[derive(Deserialize)]
struct OfTrace {
    #[serde(default)]
    trace: usize,
}

/// One connection.
#[derive(Deserialize)]
struct ConnectionAsked {
    id: u32,
}

fn file(name: &str) -> Response {
    match page::asset(name) {
        Some(file) => ([(header::CONTENT_TYPE, file.media_type)], file.bytes).into_response(),
        None => refused(StatusCode::NOT_FOUND, &format!("there is no file {name}")),
    }
}

fn body(answer: Answer) -> Response {
    let media_type = match &answer {
        Answer::Json(_) => "application/json",
        Answer::Floats(_) => "application/octet-stream",
    };
    let (Answer::Json(bytes) | Answer::Floats(bytes)) = answer;
    ([(header::CONTENT_TYPE, media_type)], bytes).into_response()
}

fn of_refused(error: &Refused) -> Response {
    let status = match error {
        Refused::Wrong(_) => StatusCode::BAD_REQUEST,
        Refused::Absent(_) => StatusCode::NOT_FOUND,
    };
    refused(status, &error.to_string())
}

/// The fields of a query.
fn asked<T: DeserializeOwned>(uri: &Uri) -> Result<T, Box<Response>> {
    match Query::try_from_uri(uri) {
        Ok(Query(asked)) => Ok(asked),
        Err(error) => Err(Box::new(refused(StatusCode::BAD_REQUEST, &error.body_text()))),
    }
}

/// Answers from the trace that the query names, on a thread that may take its time.
async fn answer<T: DeserializeOwned + Send + 'static>(
    shared: Arc<Shared>,
    uri: Uri,
    of: impl FnOnce(&Trace, T) -> Result<Answer, Refused> + Send + 'static,
) -> Response {
    let (of_trace, question) = match (asked::<OfTrace>(&uri), asked::<T>(&uri)) {
        (Ok(of_trace), Ok(question)) => (of_trace, question),
        (Err(error), _) | (_, Err(error)) => return *error,
    };
    blocking(move || match shared.traces.get(of_trace.trace) {
        None => refused(StatusCode::NOT_FOUND, &format!("there is no trace {}", of_trace.trace)),
        Some(trace) => {
            let trace = trace.read().unwrap_or_else(PoisonError::into_inner);
            of(&trace, question).map_or_else(|error| of_refused(&error), body)
        }
    })
    .await
}

async fn blocking(work: impl FnOnce() -> Response + Send + 'static) -> Response {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| {
        refused(StatusCode::INTERNAL_SERVER_ERROR, "the answer failed: see the terminal")
    })
}

type OfShared = State<Arc<Shared>>;

async fn traces(State(shared): OfShared) -> Response {
    let name = |trace: &std::sync::RwLock<Trace>| {
        let trace = trace.read().unwrap_or_else(PoisonError::into_inner);
        serde_json::json!({ "name": trace.name(), "is_running": trace.is_running() })
    };
    let names: Vec<_> = shared.traces.iter().map(name).collect();
    body(Answer::Json(serde_json::json!({ "traces": names }).to_string().into_bytes()))
}

async fn overview(State(shared): OfShared, uri: Uri) -> Response {
    answer(shared, uri, |trace, asked: ListAsked| Ok(page::overview(trace, &asked))).await
}

async fn connection(State(shared): OfShared, uri: Uri) -> Response {
    answer(shared, uri, |trace, asked: ConnectionAsked| page::connection(trace, asked.id)).await
}

async fn report(State(shared): OfShared, uri: Uri) -> Response {
    answer(shared, uri, |trace, asked: ConnectionAsked| page::report(trace, asked.id)).await
}

async fn curves(State(shared): OfShared, uri: Uri) -> Response {
    answer(shared, uri, |trace, asked: FigureAsked| page::curves(trace, &asked)).await
}

async fn ledger(State(shared): OfShared, uri: Uri) -> Response {
    answer(shared, uri, |trace, asked: FigureAsked| page::ledger(trace, &asked)).await
}

async fn marks(State(shared): OfShared, uri: Uri) -> Response {
    answer(shared, uri, |trace, asked: PartAsked| page::marks(trace, &asked)).await
}

async fn records(State(shared): OfShared, uri: Uri) -> Response {
    answer(shared, uri, |trace, asked: PartAsked| page::records(trace, &asked)).await
}

async fn byte(State(shared): OfShared, uri: Uri) -> Response {
    answer(shared, uri, |trace, asked: ByteAsked| page::byte(trace, asked)).await
}

async fn compare(State(shared): OfShared) -> Response {
    blocking(move || {
        let held = shared.traces.iter();
        let held: Vec<_> =
            held.map(|trace| trace.read().unwrap_or_else(PoisonError::into_inner)).collect();
        let traces: Vec<&Trace> = held.iter().map(|trace| &**trace).collect();
        page::compare(&traces).map_or_else(|error| of_refused(&error), body)
    })
    .await
}

/// The number of each refresh, as it is made.
async fn events(State(shared): OfShared) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let refreshed = shared.refreshed.subscribe();
    let stream = futures_util::stream::unfold(refreshed, |mut refreshed| async move {
        refreshed.changed().await.ok()?;
        let number = *refreshed.borrow_and_update();
        Some((Ok(Event::default().data(number.to_string())), refreshed))
    });
    Sse::new(stream).keep_alive(KeepAlive::default())
}

async fn experiments(State(shared): OfShared) -> Response {
    json(shared.laboratory.list())
}

async fn start_experiment(State(shared): OfShared, Path(id): Path<String>, uri: Uri) -> Response {
    match asked::<LabAsked>(&uri) {
        Ok(asked) => blocking(move || json(shared.laboratory.start(&id, asked))).await,
        Err(error) => *error,
    }
}

async fn experiment(State(shared): OfShared, Path(id): Path<String>, uri: Uri) -> Response {
    match asked::<LabAsked>(&uri) {
        Ok(asked) => blocking(move || json(shared.laboratory.state(&id, asked))).await,
        Err(error) => *error,
    }
}

async fn experiment_figure(
    State(shared): OfShared,
    Path((id, figure)): Path<(String, String)>,
    uri: Uri,
) -> Response {
    match asked::<LabAsked>(&uri) {
        Err(error) => *error,
        Ok(asked) => {
            blocking(move || match shared.laboratory.figure(&id, asked, &figure) {
                Ok(svg) => ([(header::CONTENT_TYPE, "image/svg+xml")], svg).into_response(),
                Err(error) => of_refused(&error),
            })
            .await
        }
    }
}

fn json(value: Result<serde_json::Value, Refused>) -> Response {
    match value {
        Ok(value) => body(Answer::Json(value.to_string().into_bytes())),
        Err(error) => of_refused(&error),
    }
}
