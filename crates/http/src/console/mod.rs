//! The console: a page on the admin listener for the person on call. Static files, embedded in the
//! binary; the page gets everything else from the routes that programs use as well.
//!
//! Invariants:
//! - The page loads nothing from other hosts, and no script or style stands in the HTML
//!   ([`POLICY`]).
//! - What comes from a server (keys, values, names) is put into the page as text, never as HTML.
use crate::{
    messages::{
        problem_json::{Answer, Problem},
        response_body::ResponseBody,
        response_writer::insert_own_type,
    },
    routing::route_request::RouteRequest,
};
use http::{HeaderName, HeaderValue, Response, StatusCode, header};

struct ConsoleFile {
    name: &'static str,
    kind: HeaderValue,
    content: &'static [u8],
}

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const CSS: HeaderValue = HeaderValue::from_static("text/css; charset=utf-8");
const JS: HeaderValue = HeaderValue::from_static("text/javascript; charset=utf-8");
const SVG: HeaderValue = HeaderValue::from_static("image/svg+xml");

macro_rules! file {
    ($name:literal, $kind:ident) => {
        ConsoleFile { name: $name, kind: $kind, content: include_bytes!($name) }
    };
}

static PAGE: ConsoleFile = file!("index.html", HTML);
static FILES: [ConsoleFile; 14] = [
    file!("console.css", CSS),
    file!("icon.svg", SVG),
    file!("main.js", JS),
    file!("server.js", JS),
    file!("samples.js", JS),
    file!("charts.js", JS),
    file!("elements.js", JS),
    file!("command_times.js", JS),
    file!("overview.js", JS),
    file!("tables.js", JS),
    file!("keys.js", JS),
    file!("what_if.js", JS),
    file!("values.js", JS),
    file!("prefixes.js", JS),
];

/// Only files of this page, and only within a page of this server.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);
const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");
/// Asked for again each time, and answered with 304: another version may run at the same address.
const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");
const REFERRER_POLICY: HeaderName = HeaderName::from_static("referrer-policy");

/// `GET /` of the admin listener.
pub(super) fn page(request: &RouteRequest<'_>) -> Answer {
    Ok(answer(request, &PAGE))
}

/// `GET /console/{name}`
pub(super) fn file(request: &RouteRequest<'_>) -> Answer {
    let name = String::from_utf8_lossy(request.key);
    let file = FILES.iter().find(|file| file.name == name);
    file.map(|file| answer(request, file)).ok_or_else(|| Problem::no_such_route(&format!("/console/{name}")))
}

fn answer(request: &RouteRequest<'_>, file: &ConsoleFile) -> Response<ResponseBody> {
    // Drawn at start: a restart may bring other files.
    let tag = HeaderValue::from_str(&format!("\"{:016x}\"", request.worker.app.instance));
    let tag = tag.expect("hexadecimal digits are a header's value");
    let is_known = request.headers.get(header::IF_NONE_MATCH).is_some_and(|known| known == tag);
    let mut response = Response::new(match is_known {
        true => ResponseBody::empty(),
        false => ResponseBody::full(file.content),
    });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    insert_own_type(headers, file.kind.clone());
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(REFERRER_POLICY, NO_REFERRER);
    headers.insert(header::CACHE_CONTROL, REVALIDATE);
    headers.insert(header::ETAG, tag);
    response
}

/// The names of all files below `/console/`.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|file| file.name)
}
