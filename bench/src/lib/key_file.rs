//! Files of keys, or of keys and values, written line by line: memory use does not grow with them.
use super::load::{
    keys::Names,
    values::{Sizes, ValueMaker},
};
use fastrand::Rng;
use std::io::{BufWriter, Write};

/// What is written.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct KeyFile {
    /// Number of keys
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) keys: u64,
    /// How a key reads: a text with {uuid}, n in braces, or {n:012}
    #[arg(long, value_name = "PATTERN", default_value = "{uuid}")]
    pub(crate) key: String,
    /// What a line holds
    #[arg(long, value_enum, default_value_t = KeyFileFormat::Keys)]
    pub(crate) format: KeyFileFormat,
    /// How long values are (text, tsv): 64, 16-1024, 64=90,4KiB=10 (weights), lognormal:MEDIAN:SIGMA:MOST
    #[arg(long, value_name = "SIZES", default_value = "64")]
    pub(crate) value_size: Sizes,
    /// Other UUIDs and values for another seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

/// What a line holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum KeyFileFormat {
    /// A key
    Keys,
    /// A key, a blank, a value
    Text,
    /// A key, a tab, a value; the first line names the columns
    Tsv,
}

impl KeyFile {
    /// Writes the lines; says how many bytes they have. `written` is told now and then how many lines
    /// there are.
    pub(crate) fn write(&self, out: &mut dyn Write, written: &mut dyn FnMut(u64)) -> anyhow::Result<u64> {
        /// How often `written` is told.
        const STEP: u64 = 4096;
        let names = Names::pattern(&self.key)?.seeded(self.seed);
        let values = ValueMaker::new(self.value_size.clone(), self.seed);
        let mut rng = Rng::with_seed(self.seed);
        let mut out = BufWriter::with_capacity(64 * 1024, out);
        let (mut line, mut bytes) = (Vec::new(), 0);
        if self.format == KeyFileFormat::Tsv {
            line.extend_from_slice(b"key\tvalue\n");
        }
        for number in 0..self.keys {
            names.write(number, &mut line);
            match self.format {
                KeyFileFormat::Keys => {}
                KeyFileFormat::Text => line.push(b' '),
                KeyFileFormat::Tsv => line.push(b'\t'),
            }
            if self.format != KeyFileFormat::Keys {
                line.extend_from_slice(values.sample(&mut rng));
            }
            line.push(b'\n');
            out.write_all(&line)?;
            bytes += line.len() as u64;
            line.clear();
            if number % STEP == 0 {
                written(number);
            }
        }
        out.flush()?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::{collections::HashSet, io};

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        file: KeyFile,
    }

    fn file(options: &str) -> KeyFile {
        Program::try_parse_from(["data"].into_iter().chain(options.split_whitespace())).expect(options).file
    }

    fn lines(options: &str) -> Vec<String> {
        let mut out = Vec::new();
        file(options).write(&mut out, &mut |_| {}).expect(options);
        String::from_utf8(out).expect("text").lines().map(str::to_owned).collect()
    }

    #[test]
    fn keys_are_the_generators_own_and_follow_the_seed() {
        let keys = lines("--keys 10000");
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 10_000);
        let mut ninth = Vec::new();
        Names::pattern("{uuid}").expect("a pattern").write(9, &mut ninth);
        assert_eq!(keys[9].as_bytes(), ninth);
        assert_eq!(lines("--keys 10000 --seed 0"), keys);
        let others: HashSet<_> = lines("--keys 10000 --seed 7").into_iter().collect();
        assert_eq!(others.len(), 10_000);
        assert!(keys.iter().all(|key| !others.contains(key)));
        assert_eq!(lines("--keys 2 --key user:{n:03}"), ["user:000", "user:001"]);
    }

    #[test]
    fn formats_have_values_of_the_size_that_was_asked_for() {
        let text = lines("--keys 100 --format text --value-size 20-50");
        let sizes: HashSet<usize> = text.iter().map(|line| line.split_once(' ').expect("a value").1.len()).collect();
        assert!(sizes.len() > 10 && sizes.iter().all(|size| (20..=50).contains(size)), "{sizes:?}");
        let tsv = lines("--keys 3 --format tsv --value-size 5");
        assert_eq!((tsv.len(), tsv[0].as_str()), (4, "key\tvalue"));
        assert_eq!(tsv[3].split('\t').map(str::len).collect::<Vec<_>>(), [36, 5]);
    }

    /// Counts what it is given, and the most in one piece.
    #[derive(Default)]
    struct Sink {
        bytes: u64,
        largest: usize,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.bytes += bytes.len() as u64;
            self.largest = self.largest.max(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_million_keys_leave_in_small_pieces() {
        let mut sink = Sink::default();
        let bytes = file("--keys 1000000").write(&mut sink, &mut |_| {}).expect("a sink takes everything");
        assert_eq!((bytes, sink.bytes), (37_000_000, 37_000_000));
        assert!(sink.largest <= 64 * 1024, "{}", sink.largest);
    }
}
