//! Writes of `/v0/entity`. `ack` and `from` say of how many nodes how many must have a write before it
//! is answered. The nodes are this one and its replicas.
use crate::{
    keys::document_routes::refused,
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        request_body::UnreadBody,
        response_body::ResponseBody,
        response_writer,
    },
    routing::route_request::RouteRequest,
};
use bytes::Bytes;
use http::{Response, StatusCode};
use larder_base::telemetry::RecordedOperation;
use std::time::Duration;

/// How long a write waits for its replicas.
const PATIENCE: Duration = Duration::from_secs(1);

/// `PUT /v0/entity`: 201, whatever was there before.
pub(crate) async fn put(request: &RouteRequest<'_>, body: UnreadBody<'_>) -> Answer {
    let (key, acks) = (request.parameter_key("id")?, WantedAcks::parse(request)?);
    let value = body.read().await?;
    // The role may have changed while the body came.
    request.check_role()?;
    overwrite(request, &key, Some(value)).await?;
    acks.wait(request).await.map(|()| stored())
}

/// `DELETE /v0/entity`: 202, whatever was there before.
pub(crate) async fn delete(request: &RouteRequest<'_>) -> Answer {
    let (key, acks) = (request.parameter_key("id")?, WantedAcks::parse(request)?);
    overwrite(request, &key, None).await?;
    acks.wait(request).await.map(|()| response_writer::empty(StatusCode::ACCEPTED))
}

async fn overwrite(request: &RouteRequest<'_>, key: &[u8], value: Option<Bytes>) -> Result<(), Problem> {
    let operation = value.as_ref().map_or(RecordedOperation::Del, |value| RecordedOperation::Set(value.len()));
    request.note(operation, key);
    request.group.overwrite(key, value).await.map(drop).map_err(|error| refused(request, &error))
}

pub(crate) fn stored() -> Response<ResponseBody> {
    response_writer::empty(StatusCode::CREATED)
}

/// The least number of nodes, this one included.
pub(crate) struct WantedAcks(usize);

impl WantedAcks {
    /// Reads the parameters. Without either, this node is enough; without one, `from` is all nodes
    /// and `ack` more than half of `from`.
    ///
    /// # Errors
    /// The numbers make no sense, or there are fewer nodes.
    pub(crate) fn parse(request: &RouteRequest<'_>) -> Result<WantedAcks, Problem> {
        let bad = |why: String| Err(Problem::of(ProblemKind::BadParameter, why));
        let (ack, from) = (request.number("ack")?, request.number("from")?);
        if ack.is_none() && from.is_none() {
            return Ok(WantedAcks(1));
        }
        let replication = &request.worker.app.replication;
        let replicas = match replication.replicates(request.group.number) {
            true => replication.replicas.list().len() as u64,
            false => 0,
        };
        let nodes = 1 + replicas;
        let from = from.unwrap_or(nodes);
        let ack = ack.unwrap_or(from / 2 + 1);
        if ack == 0 || ack > from {
            return bad(format!("`ack` is {ack}: it must be from 1 to `from` ({from})"));
        }
        if from > nodes {
            let why = replication.hindrance().map_or(String::new(), |why| format!(": {why}"));
            return bad(format!("`from` is {from}, and this node has {replicas} connected replicas{why}"));
        }
        Ok(WantedAcks(usize::try_from(ack).unwrap_or(usize::MAX)))
    }

    /// Waits until enough nodes have what this one has written.
    ///
    /// # Errors
    /// They did not say so in time. The write stays.
    pub(crate) async fn wait(self, request: &RouteRequest<'_>) -> Result<(), Problem> {
        let WantedAcks(wanted) = self;
        if wanted == 1 {
            return Ok(());
        }
        let have = 1 + request.worker.app.replication.wait(wanted - 1, Some(PATIENCE)).await;
        match have >= wanted {
            true => Ok(()),
            false => Err(Problem::of(
                ProblemKind::NotEnoughReplicas,
                format!("{have} of the {wanted} wanted nodes have the write within a second; it is made on them"),
            )),
        }
    }
}
