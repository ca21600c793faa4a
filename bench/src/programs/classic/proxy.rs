//! A small HTTP proxy of Redis: `GET /lookup?key=K`.
use super::bench::Bench;
use crate::lib::{
    blocking_clients::RespClient,
    figures::counted,
    load::PlanOptions,
    servers::{self, ServerProcess},
};
use anyhow::Context;
use std::time::Duration;

const CONNECTIONS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Keys of hits, and keys of misses: so many that the one that is kept is hardly ever asked for.
const HIT_KEYS: u64 = 1000;
const MISS_KEYS: u64 = 100_000;
/// The paths of a request without a key, and with one.
const BAD_QUERY: &str = "/lookup";
const LOOKUP: &str = "/lookup?key={key}";
pub(super) const LOADS: u64 = 3 * CONNECTIONS.len() as u64;

pub(super) fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let source = servers::redis(Some(bench.client_core))?;
    let mut client = RespClient::connect(source.address, Duration::from_secs(10))?;
    client.load(MISS_KEYS, |number, key, value| {
        key.clear();
        key.extend_from_slice(format!("key:{number}").as_bytes());
        value.resize(64, b'v');
    })?;
    let url = format!("redis://{}", source.address);
    let start = |more: &[&str]| {
        let options = [&["--source", &url], more].concat();
        servers::larder(bench.larder(), Some(bench.server_core), &options)
    };
    let (keeps_all, keeps_one) = (start(&[])?, start(&["--max-keys", "1"])?);
    let warm = PlanOptions {
        requests: Some(HIT_KEYS),
        keys: Some(HIT_KEYS),
        dist: Some("seq".parse()?),
        ..PlanOptions::of(&at(&keeps_all, LOOKUP)?, "get")
    };
    crate::lib::load::run(&bench.plan(&warm, &bench.generator(1))?, &mut |_| {})?;
    for _ in 0..bench.args.runs {
        for (name, server, path, keys, status) in [
            ("bad query", &keeps_all, BAD_QUERY, 1, "400"),
            ("miss", &keeps_one, LOOKUP, MISS_KEYS, "200"),
            ("hit", &keeps_all, LOOKUP, HIT_KEYS, "200"),
        ] {
            for connections in CONNECTIONS {
                let mut generator = bench.generator(connections);
                // The reply to a bad query is 400.
                generator.error_status = "5xx".parse()?;
                let plan = match path {
                    BAD_QUERY => bench.closed(&at(server, "")?, &format!("GET {path}")),
                    path => PlanOptions { keys: Some(keys), ..bench.closed(&at(server, path)?, "get") },
                };
                let plan = bench.plan(&plan, &generator)?;
                let name = format!("{name}, {}", counted(connections, "connection"));
                let source = (status == "200").then_some(&source);
                bench.measure(&name, &plan, server, &[status], source)?;
            }
        }
    }
    Ok(())
}

/// A URL of a server's HTTP listener.
pub(super) fn at(server: &ServerProcess, path: &str) -> anyhow::Result<String> {
    Ok(format!("http://{}{path}", server.http.context("the server has no HTTP address")?))
}
