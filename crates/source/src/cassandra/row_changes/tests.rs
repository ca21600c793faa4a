//! What is said about transactions that were not decided in time.
use super::*;
use crate::source_health::SourceHealth;
use larder_base::buffers::Buffers;
use larder_config::SourceUrl;
use scylla::errors::{BrokenConnectionErrorKind, DbError, WriteType};

fn settings() -> CassandraSettings {
    let Ok(SourceUrl::Cassandra(url)) = "cassandra://db/shop".parse() else { panic!("a URL") };
    CassandraSettings::new(&url, crate::SourceLimits::SMALLEST, SourceHealth::always_up(), Buffers::unbounded())
        .expect("settings")
}

#[test]
fn an_undecided_transaction_is_never_reported_as_what_it_was_not() {
    let settings = settings();
    let timeout = DbError::WriteTimeout {
        consistency: scylla::statement::Consistency::LocalQuorum,
        received: 1,
        required: 2,
        write_type: WriteType::Cas,
    };
    let error = ExecutionError::LastAttemptError(RequestAttemptError::DbError(timeout, "CAS timed out".to_owned()));
    let down = || Err(SourceError::Unavailable("down".into()));
    // Found by the read at serial consistency, our version, the version that was demanded.
    for (found, ours, demanded, expected) in [
        (Ok(Revision(Some(7))), Some(7), Some(3), "applied"),
        (Ok(Revision(Some(7))), Some(7), None, "applied"),
        (Ok(Revision(Some(3))), Some(7), Some(3), "nothing"),
        // Another write came since: after ours, or instead of it.
        (Ok(Revision(Some(9))), Some(7), Some(3), "lost"),
        (Ok(Revision(Some(9))), Some(7), None, "lost"),
        // It was never there, or has been deleted since.
        (Ok(Revision(None)), Some(7), None, "lost"),
        (Ok(Revision(None)), Some(7), Some(3), "lost"),
        // A delete leaves nothing that would tell whose it was.
        (Ok(Revision(None)), None, Some(3), "lost"),
        (Ok(Revision(Some(3))), None, Some(3), "nothing"),
        (Ok(Revision(Some(9))), None, Some(3), "lost"),
        (down(), Some(7), Some(3), "lost"),
        (down(), None, Some(3), "lost"),
    ] {
        let shown = format!("{found:?} {ours:?} {demanded:?}");
        let said = match decided(&settings, &error, found, ours, demanded) {
            Ok(true) => "applied",
            Err(SourceError::Unavailable(text)) if text.contains("nothing has changed") => "nothing",
            Err(SourceError::Lost(_)) => "lost",
            other => panic!("{shown}: {other:?}"),
        };
        assert_eq!(said, expected, "{shown}");
    }
}

#[test]
fn a_node_that_did_not_answer_may_go_on_after_the_read() {
    let settings = settings();
    let broken = RequestAttemptError::BrokenConnectionError(BrokenConnectionErrorKind::ChannelError.into());
    for error in
        [ExecutionError::RequestTimeout(std::time::Duration::from_secs(1)), ExecutionError::LastAttemptError(broken)]
    {
        let said = |found, ours| decided(&settings, &error, Ok(Revision(found)), ours, Some(3));
        assert!(matches!(said(Some(3), Some(7)), Err(SourceError::Lost(_))), "{error}");
        assert!(matches!(said(Some(3), None), Err(SourceError::Lost(_))), "{error}");
        assert_eq!(said(Some(7), Some(7)), Ok(true), "{error}");
    }
}
