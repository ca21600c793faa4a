//! A read-only file of keys and values behind `/lookup`: as fast as it goes, and for users who think.
use super::{bench::Bench, proxy::at};
use crate::lib::{
    key_file::{KeyFile, KeyFileFormat},
    load::{GeneratorOptions, PlanOptions},
    servers,
};
use std::fs::File;

pub(super) const LOADS: u64 = 2;
/// The load whose summary is printed in the form of hey.
pub(super) const HEY: &str = "hey: 50 connections";

pub(super) fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let folder = bench.folder()?;
    let data = folder.path().join("keys.data");
    let lines = KeyFile {
        keys: bench.args.keys,
        key: "{uuid}".to_owned(),
        format: KeyFileFormat::Text,
        value_size: "64".parse()?,
        seed: 0,
    };
    lines.write(&mut File::create(&data)?, &mut |_| {})?;
    // The table lies beside the data.
    let data = data.display().to_string();
    let server = servers::larder(bench.larder(), Some(bench.server_core), &[&data])?;
    let lookup = PlanOptions {
        keys: Some(bench.args.keys),
        key: "{uuid}".to_owned(),
        ..bench.closed(&at(&server, "/lookup?key={key}")?, "get")
    };
    let users = format!("Locust: {} users, think time {}", bench.args.users, bench.args.think_time);
    for _ in 0..bench.args.runs {
        let plan = bench.plan(&lookup, &bench.generator(50))?;
        bench.measure(HEY, &plan, &server, &["200"], None)?;
        let thinking =
            GeneratorOptions { think_time: Some(bench.args.think_time), ..bench.generator(bench.args.users) };
        let plan = bench.plan(&lookup, &thinking)?;
        bench.measure(&users, &plan, &server, &["200"], None)?;
    }
    Ok(())
}
