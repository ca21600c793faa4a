//! Control of a whole group: reloads its table.
use crate::{
    connection::connection_context::ConnectionContext,
    messages::{
        problem_json::{Problem, ProblemKind},
        response_body::ResponseBody,
        response_writer,
    },
};
use http::Response;
use larder_core::read::Group;
use larder_source::Reloaded;

/// `POST /v1/groups/{group}/reload`: the group's table is read again. `{"entries":N,"changed":N}`,
/// when all that changed has been announced; `changed` is null if no client can have copies.
pub(crate) async fn reload(context: &ConnectionContext, group: &Group) -> Result<Response<ResponseBody>, Problem> {
    let no_table =
        || Problem::of(ProblemKind::NotATable, format!("the source of group `{}` is not a table", group.name));
    match context.worker.app.groups.of(group).source.reload().await.ok_or_else(no_table)? {
        Ok(Reloaded { entries, changed }) => {
            let changed = changed.map_or("null".into(), |changed| changed.to_string());
            Ok(response_writer::json(ResponseBody::full(format!("{{\"entries\":{entries},\"changed\":{changed}}}"))))
        }
        Err(why) => Err(Problem::of(ProblemKind::TableRefused, &*why)),
    }
}
