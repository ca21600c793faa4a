//! Control of a whole group: reloads its table; `/v1/groups/{group}/mode-rules`: which keys of it the
//! memory tier keeps and serves. Changes hold until the next start.
use crate::{
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        response_body::ResponseBody,
        response_writer,
    },
    routing::route_request::RouteRequest,
};
use bytes::Bytes;
use larder_source::{Reloaded, check_count, mode_rules_text, parse_mode, parse_mode_rules};
use serde_json::json;

/// `POST /v1/groups/{group}/reload`: the group's table is read again. `{"entries":N,"changed":N}`,
/// when all that changed has been announced; `changed` is null if no client can have copies.
pub(crate) async fn reload(request: &RouteRequest<'_>) -> Answer {
    let group = request.group;
    let no_table =
        || Problem::of(ProblemKind::NotATable, format!("the source of group `{}` is not a table", group.name));
    match request.worker.app.groups.of(group).source().table.as_ref().ok_or_else(no_table)?.reload().await {
        Ok(Reloaded { entries, changed }) => {
            // Clients know the fields in this order.
            let changed = changed.map_or("null".to_owned(), |changed| changed.to_string());
            let text = format!("{{\"entries\":{entries},\"changed\":{changed}}}");
            Ok(response_writer::json(ResponseBody::full(text)))
        }
        Err(why) => Err(Problem::of(ProblemKind::TableRefused, &*why)),
    }
}

/// `GET`: the rules that hold.
pub(crate) fn mode_rules(request: &RouteRequest<'_>) -> Answer {
    let modes = &request.group.policy.modes;
    let table = modes.table();
    let rules = table.iter().map(|(prefix, mode)| {
        // A prefix that is not UTF-8 is whole in `text` alone.
        json!({"prefix": String::from_utf8_lossy(prefix), "mode": mode.name()})
    });
    let answer = json!({
        "rules": rules.collect::<Vec<_>>(),
        "text": mode_rules_text(&table),
        "lost_at_restart": modes.are_changed(),
    });
    response_writer::json_value(&answer)
}

/// `PUT`: replaces all rules at once. The body is `{"rules":[{"prefix":"user:","mode":"deny"}]}`
/// (the empty prefix is that of every key), or the text `user:=deny`.
pub(crate) async fn set_mode_rules(request: &RouteRequest<'_>, body: Bytes) -> Answer {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Rule {
        prefix: String,
        mode: String,
    }
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        rules: Vec<Rule>,
    }
    let bad = |why: String| Problem::of(ProblemKind::BadBody, why);
    let rules = if body.trim_ascii_start().starts_with(b"{") {
        let wanted: Wanted = serde_json::from_slice(&body).map_err(|error| bad(error.to_string()))?;
        check_count(wanted.rules.len()).map_err(bad)?;
        let rule = |rule: Rule| Ok((rule.prefix.into_bytes().into(), parse_mode(&rule.mode).map_err(bad)?));
        wanted.rules.into_iter().map(rule).collect::<Result<_, Problem>>()?
    } else {
        let text = std::str::from_utf8(&body).map_err(|_| bad("the body is not text".to_string()))?;
        parse_mode_rules(text).map_err(bad)?
    };
    let changed = request.worker.app.groups.of(request.group).change_modes(Some(rules));
    changed.map_err(|why| Problem::of(ProblemKind::NoTier, why))?;
    mode_rules(request)
}

/// `DELETE`: back to the rules of the configuration.
pub(crate) fn reset_mode_rules(request: &RouteRequest<'_>) -> Answer {
    let changed = request.worker.app.groups.of(request.group).change_modes(None);
    changed.map_err(|why| Problem::of(ProblemKind::NoTier, why))?;
    mode_rules(request)
}
