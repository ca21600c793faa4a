//! `POST /v1/store/backup?name=NAME[&group=GROUP]`: the entries of a disk store as they are now, in
//! a file of the data directory.
use super::{
    connection_context::ConnectionContext,
    problem_json::{Problem, ProblemKind},
    response_body::ResponseBody,
    response_writer,
};
use http::Response;
use larder_proto::http::target;
use std::io;

/// Answers when the file is there and synced: `{"file","entries","bytes"}`. It goes on if the
/// client does not wait.
pub(super) async fn backup(context: &ConnectionContext, query: &[u8]) -> Result<Response<ResponseBody>, Problem> {
    let app = &context.worker.app;
    let group = target::parameter(query, "group").map_or("default".into(), String::from_utf8_lossy);
    let index = app.settings.groups.iter().position(|settings| settings.name == group);
    let index = index.ok_or_else(|| Problem::of(ProblemKind::NoSuchGroup, format!("there is no group `{group}`")))?;
    let bad = |detail: String| Problem::of(ProblemKind::BadParameter, detail);
    let store = app.sources[index].store();
    let store = store.ok_or_else(|| bad(format!("the source of group `{group}` is not a disk store")))?;
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
    let copied = store.backup(dir.clone(), &name).map_err(failed)?.await;
    let copied = copied.unwrap_or_else(|_| Err(io::Error::other("it ended without an answer"))).map_err(failed)?;
    let told = serde_json::json!({"file": dir.join(&*name), "entries": copied.entries, "bytes": copied.bytes});
    Ok(response_writer::json(ResponseBody::full(told.to_string())))
}
