//! `/metrics` and `/v1/stats`: the counters of every worker, summed.
use crate::{
    messages::{problem_json::Answer, response_body::ResponseBody, response_writer},
    routing::route_request::RouteRequest,
};
use http::{HeaderMap, HeaderValue, Response, header};
use larder_base::telemetry::{self, MetricsFormat, gzip};

/// `GET /metrics`: Prometheus text, or OpenMetrics for clients that prefer it; compressed for those
/// that accept it.
pub(crate) fn metrics(request: &RouteRequest<'_>) -> Answer {
    let asked = request.headers;
    let format = preferred_format(asked);
    let text = telemetry::prometheus_text(&request.worker.app.metrics(), format);
    let compressed = if accepts_gzip(asked) { gzip(text.as_bytes()) } else { None };
    let is_compressed = compressed.is_some();
    let mut response = Response::new(ResponseBody::full(compressed.unwrap_or_else(|| text.into_bytes())));
    let headers = response.headers_mut();
    let kind = match format {
        MetricsFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        MetricsFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::VARY, HeaderValue::from_static("accept, accept-encoding"));
    if is_compressed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(response)
}

/// `GET /v1/stats`: the same numbers as JSON.
pub(crate) fn stats(request: &RouteRequest<'_>) -> Answer {
    let json = telemetry::stats_json(&request.worker.app.metrics());
    response_writer::json_value(&json)
}

/// The members of a list of preferences (RFC 9110, section 12.4.2): name, parameters and weight.
fn preferences<'h>(
    asked: &'h HeaderMap,
    name: &header::HeaderName,
) -> impl Iterator<Item = (String, String, f32)> + 'h {
    let values = asked.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|member| {
        let member = member.to_ascii_lowercase().replace([' ', '\t'], "");
        let (name, parameters) = member.split_once(';').unwrap_or((&member, ""));
        let weight = parameters.split(';').find_map(|parameter| parameter.strip_prefix("q=")?.parse().ok());
        (name.to_owned(), parameters.to_owned(), weight.unwrap_or(1.0))
    })
}

fn preferred_format(asked: &HeaderMap) -> MetricsFormat {
    let (mut open, mut text) = (0.0f32, 0.0f32);
    for (name, parameters, weight) in preferences(asked, &header::ACCEPT) {
        let version = parameters.split(';').find_map(|parameter| parameter.strip_prefix("version="));
        match &*name {
            "application/openmetrics-text" if version.is_none_or(|version| version == "1.0.0") => {
                open = open.max(weight);
            }
            "text/plain" if version.is_none_or(|version| version == "0.0.4") => text = text.max(weight),
            _ => {}
        }
    }
    if open > 0.0 && open >= text { MetricsFormat::OpenMetrics } else { MetricsFormat::Prometheus }
}

fn accepts_gzip(asked: &HeaderMap) -> bool {
    preferences(asked, &header::ACCEPT_ENCODING).any(|(name, _, weight)| name == "gzip" && weight > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: header::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn the_format_is_the_preferred_one() {
        for (accept, is_open) in [
            ("*/*", false),
            ("text/plain", false),
            ("application/openmetrics-text", true),
            ("application/openmetrics-text; version=1.0.0; q=0.5, text/plain; version=0.0.4; q=0.4", true),
            ("application/openmetrics-text;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.4", false),
            ("application/openmetrics-text;version=0.0.1", false),
            ("application/openmetrics-text;q=0", false),
            // Prometheus 3.
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;\
                 version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;\
                 q=0.3,*/*;q=0.2",
                true,
            ),
        ] {
            let expected = if is_open { MetricsFormat::OpenMetrics } else { MetricsFormat::Prometheus };
            assert_eq!(preferred_format(&asked(header::ACCEPT, accept)), expected, "{accept}");
        }
        assert_eq!(preferred_format(&HeaderMap::new()), MetricsFormat::Prometheus);
    }

    #[test]
    fn it_is_compressed_for_those_who_accept_it() {
        for (accept, is_accepted) in
            [("gzip", true), ("deflate, GZIP;q=0.5", true), ("gzip;q=0", false), ("identity", false), ("br", false)]
        {
            assert_eq!(accepts_gzip(&asked(header::ACCEPT_ENCODING, accept)), is_accepted, "{accept}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
