//! Recorded operations (`.ops`): what was asked, when, of which key, in about six bytes each.
//!
//! ```text
//! file      = "LARDOPS1" record*
//! record    = kind:u8 (0 get, 1 set, 2 del)  microseconds since the record before:varint  key:varint  [set: bytes of the value:varint]
//! varint    = seven bits a byte, the lowest first; the highest bit says that another byte follows
//! ```
//! Keys are numbers in the order of their first appearance: neither a key nor its hash can be had
//! back from a trace.
use anyhow::{Context, bail, ensure};
use std::io::{self, Read, Write};

const MAGIC: &[u8; 8] = b"LARDOPS1";
/// Largest value that an operation may have written.
const MAX_SIZE: u64 = 512 << 20;

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperationKind {
    /// A key was read.
    Get,
    /// A key was written, with a value of so many bytes.
    Set(u32),
    /// A key was removed.
    Del,
}

/// A recorded operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TracedOperation {
    /// Microseconds since the beginning of the trace.
    pub(crate) at: u64,
    /// What was asked.
    pub(crate) kind: OperationKind,
    /// The key's number.
    pub(crate) key: u64,
}

/// Writes a trace.
pub(crate) struct TraceWriter<W> {
    out: W,
    last: u64,
}

impl<W: Write> TraceWriter<W> {
    /// Begins a trace.
    pub(crate) fn new(mut out: W) -> io::Result<TraceWriter<W>> {
        out.write_all(MAGIC)?;
        Ok(TraceWriter { out, last: 0 })
    }

    /// Appends an operation; one that is earlier than the one before is put at that one's time.
    pub(crate) fn write(&mut self, operation: TracedOperation) -> io::Result<()> {
        let (kind, size) = match operation.kind {
            OperationKind::Get => (0, None),
            OperationKind::Set(size) => (1, Some(size)),
            OperationKind::Del => (2, None),
        };
        let since = operation.at.saturating_sub(self.last);
        self.last += since;
        self.out.write_all(&[kind])?;
        self.varint(since)?;
        self.varint(operation.key)?;
        size.map_or(Ok(()), |size| self.varint(size.into()))
    }

    /// The end; what was written to.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn varint(&mut self, mut number: u64) -> io::Result<()> {
        while number >= 0x80 {
            self.out.write_all(&[number as u8 | 0x80])?;
            number >>= 7;
        }
        self.out.write_all(&[number as u8])
    }
}

/// The operations of a trace. After an error it ends.
pub(crate) struct Reader<R> {
    input: R,
    at: u64,
    begun: bool,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// From the beginning of a trace.
    pub(crate) fn new(input: R) -> Reader<R> {
        Reader { input, at: 0, begun: false, ended: false }
    }

    fn byte(&mut self) -> anyhow::Result<Option<u8>> {
        let mut byte = [0];
        match self.input.read_exact(&mut byte) {
            Ok(()) => Ok(Some(byte[0])),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn varint(&mut self) -> anyhow::Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?.context("the trace ends within an operation")?;
            ensure!(shift < 63 || byte <= 1, "a number of more than 64 bits");
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        bail!("a number of more than 64 bits")
    }

    fn read(&mut self) -> anyhow::Result<Option<TracedOperation>> {
        if !self.begun {
            let mut magic = [0; 8];
            self.input.read_exact(&mut magic).ok().filter(|()| &magic == MAGIC).context("is no trace of operations")?;
            self.begun = true;
        }
        let Some(kind) = self.byte()? else { return Ok(None) };
        let since = self.varint()?;
        self.at = self.at.checked_add(since).context("the times leave the 64-bit numbers")?;
        let key = self.varint()?;
        let kind = match kind {
            0 => OperationKind::Get,
            1 => {
                let size = self.varint()?;
                ensure!(size <= MAX_SIZE, "a value of {size} bytes is above the limit of {MAX_SIZE}");
                OperationKind::Set(size as u32)
            }
            2 => OperationKind::Del,
            kind => bail!("operation {kind} is none of get, set, del"),
        };
        Ok(Some(TracedOperation { at: self.at, kind, key }))
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = anyhow::Result<TracedOperation>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.read().transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(operations: &[TracedOperation]) -> Vec<u8> {
        let mut writer = TraceWriter::new(Vec::new()).expect("a vector");
        operations.iter().for_each(|&operation| writer.write(operation).expect("a vector"));
        writer.finish().expect("a vector")
    }

    fn read(bytes: &[u8]) -> anyhow::Result<Vec<TracedOperation>> {
        Reader::new(bytes).collect()
    }

    proptest! {
        #[test]
        fn reads_back(steps in prop::collection::vec((0..1u64 << 40, any::<u64>(), 0..4u8, 0..1u32 << 29), 0..100)) {
            let mut at = 0;
            let operations: Vec<_> = steps.into_iter().map(|(since, key, kind, size)| {
                at += since;
                let kind = match kind { 0 | 1 => OperationKind::Get, 2 => OperationKind::Set(size), _ => OperationKind::Del };
                TracedOperation { at, kind, key }
            }).collect();
            let bytes = written(&operations);
            prop_assert_eq!(read(&bytes).expect("well-formed"), operations);
            // A trace that was cut is read up to the last whole operation, or refused.
            prop_assert!(bytes.len() <= 8 || read(&bytes[..7]).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&[MAGIC, &bytes[..]].concat());
            prop_assert!(bytes.starts_with(MAGIC) || read(&bytes).is_err());
        }
    }

    #[test]
    fn a_get_takes_a_few_bytes() {
        let operations: Vec<_> = (0..1000)
            .map(|number| TracedOperation { at: number * 100, kind: OperationKind::Get, key: number % 5000 })
            .collect();
        assert!(written(&operations).len() < 5 * 1000);
    }

    #[test]
    fn hostile_numbers_are_refused() {
        let error = |record: &[u8]| read(&[MAGIC, record].concat()).expect_err("refused").to_string();
        assert!(error(&[9, 0, 0]).contains("none of get"));
        assert!(error(&[0, 0]).contains("ends within"));
        assert!(error(&[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0]).contains("64 bits"));
        assert!(error(&[1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]).contains("limit"));
    }
}
