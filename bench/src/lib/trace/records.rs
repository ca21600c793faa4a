//! The formats of traces, and from bytes to keys for each.
use anyhow::{Context, bail, ensure};
use std::{
    io::{BufRead, Read},
    ops::Range,
};

/// How the requests are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TraceFormat {
    /// Text lines `start count …`: keys start to start+count-1 (Megiddo and Modha, "ARC", FAST
    /// 2003)
    Arc,
    /// Big-endian 32-bit numbers (cache2k benchmarks)
    Cache2k,
    /// Little-endian 64-bit numbers
    U64,
    /// Operations recorded from a Larder (`larder-bench record`): what was read counts
    Ops,
}

/// Longest line of an ARC trace, in bytes.
pub(super) const MAX_LINE: usize = 1024;
/// Most keys that one line of an ARC trace may stand for; the published ones have at most a few
/// thousand.
pub(super) const MAX_RUN: u64 = 1 << 20;

/// The keys of one input. After an error it ends.
pub(super) struct TraceRecords<R> {
    input: R,
    format: TraceFormat,
    line: u64,
    text: Vec<u8>,
    run: Range<u64>,
    ended: bool,
}

impl<R: BufRead> TraceRecords<R> {
    pub(super) fn new(input: R, format: TraceFormat) -> TraceRecords<R> {
        TraceRecords { input, format, line: 0, text: Vec::new(), run: 0..0, ended: false }
    }

    fn read(&mut self) -> anyhow::Result<Option<u64>> {
        Ok(match self.format {
            TraceFormat::Arc => self.arc()?,
            TraceFormat::Cache2k => self.word()?.map(|word| u32::from_be_bytes(word).into()),
            TraceFormat::U64 => self.word()?.map(u64::from_le_bytes),
            TraceFormat::Ops => bail!("operations are not read as keys"),
        })
    }

    fn word<const N: usize>(&mut self) -> anyhow::Result<Option<[u8; N]>> {
        let mut word = [0; N];
        let mut have = 0;
        while have < N {
            match self.input.read(&mut word[have..]) {
                Ok(0) if have == 0 => return Ok(None),
                Ok(0) => bail!("the trace ends within a record of {N} bytes"),
                Ok(n) => have += n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(word))
    }

    fn arc(&mut self) -> anyhow::Result<Option<u64>> {
        loop {
            if let Some(key) = self.run.next() {
                return Ok(Some(key));
            }
            self.text.clear();
            let mut limited = (&mut self.input).take(MAX_LINE as u64 + 1);
            if limited.read_until(b'\n', &mut self.text)? == 0 {
                return Ok(None);
            }
            self.line += 1;
            let line = self.line;
            ensure!(
                self.text.len() <= MAX_LINE || self.text.ends_with(b"\n"),
                "line {line} is longer than {MAX_LINE} bytes"
            );
            if !self.text.trim_ascii().is_empty() {
                self.run = run(&self.text).with_context(|| format!("line {line}"))?;
            }
        }
    }
}

/// The keys that one line `start count …` stands for.
fn run(line: &[u8]) -> anyhow::Result<Range<u64>> {
    let text = std::str::from_utf8(line).context("is not text")?;
    let mut fields = text.split_ascii_whitespace();
    let mut number = |name: &str| -> anyhow::Result<u64> {
        let field = fields.next().with_context(|| format!("has no {name}"))?;
        field.parse().with_context(|| format!("{name} {field:?} is not a 64-bit number"))
    };
    let (start, count) = (number("start")?, number("count")?);
    ensure!(count <= MAX_RUN, "count {count} is above the limit of {MAX_RUN} keys for one line");
    let end = start
        .checked_add(count)
        .with_context(|| format!("start {start} and count {count} leave the 64-bit numbers"))?;
    Ok(start..end)
}

impl<R: BufRead> Iterator for TraceRecords<R> {
    type Item = anyhow::Result<u64>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.read().transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}
