//! `GET /` of the HTTP listener without a key, where clients of another server read keys (`/?key=`):
//! what this is and what to try, as a page for browsers, and as text below the complaint for others.
use crate::{
    messages::{
        html_page::{STYLE, html_page},
        problem_json::Problem,
        response_body::ResponseBody,
        response_writer::text,
    },
    routing::route_request::RouteRequest,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use larder_config::Address;

const WHAT: &str = "This is the HTTP listener of a Larder, a read-through cache.";

pub(crate) fn start_page(request: &RouteRequest<'_>) -> Response<ResponseBody> {
    let (url, place) = console(request);
    let mut response = match takes_pages(request.headers) {
        true => html_page(format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
             <title>Larder</title><style>{STYLE}</style><h1>Larder</h1><p>{WHAT}</p>\
             <ul><li>Routes: <a href=\"docs\">docs</a>, for programs <a href=\"openapi.json\">openapi.json</a>\
             <li>A key: <code>/v1/kv/KEY</code>\
             <li>Numbers: <a href=\"v1/stats\">v1/stats</a>, for Prometheus <a href=\"metrics\">metrics</a>\
             <li>Health: <a href=\"readyz\">readyz</a>\
             <li>Console: {}{place}</ul>",
            url.map(|url| format!("<a href=\"{url}\">{url}</a>")).unwrap_or_default(),
        )),
        // Clients of the other server count on the status.
        false => text(
            StatusCode::BAD_REQUEST,
            &format!(
                "{}\n\n{WHAT}\n\
                 A key:    /v1/kv/KEY\n\
                 Numbers:  /v1/stats, for Prometheus /metrics\n\
                 Health:   /readyz\n\
                 Routes:   /docs, for programs /openapi.json\n\
                 Console:  {}{place}\n",
                Problem::missing_key("key").sentence(),
                url.unwrap_or_default(),
            ),
        ),
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    response
}

fn takes_pages(headers: &HeaderMap) -> bool {
    let names_pages = |accepted: &HeaderValue| accepted.as_bytes().windows(9).any(|part| part == b"text/html");
    headers.get_all(header::ACCEPT).iter().any(names_pages)
}

/// The URL of the console if it is on loopback, and words about its place. Strangers reach this
/// listener, and are not told another address.
fn console(request: &RouteRequest<'_>) -> (Option<String>, &'static str) {
    let app = &request.worker.app;
    match &app.bound.admin {
        Some(Address::Ip(admin)) if admin.ip().is_loopback() => {
            let scheme = if app.settings.admin_tls { "https" } else { "http" };
            (Some(format!("{scheme}://localhost:{}/", admin.port())), ", on the machine that Larder runs on")
        }
        Some(_) => (None, "at the address of the admin listener"),
        None => (None, "not served: there is no admin listener"),
    }
}
