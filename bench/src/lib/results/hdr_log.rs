//! A run's histograms as an HdrHistogram log (format 1.3): HdrHistogram's own tools and plotters
//! read it.
use crate::lib::load::measure::Slice;
use anyhow::{Context, anyhow};
use hdrhistogram::serialization::{
    V2DeflateSerializer,
    interval_log::{IntervalLogWriterBuilder, Tag},
};
use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    time::{Duration, SystemTime},
};

/// Writes one histogram of latencies and one of service times, in nanoseconds, for each slice.
pub(crate) struct HdrLog {
    file: BufWriter<File>,
    serializer: V2DeflateSerializer,
    length: Duration,
}

impl HdrLog {
    /// Creates the file, for slices of this length.
    pub(crate) fn create(path: &Path, length: Duration) -> anyhow::Result<HdrLog> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let (mut file, mut serializer) = (BufWriter::new(file), V2DeflateSerializer::new());
        IntervalLogWriterBuilder::new()
            .add_comment("[Histogram log format version 1.3]")
            .add_comment("[larder-bench; values in nanoseconds; tags: latency (from the intended start), service]")
            .with_start_time(SystemTime::now())
            .begin_log_with(&mut file, &mut serializer)
            .context("cannot write the HdrHistogram log")?;
        Ok(HdrLog { file, serializer, length })
    }

    /// Writes a slice.
    pub(crate) fn write(&mut self, slice: &Slice) -> anyhow::Result<()> {
        let mut log = IntervalLogWriterBuilder::new()
            .begin_log_with(&mut self.file, &mut self.serializer)
            .context("cannot write the HdrHistogram log")?;
        let start = self.length * slice.index as u32;
        for (tag, histogram) in [("latency", &slice.latency), ("service", &slice.service)] {
            log.write_histogram(histogram, start, self.length, Tag::new(tag))
                .map_err(|error| anyhow!("cannot write the HdrHistogram log: {error:?}"))?;
        }
        self.file.flush().context("cannot write the HdrHistogram log")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::{
        Histogram,
        serialization::interval_log::{IntervalLogIterator, LogEntry},
    };

    #[test]
    fn a_log_reads_back() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut log = HdrLog::create(file.path(), Duration::from_millis(500)).expect("created");
        for index in [0, 1] {
            let mut slice = Slice::new(index);
            slice.latency.saturating_record_n(1_000_000, 10 + index);
            log.write(&slice).expect("written");
        }
        let text = std::fs::read(file.path()).expect("there");
        let intervals: Vec<_> = IntervalLogIterator::new(&text)
            .filter_map(|entry| match entry.expect("well-formed") {
                LogEntry::Interval(interval) => Some(interval),
                _ => None,
            })
            .collect();
        assert_eq!(intervals.len(), 4);
        let latency = &intervals[2];
        assert_eq!(latency.tag(), Tag::new("latency"));
        assert_eq!(latency.start_timestamp(), Duration::from_millis(500));
        use hdrhistogram::serialization::Deserializer;
        let bytes = base64_of(latency.encoded_histogram());
        let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).expect("a histogram");
        assert_eq!(histogram.len(), 11);
        assert_eq!(histogram.value_at_quantile(1.0) / 1000, 1000);
    }

    /// RFC 4648.
    fn base64_of(text: &str) -> Vec<u8> {
        let digit = |byte: u8| match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let (mut bits, mut held, mut out) = (0u32, 0, Vec::new());
        for byte in text.bytes().filter(|&byte| byte != b'=') {
            bits = bits << 6 | u32::from(digit(byte));
            held += 6;
            if held >= 8 {
                held -= 8;
                out.push((bits >> held) as u8);
            }
        }
        out
    }
}
