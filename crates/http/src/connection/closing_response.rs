//! The last response on a connection that Larder ends: a slow head, or more in its buffers than
//! there is room for.
use crate::messages::{
    problem_json::{Problem, ProblemKind},
    response_body::ResponseBody,
    response_writer::write_whole,
};
use http::{HeaderValue, Response, header};
use larder_base::{
    lifecycle::{drain_phase::Drain, linger::linger},
    tls::ClientStream,
};
use larder_proto::{http::text::Date, output::Output};
use larder_store::clock;
use larder_units::show_duration;
use std::{io::IoSlice, net::IpAddr, time::Duration};

/// How long a client may go on sending after Larder has ended a connection, before it is cut off.
pub(crate) const LINGER: Duration = Duration::from_millis(500);

/// Ends a connection with this answer to what its client has begun to send.
pub(crate) async fn end_with(stream: &mut impl ClientStream, drain: &Drain, response: Response<ResponseBody>) {
    let mut output = Output::default();
    let date = *Date::default().at(clock::now());
    write_whole(&mut output, response, &date);
    let mut slices = [IoSlice::new(&[]); 2];
    let used = output.io_slices(&mut slices);
    // A socket without room for this much belongs to a client that does not read.
    if stream.try_write_vectored(&slices[..used]).is_ok() {
        linger(stream, drain, LINGER).await;
    }
}

/// The connection is closed because it held the most when all buffers together reached
/// `max-buffers`.
pub(crate) fn buffers_exceeded(limit: usize) -> Response<ResponseBody> {
    closing(Problem::buffers_full("the connection held the most", limit))
}

/// A client did not finish a request's head within this time.
pub(crate) fn head_timeout(limit: Duration) -> Response<ResponseBody> {
    let limit = show_duration(limit);
    let detail = format!("the head was not complete after {limit} (setting `header-timeout`)");
    closing(Problem::of(ProblemKind::HeadTimeout, detail))
}

/// The connection begins with a header of the PROXY protocol, from an address that is not to send
/// one.
pub(crate) fn proxy_header(is_trusted: bool, peer: IpAddr) -> Response<ResponseBody> {
    let detail = match is_trusted {
        true => "`proxy-protocol` is `off` for this listener".to_owned(),
        false => format!("{peer} is not one of `trusted-proxies`"),
    };
    closing(Problem::of(ProblemKind::ProxyHeader, detail))
}

fn closing(problem: Problem) -> Response<ResponseBody> {
    let mut response = problem.into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
