//! Scans of the table, in the order of the tokens: pages of the driver, whose state is the cursor.
use super::{cassandra_settings::CassandraSettings, cluster_session::ClusterSession};
use crate::{
    local_store::{Page, Scan, is_within},
    source_error::SourceError,
};
use bytes::Bytes;
use larder_store::{StoredValue, clock};
use scylla::response::{PagingState, PagingStateResponse};
use std::ops::Bound;

/// Clients do not make up keys that begin like this.
const MARK: &[u8] = b"\0ccql\xff";
/// Rows of one page of the driver: of keys, and of values, which may be long.
const KEYS: usize = 4096;
const ENTRIES: usize = 64;
/// Rows that a page reads at most, within the bounds or not.
const MOST: usize = 10_000;
/// Keys from which the number of all is estimated.
const SAMPLE: i32 = 4096;

/// One page of a scan.
pub(super) async fn page(
    settings: &CassandraSettings,
    session: &ClusterSession,
    scan: Scan,
) -> Result<Page, SourceError> {
    let begin = if scan.reverse { &scan.end } else { &scan.start };
    let cursor = match begin {
        Bound::Excluded(cursor) => cursor.strip_prefix(MARK),
        _ => None,
    };
    let mut state = match cursor {
        Some(state) => PagingState::new_from_raw_bytes(state),
        None => PagingState::start(),
    };
    // A cursor is no key, so only the other bound limits the keys.
    let begin = if cursor.is_some() { &Bound::Unbounded } else { begin };
    let (low, high) = if scan.reverse { (&scan.start, begin) } else { (begin, &scan.end) };
    let (statement, most) = if scan.keys_only { (&session.keys, KEYS) } else { (&session.entries, ENTRIES) };
    let mut statement = statement.clone();
    statement.set_request_timeout(Some(settings.limits.slow_timeout));
    let (mut page, mut bytes, mut seen, now) = (Page::default(), 0, 0, clock::now());
    let unreadable = |error: &dyn std::fmt::Display| settings.refused(error);
    loop {
        let rows = (scan.limit - page.entries.len()).clamp(1, most);
        statement.set_page_size(i32::try_from(rows).unwrap_or(i32::MAX));
        let answer = session.session.execute_single_page(&statement, (), state).await;
        let (result, next) = answer.map_err(|error| settings.read_error(&error))?;
        let rows = result.into_rows_result().map_err(|error| unreadable(&error))?;
        seen += rows.rows_num().max(1);
        let mut foreign = 0;
        let mut take = |key: &[u8], entry: Option<StoredValue>| {
            let key = session.columns.key_of(key);
            let Some(entry) = entry.filter(|entry| entry.expiry.is_none_or(|at| at > now)) else { return };
            if is_within(low, high, key) {
                bytes += key.len() + entry.value.len();
                page.entries.push((Bytes::copy_from_slice(key), entry));
            }
        };
        if scan.keys_only {
            for row in rows.rows::<(&[u8], Option<i64>)>().map_err(|error| unreadable(&error))? {
                let (key, beside) = row.map_err(|error| unreadable(&error))?;
                let kind = session.columns.kind_of(beside);
                take(key, kind.map(|kind| StoredValue { value: Bytes::new(), expiry: None, kind }));
            }
        } else {
            for row in rows.rows::<(&[u8], Option<Bytes>, Option<i64>)>().map_err(|error| unreadable(&error))? {
                let (key, value, beside) = row.map_err(|error| unreadable(&error))?;
                // The page is sent on in its own time, and the driver's frame is as long as all of it.
                let Some(value) = value.map(|value| Bytes::copy_from_slice(&value)) else { continue };
                let entry = session.columns.entry(value, beside, now);
                foreign += u64::from(entry.is_none());
                take(key, entry);
            }
        }
        page.unreadable += foreign;
        match next {
            PagingStateResponse::NoMorePages => return Ok(page),
            PagingStateResponse::HasMorePages { state: next } => {
                if page.entries.len() >= scan.limit || bytes >= scan.max_bytes || seen >= MOST {
                    let raw = next.as_bytes_slice().map(|raw| &raw[..]).unwrap_or_default();
                    page.next = Some([MARK, raw].concat().into());
                    return Ok(page);
                }
                state = next;
            }
        }
    }
}

/// About how many rows there are: exact for few, else from the part of the ring in which the first
/// ones lie.
pub(super) async fn count(settings: &CassandraSettings, session: &ClusterSession) -> Result<u64, SourceError> {
    let mut statement = session.tokens.clone();
    statement.set_page_size(SAMPLE);
    statement.set_request_timeout(Some(settings.limits.slow_timeout));
    let (mut state, mut found, mut last) = (PagingState::start(), 0_u64, i64::MIN);
    let unreadable = |error: &dyn std::fmt::Display| settings.refused(error);
    loop {
        let answer = session.session.execute_single_page(&statement, (), state).await;
        let (result, next) = answer.map_err(|error| settings.read_error(&error))?;
        let rows = result.into_rows_result().map_err(|error| unreadable(&error))?;
        for row in rows.rows::<(i64,)>().map_err(|error| unreadable(&error))? {
            (found, last) = (found + 1, row.map_err(|error| unreadable(&error))?.0);
        }
        match next {
            PagingStateResponse::NoMorePages => return Ok(found),
            PagingStateResponse::HasMorePages { state: next } => state = next,
        }
        if found >= SAMPLE as u64 {
            return Ok(extrapolated(found, last));
        }
    }
}

/// The number of keys of a ring whose first `found` have tokens up to `last`.
fn extrapolated(found: u64, last: i64) -> u64 {
    let covered = (i128::from(last) - i128::from(i64::MIN)).max(1);
    let all = i128::from(found) * (1_i128 << 64) / covered;
    u64::try_from(all).unwrap_or(u64::MAX)
}

/// The first key at or after a token, around the ring.
pub(super) async fn pick(
    settings: &CassandraSettings,
    session: &ClusterSession,
    seed: u64,
) -> Result<Option<Bytes>, SourceError> {
    let unreadable = |error: &dyn std::fmt::Display| settings.refused(error);
    for token in [seed.cast_signed(), i64::MIN] {
        let read = session.session.execute_unpaged(&session.from_token, (token,)).await;
        let result = read.map_err(|error| settings.read_error(&error))?;
        let rows = result.into_rows_result().map_err(|error| unreadable(&error))?;
        for row in rows.rows::<(&[u8], Option<i64>)>().map_err(|error| unreadable(&error))? {
            let (key, beside) = row.map_err(|error| unreadable(&error))?;
            if session.columns.kind_of(beside).is_some() {
                return Ok(Some(Bytes::copy_from_slice(session.columns.key_of(key))));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::extrapolated;

    #[test]
    fn keys_are_counted_by_their_share_of_the_ring() {
        assert_eq!(extrapolated(4096, 0), 8192);
        assert_eq!(extrapolated(4096, i64::MAX), 4096);
        assert_eq!(extrapolated(4096, i64::MIN / 2), 16384);
        assert_eq!(extrapolated(4096, i64::MIN), u64::MAX);
    }
}
