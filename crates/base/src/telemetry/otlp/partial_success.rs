//! What a collector says about a message that it has taken.
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message as _;

/// Characters of a reason that are kept.
const LONGEST_REASON: usize = 500;

/// The collector has left out a part of the message, or warns about it.
#[derive(Debug, PartialEq, Eq)]
pub struct PartialSuccess {
    /// Data points or spans that are left out. 0: it is only a warning.
    pub rejected: i64,
    /// Its beginning.
    pub reason: String,
}

/// What the answer says besides that the message was taken, if anything. An answer that is no such
/// message says nothing: some collectors answer with text.
pub fn partial_success(answer: &[u8]) -> Option<PartialSuccess> {
    // The answers to metrics and to spans have the same fields with the same numbers.
    let said = ExportMetricsServiceResponse::decode(answer).ok()?.partial_success?;
    let (rejected, reason) = (said.rejected_data_points, said.error_message);
    let says_something = rejected != 0 || !reason.is_empty();
    says_something.then(|| PartialSuccess { rejected, reason: reason.chars().take(LONGEST_REASON).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::collector::{
        metrics::v1::ExportMetricsPartialSuccess,
        trace::v1::{ExportTracePartialSuccess, ExportTraceServiceResponse},
    };

    fn of_metrics(rejected_data_points: i64, error_message: &str) -> Vec<u8> {
        let said = ExportMetricsPartialSuccess { rejected_data_points, error_message: error_message.to_owned() };
        ExportMetricsServiceResponse { partial_success: Some(said) }.encode_to_vec()
    }

    #[test]
    fn only_what_is_left_out_or_warned_about_counts() {
        let said = |rejected, reason: &str| Some(PartialSuccess { rejected, reason: reason.to_owned() });
        assert_eq!(partial_success(&of_metrics(3, "too old")), said(3, "too old"));
        assert_eq!(partial_success(&of_metrics(0, "soon")), said(0, "soon"));
        assert_eq!(partial_success(&of_metrics(1, &"ä".repeat(900))), said(1, &"ä".repeat(500)));
        for nothing in [of_metrics(0, ""), Vec::new(), b"{}".to_vec(), b"taken".to_vec()] {
            assert_eq!(partial_success(&nothing), None, "{nothing:?}");
        }
        let spans = ExportTracePartialSuccess { rejected_spans: 2, error_message: "no".to_owned() };
        let answer = ExportTraceServiceResponse { partial_success: Some(spans) };
        assert_eq!(partial_success(&answer.encode_to_vec()), said(2, "no"));
    }
}
