//! `larder-bench record`: takes the operations of a running Larder into a trace.
use crate::lib::{
    blocking_clients::HttpClient,
    load::{
        Interrupt, duration,
        target::{TargetProtocol, TargetUrl},
    },
    trace::{OperationKind, TraceWriter, TracedOperation},
};
use anyhow::{Context, bail, ensure};
use std::{
    collections::HashMap,
    fs::File,
    io::{BufWriter, Write},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

/// Records the operations of a running Larder: what was asked of which key, and when
///
/// Asks the admin listener (`POST /v1/record`) ten times a second. Of a sample of the keys every
/// operation is recorded, so that their reuse, and with it the hit ratio of a cache scaled down
/// alike, is what it is in the whole (`larder-bench hit-ratio --trace FILE.ops`). Keys leave Larder
/// as hashes and are numbered in the trace. `larder-bench replay` plays it. Prints one line:
/// operations, keys, operations that were lost.
#[derive(Debug, clap::Args)]
pub(crate) struct RecordArgs {
    /// Larder's admin listener
    #[arg(long, value_name = "http://HOST:PORT")]
    url: String,
    /// The trace
    #[arg(long, value_name = "FILE.ops")]
    out: PathBuf,
    /// Share of the keys
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    sample: f64,
    /// How long
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    duration: Duration,
}

/// How often the recording is fetched.
const PERIOD: Duration = Duration::from_millis(100);
/// Bytes of an operation, and of the number before them, as Larder's
/// `crates/base/src/telemetry/operation_recorder.rs` writes them.
const RECORD: usize = 24;
const HEAD: usize = 8;

/// Runs the program.
pub(crate) fn run(args: &RecordArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    ensure!(args.sample > 0.0 && args.sample <= 1.0, "--sample {} is not a share above 0 and up to 1", args.sample);
    let target = TargetUrl::parse(&args.url)?;
    ensure!(target.protocol == TargetProtocol::Http, "--url {:?}: the admin listener speaks HTTP", args.url);
    let file = File::create(&args.out).with_context(|| format!("cannot write {}", args.out.display()))?;
    let mut recording = Recording::new(BufWriter::new(file))?;
    let mut client = HttpClient::connect(target.address, Duration::from_secs(10))?;
    let path = format!("/v1/record?sample={}", args.sample);
    let mut fetch = || -> anyhow::Result<Vec<u8>> {
        let answer = client.ask("POST", &path)?;
        ensure!(answer.status == 200, "{} answers {path} with {}: is it the admin listener?", target, answer.status);
        Ok(answer.body)
    };
    // What another recorder may have left behind is none of ours.
    fetch()?;
    let (end, interrupt) = (Instant::now() + args.duration, Interrupt::watch()?);
    let mut fetched = Ok(());
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|_| fetched.is_ok() && !interrupt.is_set())
    {
        thread::sleep(PERIOD.min(left));
        fetched = fetch().and_then(|operations| recording.add(&operations));
    }
    // What was recorded stays, also if Larder went away.
    let result = recording.finish()?;
    crate::lib::figures::line(out, &result)?;
    fetched.context("the recording ended early")
}

/// A trace in the making.
struct Recording<W: Write> {
    writer: TraceWriter<W>,
    /// The numbers of the keys by hash.
    keys: HashMap<u64, u64, foldhash::fast::RandomState>,
    /// Larder's time of the first operation.
    begin: Option<u64>,
    operations: u64,
    lost: u64,
}

impl<W: Write> Recording<W> {
    fn new(out: W) -> anyhow::Result<Recording<W>> {
        Ok(Recording { writer: TraceWriter::new(out)?, keys: HashMap::default(), begin: None, operations: 0, lost: 0 })
    }

    /// Adds what one request fetched. Workers come one after the other, so it is put in order of
    /// time first.
    fn add(&mut self, fetched: &[u8]) -> anyhow::Result<()> {
        let (head, records) = fetched.split_at_checked(HEAD).context("a recording without its head")?;
        ensure!(records.len() % RECORD == 0, "a recording that ends within an operation");
        self.lost += word(head);
        let mut records: Vec<&[u8]> = records.chunks_exact(RECORD).collect();
        records.sort_by_key(|record| word(record));
        for record in records {
            let size = u32::from_le_bytes([record[16], record[17], record[18], record[19]]);
            let kind = match record[20] {
                0 => OperationKind::Get,
                1 => OperationKind::Set(size),
                2 => OperationKind::Del,
                kind => bail!("operation {kind} is none of get, set, del"),
            };
            let next = self.keys.len() as u64;
            let key = *self.keys.entry(word(&record[8..])).or_insert(next);
            let time = word(record);
            let at = time.saturating_sub(*self.begin.get_or_insert(time));
            self.writer.write(TracedOperation { at, kind, key })?;
            self.operations += 1;
        }
        Ok(())
    }

    fn finish(self) -> anyhow::Result<serde_json::Value> {
        self.writer.finish().context("cannot write the trace")?;
        let (keys, lost) = (self.keys.len(), self.lost);
        Ok(serde_json::json!({ "program": "record", "operations": self.operations, "keys": keys, "lost": lost }))
    }
}

/// The number in the first eight bytes, of which there are that many.
fn word(bytes: &[u8]) -> u64 {
    bytes[..8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lib::trace::{TraceFile, TraceFormat};

    fn fetched(lost: u64, records: &[(u64, u64, u32, u8)]) -> Vec<u8> {
        let mut bytes = lost.to_le_bytes().to_vec();
        for &(time, hash, size, kind) in records {
            bytes.extend_from_slice(&time.to_le_bytes());
            bytes.extend_from_slice(&hash.to_le_bytes());
            bytes.extend_from_slice(&size.to_le_bytes());
            bytes.extend_from_slice(&[kind, 0, 0, 0]);
        }
        bytes
    }

    #[test]
    fn what_is_fetched_becomes_a_trace() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut recording = Recording::new(file.reopen().expect("open")).expect("begun");
        // Two workers, the second's operation in between.
        recording.add(&fetched(3, &[(100, 77, 0, 0), (300, 88, 5, 1), (200, 77, 0, 2)])).expect("well-formed");
        recording.add(&fetched(1, &[(400, 88, 0, 0)])).expect("well-formed");
        let result = recording.finish().expect("written");
        assert_eq!((&result["operations"], &result["keys"], &result["lost"]), (&4.into(), &2.into(), &4.into()));
        let trace = TraceFile::new(file.path(), Some(TraceFormat::Ops)).expect("a trace");
        let operations: Vec<_> = trace.operations().expect("opens").map(|read| read.expect("well-formed")).collect();
        let of = |at, kind, key| TracedOperation { at, kind, key };
        let expected = [
            of(0, OperationKind::Get, 0),
            of(100, OperationKind::Del, 0),
            of(200, OperationKind::Set(5), 1),
            of(300, OperationKind::Get, 1),
        ];
        assert_eq!(operations, expected);
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        let mut recording = Recording::new(Vec::new()).expect("begun");
        for wrong in [&b"404"[..], &[0; 9], &fetched(0, &[(0, 0, 0, 9)])] {
            recording.add(wrong).expect_err("refused");
        }
    }
}
