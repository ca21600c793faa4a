//! Merges the replies of several cluster nodes into one, by the response policies of the server's
//! command table (<https://redis.io/docs/latest/develop/reference/command-policies/#response_policy>).
use crate::upstream_commands::cluster_policies::ResponsePolicy;
use bytes::Bytes;
use larder_proto::resp::{View, view};

/// Merges at least one reply, without a copy: the result is the pieces of one reply. If one is an
/// error, the error is the result, unless the policy accepts errors.
pub(super) fn merge_replies(how: &ResponsePolicy, replies: &[Bytes]) -> Vec<Bytes> {
    let first = || vec![replies.first().cloned().unwrap_or_default()];
    let error = replies.iter().find(|reply| is_error(reply));
    if matches!(how, ResponsePolicy::AnyGood) {
        return replies.iter().find(|reply| !is_error(reply)).map_or_else(first, |reply| vec![reply.clone()]);
    }
    if let Some(error) = error {
        return vec![error.clone()];
    }
    let numbers = |fold: fn(i64, i64) -> i64| Some(vec![fold_numbers(replies, fold)?]);
    let merged = match how {
        ResponsePolicy::First | ResponsePolicy::AnyGood | ResponsePolicy::AllGood => None,
        ResponsePolicy::Sum => numbers(i64::saturating_add),
        ResponsePolicy::Min | ResponsePolicy::And => numbers(i64::min),
        ResponsePolicy::Max | ResponsePolicy::Or => numbers(i64::max),
        ResponsePolicy::Concat => concat(replies),
        ResponsePolicy::KeyOrder(places) => in_key_order(replies, places),
    };
    merged.unwrap_or_else(first)
}

fn is_error(reply: &[u8]) -> bool {
    matches!(reply.first(), Some(b'-' | b'!') | None)
}

/// Folds integers, or arrays of equal length element by element.
fn fold_numbers(replies: &[Bytes], fold: fn(i64, i64) -> i64) -> Option<Bytes> {
    let rows: Option<Vec<(bool, Vec<i64>)>> = replies.iter().map(|reply| numbers(reply)).collect();
    let mut rows = rows?.into_iter();
    let (is_array, mut folded) = rows.next()?;
    for (_, row) in rows {
        if row.len() != folded.len() {
            return None;
        }
        folded.iter_mut().zip(row).for_each(|(into, number)| *into = fold(*into, number));
    }
    let mut reply = String::new();
    if is_array {
        reply = format!("*{}\r\n", folded.len());
    }
    folded.iter().for_each(|number| reply.push_str(&format!(":{number}\r\n")));
    Some(reply.into())
}
fn numbers(reply: &[u8]) -> Option<(bool, Vec<i64>)> {
    let number = |view| match view {
        View::Integer(number) => Some(number),
        _ => None,
    };
    match view(reply).ok()? {
        View::Array(values) => Some((true, values.map(number).collect::<Option<_>>()?)),
        one => Some((false, vec![number(one)?])),
    }
}

/// Joins the elements of arrays, sets or maps; the result has the type of the first.
fn concat(replies: &[Bytes]) -> Option<Vec<Bytes>> {
    let marker = char::from(*replies.first()?.first()?);
    let (mut len, mut pieces) = (0, vec![Bytes::new()]);
    for reply in replies {
        let (View::Array(values) | View::Set(values) | View::Map(values)) = view(reply).ok()? else {
            return None;
        };
        len += values.len();
        let head = reply.iter().position(|byte| *byte == b'\n')? + 1;
        pieces.push(reply.slice(head..));
    }
    let len = if marker == '%' { len / 2 } else { len };
    pieces[0] = format!("{marker}{len}\r\n").into();
    Some(pieces)
}

fn in_key_order(replies: &[Bytes], places: &[Vec<usize>]) -> Option<Vec<Bytes>> {
    let mut pieces = vec![Bytes::new(); 1 + places.iter().map(Vec::len).sum::<usize>()];
    pieces[0] = format!("*{}\r\n", pieces.len() - 1).into();
    for (reply, places) in replies.iter().zip(places) {
        let View::Array(mut values) = view(reply).ok()? else { return None };
        for place in places {
            *pieces.get_mut(1 + *place)? = reply.slice_ref(values.next_raw()?);
        }
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_policy() {
        let places = || ResponsePolicy::KeyOrder(vec![vec![2, 0], vec![1]]);
        for (how, replies, expected) in [
            (ResponsePolicy::Sum, &[":2\r\n", ":3\r\n"][..], ":5\r\n"),
            (ResponsePolicy::Sum, &[":2\r\n", "-ERR no\r\n"], "-ERR no\r\n"),
            (ResponsePolicy::Min, &[":2\r\n", ":3\r\n"], ":2\r\n"),
            (ResponsePolicy::Max, &[":2\r\n", ":3\r\n"], ":3\r\n"),
            (ResponsePolicy::And, &["*2\r\n:1\r\n:0\r\n", "*2\r\n:1\r\n:1\r\n"], "*2\r\n:1\r\n:0\r\n"),
            (ResponsePolicy::Or, &[":0\r\n", ":1\r\n"], ":1\r\n"),
            (ResponsePolicy::AllGood, &["+OK\r\n", "+OK\r\n"], "+OK\r\n"),
            (ResponsePolicy::AllGood, &["+OK\r\n", "-NO\r\n"], "-NO\r\n"),
            (ResponsePolicy::AnyGood, &["-NOTBUSY\r\n", "+OK\r\n"], "+OK\r\n"),
            (ResponsePolicy::AnyGood, &["-NOTBUSY a\r\n", "-NOTBUSY b\r\n"], "-NOTBUSY a\r\n"),
            (ResponsePolicy::Concat, &["*1\r\n+a\r\n", "*0\r\n", "*2\r\n+b\r\n+c\r\n"], "*3\r\n+a\r\n+b\r\n+c\r\n"),
            (ResponsePolicy::Concat, &["%1\r\n+a\r\n:1\r\n", "%1\r\n+b\r\n:2\r\n"], "%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n"),
            (places(), &["*2\r\n$1\r\nc\r\n$-1\r\n", "*1\r\n+b\r\n"], "*3\r\n$-1\r\n+b\r\n$1\r\nc\r\n"),
            // Unexpected types: the first reply is the result.
            (ResponsePolicy::Sum, &["+OK\r\n", ":3\r\n"], "+OK\r\n"),
            (places(), &["*1\r\n+c\r\n", "*1\r\n+b\r\n"], "*1\r\n+c\r\n"),
        ] {
            let replies: Vec<Bytes> = replies.iter().map(|reply| Bytes::from(reply.to_string())).collect();
            assert_eq!(merge_replies(&how, &replies).concat(), expected.as_bytes(), "{how:?} {replies:?}");
        }
    }
}
