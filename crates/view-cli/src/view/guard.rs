//! What every request must have: this server's name as its host, and the token.
//!
//! A name of another site may lead to this address (DNS rebinding); then its page would be of one origin with this
//! server. Such a request names the other site in its Host field, and is refused before anything else.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::token::Token;

/// The name of the token in a query.
const QUERY: &str = "token";

/// Fields of every answer. Nothing is kept, nothing is loaded from elsewhere, no other page shows it in a frame.
const FIELDS: [(HeaderName, HeaderValue); 6] = [
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
        ),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// The names by which this server is asked, and its token.
pub struct Guard {
    token: Token,
    port: u16,
}

impl Guard {
    pub fn new(token: Token, port: u16) -> Self {
        Self { token, port }
    }

    /// The address of the page.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?{QUERY}={}", self.port, self.token.digits())
    }

    /// Cookies are of a host, whatever its port: another view has another name.
    fn cookie(&self) -> String {
        format!("sockscope-{}", self.port)
    }

    fn is_own_host(&self, headers: &HeaderMap, uri: &Uri) -> bool {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let own = |host: &str| {
            ["127.0.0.1", "localhost"].iter().any(|name| host == format!("{name}:{}", self.port))
        };
        // A target may name a host itself, which then counts (RFC 9112 §3.2.2).
        host.to_str().is_ok_and(own) && uri.authority().is_none_or(|host| own(host.as_str()))
    }

    /// A change must be asked for by the page itself: cookies go to this host from pages of its other ports too.
    fn is_own_origin(&self, headers: &HeaderMap) -> bool {
        headers.get(header::ORIGIN).is_some_and(|origin| {
            let own = |name: &&str| {
                origin.as_bytes() == format!("http://{name}:{}", self.port).as_bytes()
            };
            ["127.0.0.1", "localhost"].iter().any(own)
        })
    }

    fn has_token_in_query(&self, uri: &Uri) -> bool {
        let fields = uri.query().unwrap_or_default().split('&');
        let mut given = fields.filter_map(|field| field.strip_prefix(QUERY)?.strip_prefix('='));
        given.any(|given| self.token.is(given))
    }

    fn has_token_in_cookie(&self, headers: &HeaderMap) -> bool {
        let name = self.cookie();
        let fields = headers.get_all(header::COOKIE).iter().filter_map(|field| field.to_str().ok());
        let mut cookies = fields.flat_map(|field| field.split(';')).map(str::trim);
        cookies.any(|cookie| {
            cookie
                .split_once('=')
                .is_some_and(|(found, given)| found == name && self.token.is(given))
        })
    }
}

/// Lets a request through, or refuses it.
pub async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let (headers, uri) = (request.headers(), request.uri());
    let mut answer = if !guard.is_own_host(headers, uri) {
        refused(
            StatusCode::MISDIRECTED_REQUEST,
            "this server has no such host: use the address that it printed",
        )
    } else if guard.has_token_in_query(uri) {
        let is_safe = request.method() == Method::GET || guard.is_own_origin(headers);
        if is_safe {
            with_cookie(&guard, next.run(request).await)
        } else {
            refused(StatusCode::FORBIDDEN, "only the page may ask for this")
        }
    } else if !guard.has_token_in_cookie(headers) {
        refused(StatusCode::FORBIDDEN, "no token: use the address that the command printed")
    } else if request.method() != Method::GET && !guard.is_own_origin(headers) {
        refused(StatusCode::FORBIDDEN, "only the page may ask for this")
    } else {
        next.run(request).await
    };
    for (name, value) in FIELDS {
        answer.headers_mut().insert(name, value);
    }
    answer
}

fn with_cookie(guard: &Guard, mut answer: Response) -> Response {
    let cookie =
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", guard.cookie(), guard.token.digits());
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    answer
}

/// An error as one line of JSON.
pub fn refused(status: StatusCode, line: &str) -> Response {
    let json = serde_json::json!({ "error": line }).to_string() + "\n";
    (status, [(header::CONTENT_TYPE, "application/json")], json).into_response()
}
