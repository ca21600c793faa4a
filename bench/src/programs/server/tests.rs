use super::servers_under_load::{LoadTool, TIMEOUT};
use super::*;
use crate::lib::{blocking_clients::RespClient, servers::FLOOR_VALUE};

fn setting(larder: &Path) -> ServerSetting<'_> {
    let cores = machine::cores().expect("cores");
    let (first, last) = (cores[0], cores[cores.len() - 1]);
    ServerSetting { larder, seconds: 1, server_core: first, client_core: last, source_core: last, pogocache: None }
}

#[test]
fn a_load_is_measured_and_counted() {
    let setting = setting(Path::new("/bin/true"));
    let redis = setting.redis(16).expect("redis-server starts");
    let sample = setting.sample(&redis, 20_000).expect("measured");
    assert_eq!(sample.requests, 20_000);
    assert!(sample.per_second > 0.0);
}

#[test]
fn keys_that_are_not_there_end_the_program() {
    let setting = setting(Path::new("/bin/true"));
    let redis = setting.redis(1).expect("redis-server starts");
    let mut client = RespClient::connect(redis.server.address, TIMEOUT).expect("connect");
    client.call(&[b"FLUSHALL"]).expect("answers");
    let error = setting.sample(&redis, 2000).expect_err("nothing was found");
    assert!(error.to_string().contains("only 0 keys"), "{error}");
}

#[test]
fn http_answers_are_counted() {
    let setting = setting(Path::new("/bin/true"));
    let nginx = ServerUnderLoad {
        name: "nginx",
        server: servers::nginx(None, &[("file", &FLOOR_VALUE)]).expect("nginx starts"),
        way: LoadTool::Http("/file"),
        source: None,
    };
    assert!(setting.sample(&nginx, 0).expect("measured").requests > 100);
    let absent = ServerUnderLoad { way: LoadTool::Http("/absent"), ..nginx };
    let error = setting.sample(&absent, 0).expect_err("404s");
    assert!(error.to_string().contains("Non-2xx"), "{error}");
}
