//! `POST /v1/store/backup?name=NAME[&group=GROUP][&wait=false]`: the entries of a disk store as they
//! are now, in a file of the data directory. `GET /v1/store/backup` says how far it is.
use crate::{
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        response_writer,
    },
    routing::route_request::RouteRequest,
};
use http::StatusCode;
use larder_proto::http::target;
use larder_store::disk::{BackupStatus, Store};
use serde_json::{Value, json};
use std::io;

/// Answers when the file is there and synced: `{"file","entries","bytes"}`. It goes on if the
/// client does not wait. With `wait=false` 202 at once, with the list of `backups`.
pub(crate) async fn backup(request: &RouteRequest<'_>) -> Answer {
    let (app, query) = (&request.worker.app, request.query);
    let bad = |detail: String| Problem::of(ProblemKind::BadParameter, detail);
    let store = store(request)?;
    let waits = match target::parameter(query, "wait") {
        None | Some(b"true") => true,
        Some(b"false") => false,
        Some(_) => return Err(bad("`wait` is true or false".to_owned())),
    };
    let name = target::parameter(query, "name").map_or("".into(), String::from_utf8_lossy);
    // A plain name: no request reaches out of the directory, and no backup is in the way of another
    // program's hidden file.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !name.bytes().all(is_plain) || name.is_empty() || name.starts_with('.') {
        return Err(bad(format!("`name`: {name:?} is not a name of letters, digits, `.`, `_` and `-`")));
    }
    let Some(dir) = &app.settings.data_dir else {
        return Err(bad("there is no directory for backups: set data-dir".to_string()));
    };
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => Problem::of(ProblemKind::BackupExists, error.to_string()),
        _ => Problem::of(ProblemKind::BackupFailed, format!("{error} (setting `data-dir`: {})", dir.display())),
    };
    let written = store.backup(dir.clone(), &name).map_err(failed)?;
    if !waits {
        let mut response = answer(store)?;
        *response.status_mut() = StatusCode::ACCEPTED;
        return Ok(response);
    }
    let copied = written.await;
    let copied = copied.unwrap_or_else(|_| Err(io::Error::other("it ended without an answer"))).map_err(failed)?;
    let told = json!({"file": dir.join(&*name), "entries": copied.entries, "bytes": copied.bytes});
    response_writer::json_value(&told)
}

/// `{"backups":[{"file","state","entries","of_entries","bytes","error","ms","left_ms"}]}`: those
/// that run and the latest that have ended, the newest first.
pub(crate) fn backups(request: &RouteRequest<'_>) -> Answer {
    answer(store(request)?)
}

/// That of the group that the request names.
fn store<'c>(request: &RouteRequest<'c>) -> Result<&'c Store, Problem> {
    let app = &request.worker.app;
    let group = target::parameter(request.query, "group").map_or("default".into(), String::from_utf8_lossy);
    let found = app.groups.named(group.as_bytes());
    let found = found.ok_or_else(|| Problem::of(ProblemKind::NoSuchGroup, format!("there is no group `{group}`")))?;
    let no_store = || format!("the source of group `{group}` is not a disk store");
    found.source().store().ok_or_else(|| Problem::of(ProblemKind::BadParameter, no_store()))
}

fn answer(store: &Store) -> Answer {
    let backups: Vec<Value> = store.backups().iter().map(described).collect();
    response_writer::json_value(&json!({ "backups": backups }))
}

fn described(backup: &BackupStatus) -> Value {
    let BackupStatus { file, entries, of_entries, took, outcome } = backup;
    let ms = took.as_millis() as u64;
    let (state, bytes, error) = match outcome {
        None => ("running", None, None),
        Some(Ok(copied)) => ("done", Some(copied.bytes), None),
        Some(Err(error)) => ("failed", None, Some(error)),
    };
    // At the pace so far. It may find more than the estimate.
    let of_entries = of_entries.max(entries);
    let is_paced = outcome.is_none() && *entries > 0;
    let left_ms = is_paced.then(|| (u128::from(ms) * u128::from(of_entries - entries) / u128::from(*entries)) as u64);
    json!({
        "file": file, "state": state, "entries": entries, "of_entries": of_entries, "bytes": bytes, "error": error,
        "ms": ms, "left_ms": left_ms,
    })
}
