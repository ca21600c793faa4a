use super::*;
use crate::lib::machine::MeasuredProcess;
use caches_under_test::address;
use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: BoundArgs,
}

fn args(arguments: &[&str]) -> BoundArgs {
    Cli::parse_from([&["bound"], arguments].concat()).args
}

fn result(args: &BoundArgs) -> (anyhow::Result<()>, serde_json::Value) {
    let mut out = Vec::new();
    let ended = run(args, &mut out);
    (ended, serde_json::from_slice(&out).expect("one object"))
}

#[test]
fn the_engine_keeps_a_small_bound() {
    // Its own count only: what else the tests of this process hold is not the engine's.
    let (ended, row) = result(&args(&["--max-memory", "4MiB", "--write", "32MiB", "--slack", "100GiB"]));
    ended.expect("the bound holds");
    assert!(row["max_used"].as_u64() <= Some(4 << 20), "{row}");
    assert!(row["written_bytes"].as_u64() >= Some(32 << 20) && row["hits"].as_u64() > Some(0), "{row}");
}

#[test]
fn a_server_without_a_bound_is_found_out() {
    let server = servers::redis(None).expect("redis-server starts");
    let url = format!("redis://{}", server.address);
    let (ended, row) = result(&args(&["--url", &url, "--max-memory", "1MiB", "--write", "8MiB", "--slack", "1MiB"]));
    ended.expect_err("redis-server holds more");
    assert!(row["failures"].as_u64() > Some(0), "{row}");
    // All of it is its memory; what it returned was right.
    let first = row["first_failures"][0].as_str().expect("shown");
    assert!(first.contains("resident"), "{row}");
}

#[test]
fn wrong_contents_are_found_out() {
    struct Liar(Vec<u8>);
    impl CacheUnderTest for Liar {
        const NAME: &'static str = "liar";
        fn advance(&mut self) -> anyhow::Result<Millis> {
            Ok(0)
        }
        fn set(&mut self, _: &[u8], value: &[u8], _: Option<u64>) -> anyhow::Result<()> {
            self.0 = value.to_vec();
            Ok(())
        }
        fn get(&mut self, _: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool> {
            out.clone_from(&self.0);
            Ok(true)
        }
        fn used(&self) -> Option<u64> {
            None
        }
        fn process(&self) -> MeasuredProcess {
            MeasuredProcess::Own
        }
    }
    let row = exercise(&args(&["--write", "1MiB", "--slack", "100GiB"]), &mut Liar(Vec::new()));
    let row = row.expect("runs");
    assert!(row.failures * 10 > row.reads * 9, "{row:?}");
}

#[test]
fn addresses_are_read_from_urls() {
    assert_eq!(address("redis://127.0.0.1:7/").expect("an address").port(), 7);
    address("http://127.0.0.1:7").expect_err("not Redis");
    address("redis://127.0.0.1").expect_err("no port");
}
