//! A REST cache with JSON bodies: `/cache/v1/item`.
use super::{bench::Bench, proxy::at};
use crate::lib::{load::PlanOptions, servers};

pub(super) const LOADS: u64 = 6;
/// Connections of this form.
const CONNECTIONS: usize = 30;
const POST: &str = r#"POST /cache/v1/item {"key":"{key}","value":"some test string here","ttl":600}"#;
const POST_ONE: &str = r#"POST /cache/v1/item {"key":"one","value":"some test string here","ttl":60}"#;
const GET: &str = r#"GET /cache/v1/item {"key":"{key}"}"#;
const DELETE: &str = r#"DELETE /cache/v1/item {"key":"{key}"}"#;
/// Keys that are stored before they are read.
const KEYS: u64 = 100_000;

pub(super) fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let server = servers::larder(bench.larder(), Some(bench.server_core), &[])?;
    let url = at(&server, "")?;
    let mut generator = bench.generator(CONNECTIONS);
    generator.header = vec!["Content-Type: application/json".to_owned()];
    generator.error_status = "5xx".parse()?;
    for turn in 0..bench.args.runs {
        let store = PlanOptions {
            requests: Some(KEYS),
            keys: Some(KEYS),
            dist: Some("seq".parse()?),
            ..PlanOptions::of(&url, POST)
        };
        crate::lib::load::run(&bench.plan(&store, &generator)?, &mut |_| {})?;
        // Keys of which each is used once.
        let new = |op: &str| -> anyhow::Result<PlanOptions> {
            let key = format!("{turn}:{{n}}");
            Ok(PlanOptions { keys: Some(1 << 40), key, dist: Some("seq".parse()?), ..bench.closed(&url, op) })
        };
        let stored = |op: &str| PlanOptions { keys: Some(KEYS), ..bench.closed(&url, op) };
        let absent = |op: &str| PlanOptions { key: "absent:{n}".to_owned(), ..stored(op) };
        let mixed = PlanOptions { op: [POST, GET, DELETE].map(str::to_owned).to_vec(), ..stored(POST) };
        let loads = [
            ("POST, new keys", new(POST)?, &["201"][..]),
            ("POST, one key", bench.closed(&url, POST_ONE), &["201"]),
            ("GET", stored(GET), &["200"]),
            ("GET, absent keys", absent(GET), &["400"]),
            // A deleted key is answered 400.
            ("POST, GET, DELETE", mixed, &["201", "200", "204", "400"]),
            ("DELETE", new(DELETE)?, &["204"]),
        ];
        for (name, options, expected) in loads {
            let plan = bench.plan(&options, &generator)?;
            bench.measure(name, &plan, &server, expected, None)?;
        }
    }
    Ok(())
}
