//! Pages for people that have no script and load nothing.
use super::{response_body::ResponseBody, response_writer::insert_own_type};
use http::{HeaderValue, Response, header};

/// For a `<style>` in the page.
pub(crate) const STYLE: &str = include_str!("html_page.css");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
/// The style above, and nothing else from anywhere.
const POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; sandbox");

pub(crate) fn html_page(html: String) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(html));
    insert_own_type(response.headers_mut(), HTML);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, POLICY);
    response
}
