//! What a browser shows at `GET /` of the HTTP listener, where clients of another server read keys
//! (`/?key=`): links, instead of a complaint about the parameter.
use crate::{
    messages::{
        html_page::{STYLE, html_page},
        response_body::ResponseBody,
    },
    routing::route_request::RouteRequest,
};
use http::{HeaderMap, HeaderValue, Response, header};
use larder_config::Address;

const TYPE: &[u8] = b"text/html";

/// Whether the request may be one of a browser: its head names the type of pages. Says so too often
/// where another header names it.
pub(crate) fn may_be_wanted(head: &[u8]) -> bool {
    head.windows(TYPE.len()).any(|part| part == TYPE)
}

/// Whether the client takes pages.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT).iter().any(|accepted| may_be_wanted(accepted.as_bytes()))
}

/// The page. It names the admin listener only to those who are on the same machine as that.
pub(crate) fn page(request: &RouteRequest<'_>) -> Response<ResponseBody> {
    let app = &request.worker.app;
    let console = match &app.bound.admin {
        Some(Address::Ip(admin)) if admin.ip().is_loopback() => {
            let scheme = if app.settings.admin_tls { "https" } else { "http" };
            let url = format!("{scheme}://localhost:{}/", admin.port());
            format!("<a href=\"{url}\">{url}</a>, on the machine that Larder runs on")
        }
        Some(_) => "at the address of the admin listener".to_owned(),
        None => "not served: there is no admin listener".to_owned(),
    };
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Larder</title><style>{STYLE}</style><h1>Larder</h1><p>This is the HTTP listener of a Larder, a read-through cache.</p>\
         <ul><li>Routes: <a href=\"docs\">docs</a>, for programs <a href=\"openapi.json\">openapi.json</a>\
         <li>A key: <code>/v1/kv/KEY</code>\
         <li>Numbers: <a href=\"v1/stats\">v1/stats</a>, for Prometheus <a href=\"metrics\">metrics</a>\
         <li>Health: <a href=\"readyz\">readyz</a>\
         <li>Console: {console}</ul>"
    );
    let mut response = html_page(html);
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    response
}
