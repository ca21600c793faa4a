//! `POST /v1/snapshot` begins a snapshot of the memory tiers, `GET /v1/snapshot` says how far it
//! is.
use crate::{
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        response_writer,
    },
    routing::route_request::RouteRequest,
};
use http::StatusCode;
use larder_core::snapshot::{LastSave, LoadStatus, SnapshotStatus};
use larder_proto::http::target;
use larder_store::snapshot::{Loaded, SaveProgress};
use serde_json::{Value, json};

/// 202 with the progress at once; with `wait=true` 200 with the outcome when the file is whole and
/// synced.
pub(crate) async fn begin(request: &RouteRequest<'_>) -> Answer {
    let snapshots = &request.worker.app.snapshots;
    let wait = target::parameter(request.query, "wait");
    match wait {
        None | Some(b"false") => {
            snapshots.begin_save().map_err(|refused| Problem::of(ProblemKind::NoSnapshot, refused.to_string()))?;
            let mut response = answer(&snapshots.status())?;
            *response.status_mut() = StatusCode::ACCEPTED;
            Ok(response)
        }
        Some(b"true") => {
            let saved = snapshots.save_and_wait().await;
            saved.map_err(|why| Problem::of(ProblemKind::NoSnapshot, why))?;
            answer(&snapshots.status())
        }
        Some(_) => Err(Problem::of(ProblemKind::BadParameter, "`wait` is true or false")),
    }
}

/// `{"file","saving","last","load","verification"}`.
pub(crate) fn status(request: &RouteRequest<'_>) -> Answer {
    answer(&request.worker.app.snapshots.status())
}

fn answer(status: &SnapshotStatus) -> Answer {
    response_writer::json_value(&document(status))
}

fn document(status: &SnapshotStatus) -> Value {
    let saving = status.saving.map(|(SaveProgress { entries, bytes }, since, of_entries)| {
        json!({ "entries": entries, "of_entries": of_entries, "bytes": bytes, "ms": since.as_millis() as u64 })
    });
    let last = status.last.as_ref().map(|LastSave { at, took, result }| {
        let ms = took.as_millis() as u64;
        match result {
            Ok(SaveProgress { entries, bytes }) => {
                json!({ "at": at, "ok": true, "entries": entries, "bytes": bytes, "ms": ms })
            }
            Err(error) => json!({ "at": at, "ok": false, "error": error, "ms": ms }),
        }
    });
    let counts = |loaded: &Loaded| {
        json!({
            "restored": loaded.restored,
            "expired": loaded.expired,
            "overtaken": loaded.overtaken,
            "too_large": loaded.too_large,
            "skipped": loaded.skipped,
        })
    };
    let load = match &status.load {
        LoadStatus::None => Value::Null,
        LoadStatus::Loading { loaded, bytes, total, .. } => {
            let mut load = counts(loaded);
            (load["done"], load["bytes"], load["of_bytes"]) = (false.into(), (*bytes).into(), (*total).into());
            load
        }
        LoadStatus::Done(loaded, fault) => {
            let mut load = counts(loaded);
            (load["done"], load["fault"]) = (true.into(), fault.clone().into());
            load
        }
    };
    let verification = status.verification.map(|verification| {
        json!({
            "done": verification.is_done,
            "entries": verification.entries,
            "same": verification.same,
            "changed": verification.changed,
            "gone": verification.gone,
            "overtaken": verification.overtaken,
        })
    });
    json!({ "file": status.file, "saving": saving, "last": last, "load": load, "verification": verification })
}
