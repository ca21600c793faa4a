//! HyperLogLogs as Redis keeps them in strings: 16,384 registers of 6 bits each, packed (dense) or as
//! runs of equal registers (sparse), behind a header with the latest count.
//!
//! The same elements in the same order give the same bytes as in Redis. The estimate is that of
//! Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (arXiv:1702.01284).
//!
//! ```text
//! "HYLL"  encoding (1 byte)  unused (3 bytes)  count (8 bytes, little-endian; its highest bit: not valid)  registers
//! sparse:  00nnnnnn: n+1 zeros   01nnnnnn nnnnnnnn: n+1 zeros   1vvvvvnn: n+1 registers of value v+1
//! ```
use std::ops::Range;

const REGISTERS: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 14;
/// Bits of a hash that are no index. The largest register is one more.
const RANK_BITS: usize = 64 - INDEX_BITS as usize;
const HEADER: usize = 16;
const DENSE_LEN: usize = HEADER + REGISTERS * 6 / 8;
/// A sparse value that would become longer becomes dense (`hll-sparse-max-bytes`).
const LONGEST_SPARSE: usize = 3000;
/// Each register takes at most the two bytes of a run of zeros.
const LONGEST_VALID: usize = HEADER + 2 * REGISTERS;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// The largest value of a register, and the most registers, of a sparse run.
const MAX_VALUE: u8 = 32;
const MAX_RUN: usize = 4;
/// The most zeros in a run of one byte.
const SHORT_ZEROS: usize = 64;

/// Where the count is.
pub const COUNT: Range<usize> = 8..HEADER;

/// Why bytes are no HyperLogLog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalid {
    /// They do not begin like one.
    Other,
    /// The runs of registers are not 16,384 registers.
    Corrupt,
}

/// Whether a value is dense.
fn is_dense(value: &[u8]) -> Result<bool, Invalid> {
    match value.get(4) {
        _ if value.len() < HEADER || !value.starts_with(b"HYLL") => Err(Invalid::Other),
        Some(&DENSE) if value.len() == DENSE_LEN => Ok(true),
        Some(&SPARSE) if value.len() <= LONGEST_VALID => Ok(false),
        Some(&SPARSE) => Err(Invalid::Corrupt),
        _ => Err(Invalid::Other),
    }
}

/// The count that a value has in its header, if it is that of its registers.
///
/// # Errors
/// It does not begin like a HyperLogLog.
pub fn known_count(value: &[u8]) -> Result<Option<u64>, Invalid> {
    is_dense(value)?;
    let count = value[COUNT].first_chunk().map_or(0, |count| u64::from_le_bytes(*count));
    Ok((count >> 63 == 0).then_some(count))
}

/// Estimates how many different elements were added to a value.
///
/// # Errors
/// It is no HyperLogLog.
pub fn count(value: &[u8]) -> Result<u64, Invalid> {
    let mut histogram = [0; 64];
    each_run(value, |run, value| histogram[usize::from(value)] += run.len())?;
    Ok(estimate(&histogram))
}

/// The greatest registers of several HyperLogLogs: those of their union.
#[derive(Debug)]
pub struct Union {
    registers: Box<[u8; REGISTERS]>,
    /// One of them is dense, so the union is written so.
    is_dense: bool,
}

impl Default for Union {
    fn default() -> Union {
        Union { registers: Box::new([0; REGISTERS]), is_dense: false }
    }
}

impl Union {
    /// Adds the elements of a value.
    ///
    /// # Errors
    /// It is no HyperLogLog.
    pub fn add(&mut self, value: &[u8]) -> Result<(), Invalid> {
        self.is_dense |= is_dense(value)?;
        each_run(value, |run, value| {
            self.registers[run].iter_mut().for_each(|register| *register = value.max(*register))
        })
    }
    /// Estimates how many different elements all values have.
    pub fn count(&self) -> u64 {
        let mut histogram = [0; 64];
        self.registers.iter().for_each(|value| histogram[usize::from(*value)] += 1);
        estimate(&histogram)
    }
}

/// A value that changes.
#[derive(Debug)]
pub struct HyperLogLog<'v>(&'v mut Vec<u8>);

impl<'v> HyperLogLog<'v> {
    /// Without elements, in an empty buffer.
    pub fn create(buffer: &'v mut Vec<u8>) -> HyperLogLog<'v> {
        buffer.extend_from_slice(b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\x7f\xff");
        HyperLogLog(buffer)
    }

    /// A copy of a value, in an empty buffer.
    ///
    /// # Errors
    /// It does not begin like a HyperLogLog. Runs of registers are looked at where that is necessary.
    pub fn copy(value: &[u8], buffer: &'v mut Vec<u8>) -> Result<HyperLogLog<'v>, Invalid> {
        is_dense(value)?;
        buffer.extend_from_slice(value);
        Ok(HyperLogLog(buffer))
    }

    /// Adds an element. Whether a register has changed.
    ///
    /// # Errors
    /// The value is corrupt.
    pub fn add(&mut self, element: &[u8]) -> Result<bool, Invalid> {
        let (index, rank) = place(element);
        self.raise(index, rank)
    }

    /// Adds all elements of a union, which has those of this value.
    ///
    /// # Errors
    /// The value is corrupt.
    pub fn add_all(&mut self, union: &Union) -> Result<(), Invalid> {
        if union.is_dense {
            self.become_dense()?;
        }
        for (index, value) in union.registers.iter().enumerate().filter(|(_, value)| **value > 0) {
            self.raise(index, *value)?;
        }
        self.forget_count();
        Ok(())
    }

    fn is_dense(&self) -> bool {
        self.0[4] == DENSE
    }

    fn forget_count(&mut self) {
        self.0[COUNT.end - 1] |= 0x80;
    }

    /// Makes a register at least this large. Whether it was less.
    fn raise(&mut self, index: usize, to: u8) -> Result<bool, Invalid> {
        let is_raised = match self.is_dense() {
            true => raise_dense(&mut self.0[HEADER..], index, to),
            false => self.raise_sparse(index, to)?,
        };
        if is_raised {
            self.forget_count();
        }
        Ok(is_raised)
    }

    fn raise_sparse(&mut self, index: usize, to: u8) -> Result<bool, Invalid> {
        // Only a value that a client made is longer, and each walk through it would be long.
        if to > MAX_VALUE || self.0.len() > LONGEST_SPARSE {
            self.become_dense()?;
            return self.raise(index, to);
        }
        let (mut at, mut first, mut previous) = (HEADER, 0, HEADER);
        let run = loop {
            let run = Run::at(self.0, at).ok_or(Invalid::Corrupt)?;
            if index < first + run.registers {
                break run;
            }
            previous = at;
            (at, first) = (at + run.bytes, first + run.registers);
        };
        if run.value >= to {
            return Ok(false);
        }
        let (before, after) = (index - first, first + run.registers - 1 - index);
        let mut new = NewRuns::default();
        new.push(run.value, before);
        new.push(to, 1);
        new.push(run.value, after);
        if new.len > run.bytes && self.0.len() + new.len - run.bytes > LONGEST_SPARSE {
            self.become_dense()?;
            return self.raise(index, to);
        }
        self.0.splice(at..at + run.bytes, new.bytes[..new.len].iter().copied());
        self.join_runs(previous);
        Ok(true)
    }

    /// Joins equal runs from here on, as far as Redis looks: five runs.
    fn join_runs(&mut self, mut at: usize) {
        for _ in 0..5 {
            let Some(run) = Run::at(self.0, at) else { return };
            let next = Run::at(self.0, at + run.bytes);
            let joined =
                next.filter(|next| run.value > 0 && next.value == run.value).map(|next| run.registers + next.registers);
            match joined.filter(|joined| *joined <= MAX_RUN) {
                Some(joined) => {
                    self.0[at] = value_run(run.value, joined);
                    self.0.remove(at + 1);
                }
                None => at += run.bytes,
            }
        }
    }

    fn become_dense(&mut self) -> Result<(), Invalid> {
        if self.is_dense() {
            return Ok(());
        }
        let mut registers = [0; DENSE_LEN - HEADER];
        each_run(self.0, |run, value| {
            if value > 0 {
                run.for_each(|index| _ = raise_dense(&mut registers, index, value));
            }
        })?;
        self.0.truncate(HEADER);
        self.0[4] = DENSE;
        self.0.extend_from_slice(&registers);
        Ok(())
    }
}

/// A run of equal registers in a sparse value.
#[derive(Debug, Clone, Copy)]
struct Run {
    bytes: usize,
    registers: usize,
    value: u8,
}

impl Run {
    /// The run that begins at this byte; `None`: there is none, or not all of it.
    fn at(value: &[u8], at: usize) -> Option<Run> {
        let byte = *value.get(at)?;
        let few = usize::from(byte & 0x3f);
        Some(match byte >> 6 {
            0 => Run { bytes: 1, registers: few + 1, value: 0 },
            1 => Run { bytes: 2, registers: (few << 8 | usize::from(*value.get(at + 1)?)) + 1, value: 0 },
            _ => Run { bytes: 1, registers: usize::from(byte & 3) + 1, value: (byte >> 2 & 31) + 1 },
        })
    }
}

fn value_run(value: u8, registers: usize) -> u8 {
    0x80 | (value - 1) << 2 | (registers - 1) as u8
}

/// What takes the place of a run: at most three runs.
#[derive(Default)]
struct NewRuns {
    bytes: [u8; 5],
    len: usize,
}

impl NewRuns {
    fn push(&mut self, value: u8, registers: usize) {
        let Some(zeros) = registers.checked_sub(1) else { return };
        let [high, low] = (zeros as u16).to_be_bytes();
        let run: &[u8] = match value {
            0 if registers > SHORT_ZEROS => &[0x40 | high, low],
            0 => &[low],
            value => &[value_run(value, registers)],
        };
        self.bytes[self.len..][..run.len()].copy_from_slice(run);
        self.len += run.len();
    }
}

/// Calls `each` with the registers of each run and their value.
fn each_run(value: &[u8], mut each: impl FnMut(Range<usize>, u8)) -> Result<(), Invalid> {
    if is_dense(value)? {
        let registers = &value[HEADER..];
        (0..REGISTERS).for_each(|index| each(index..index + 1, dense_register(registers, index)));
        return Ok(());
    }
    let (mut at, mut first) = (HEADER, 0);
    while at < value.len() {
        let run = Run::at(value, at).filter(|run| first + run.registers <= REGISTERS).ok_or(Invalid::Corrupt)?;
        each(first..first + run.registers, run.value);
        (at, first) = (at + run.bytes, first + run.registers);
    }
    if first == REGISTERS { Ok(()) } else { Err(Invalid::Corrupt) }
}

/// The byte in which a dense register begins, at which bit, and the two bytes from there on. Behind
/// the last byte there is a zero.
fn dense_bits(registers: &[u8], index: usize) -> (usize, usize, u16) {
    let (byte, shift) = (index * 6 / 8, index * 6 % 8);
    (byte, shift, u16::from_le_bytes([registers[byte], registers.get(byte + 1).copied().unwrap_or(0)]))
}

fn dense_register(registers: &[u8], index: usize) -> u8 {
    let (_, shift, bits) = dense_bits(registers, index);
    (bits >> shift) as u8 & 63
}

fn raise_dense(registers: &mut [u8], index: usize, to: u8) -> bool {
    let (byte, shift, bits) = dense_bits(registers, index);
    if (bits >> shift) as u8 & 63 >= to {
        return false;
    }
    let bits = bits & !(63 << shift) | u16::from(to) << shift;
    let len = 2.min(registers.len() - byte);
    registers[byte..byte + len].copy_from_slice(&bits.to_le_bytes()[..len]);
    true
}

/// The register of an element, and how large the element makes it.
fn place(element: &[u8]) -> (usize, u8) {
    let hash = murmur64a(element, 0xadc8_3b19);
    let rank = (hash >> INDEX_BITS | 1 << RANK_BITS).trailing_zeros() + 1;
    (hash as usize % REGISTERS, rank as u8)
}

/// MurmurHash2, for 64 bits.
fn murmur64a(bytes: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> R;
        hash = (hash ^ word.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(M);
    }
    hash = (hash ^ hash >> R).wrapping_mul(M);
    hash ^ hash >> R
}

/// Estimates the number of elements from the number of registers of each value.
fn estimate(histogram: &[usize; 64]) -> u64 {
    /// `0.5 / ln(2)`
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    let m = REGISTERS as f64;
    let mut z = m * tau((m - histogram[RANK_BITS + 1] as f64) / m);
    for count in histogram[1..=RANK_BITS].iter().rev() {
        z = (z + *count as f64) * 0.5;
    }
    z += m * sigma(histogram[0] as f64 / m);
    (ALPHA * m * m / z).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The registers as numbers.
    fn registers(value: &[u8]) -> Vec<u8> {
        let mut union = Union::default();
        union.add(value).expect("a HyperLogLog");
        union.registers.to_vec()
    }

    /// A value with a run for each register would be walked through for each register.
    #[test]
    fn a_longer_sparse_value_than_redis_makes_becomes_dense() {
        let mut value = of(&[]);
        value.truncate(HEADER);
        value.extend([value_run(MAX_VALUE, 1); REGISTERS]);
        let before = registers(&value);
        let mut changed = Vec::new();
        assert_eq!(HyperLogLog::copy(&value, &mut changed).expect("valid").add(b"a"), Ok(false));
        assert_eq!((changed.len(), registers(&changed)), (DENSE_LEN, before));
    }

    fn of(elements: &[Vec<u8>]) -> Vec<u8> {
        let mut buffer = Vec::new();
        let mut value = HyperLogLog::create(&mut buffer);
        for element in elements {
            value.add(element).expect("it is valid");
        }
        buffer
    }

    fn numbers(range: Range<u32>) -> Vec<Vec<u8>> {
        range.map(|number| number.to_string().into_bytes()).collect()
    }

    /// Bytes and counts of redis-server 7.0.
    #[test]
    fn values_are_those_of_redis() {
        let empty = of(&[]);
        assert_eq!(empty, b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\x7f\xff");
        assert_eq!((known_count(&empty), count(&empty)), (Ok(None), Ok(0)));
        assert_eq!(of(&[b"a".to_vec()])[HEADER..], [0x71, 0xa6, 0x84, 0x4e, 0x57]);
        for (elements, found, len) in [(1000, 1001, 1923), (10_000, 9987, DENSE_LEN), (100_000, 99_565, DENSE_LEN)] {
            let value = of(&numbers(0..elements));
            assert_eq!((count(&value), value.len()), (Ok(found), len), "{elements}");
        }
    }

    #[test]
    fn estimates_are_near_and_dense_values_begin_where_sparse_ones_are_too_long() {
        for elements in [1, 10, 100, 1000, 10_000] {
            let value = of(&numbers(0..elements));
            let found = count(&value).expect("it is valid") as f64;
            assert!((found / f64::from(elements) - 1.0).abs() < 0.03, "{elements}: {found}");
            assert_eq!(value.len() == DENSE_LEN, elements >= 10_000, "{elements}");
            assert!(value.len() == DENSE_LEN || value.len() <= LONGEST_SPARSE);
        }
    }

    #[test]
    fn what_is_no_value_is_refused() {
        let good = of(&numbers(0..100));
        let dense = of(&numbers(0..10_000));
        let change = |at: usize, byte: u8| {
            let mut bad = good.clone();
            bad[at] = byte;
            bad
        };
        for (bad, why) in [
            (b"".to_vec(), Invalid::Other),
            (b"HYLL\x01\0\0\0\0\0\0\0\0\0\0".to_vec(), Invalid::Other),
            (change(0, b'h'), Invalid::Other),
            (change(4, 2), Invalid::Other),
            (change(4, DENSE), Invalid::Other),
            (dense[..dense.len() - 1].to_vec(), Invalid::Other),
            (good[..good.len() - 1].to_vec(), Invalid::Corrupt),
            (good[..HEADER].to_vec(), Invalid::Corrupt),
            ([&good[..], &[0]].concat(), Invalid::Corrupt),
            ([&good[..HEADER], &[0x7f]].concat(), Invalid::Corrupt),
            ([&good[..HEADER], &[0x80].repeat(LONGEST_VALID)].concat(), Invalid::Corrupt),
        ] {
            assert_eq!(count(&bad), Err(why), "{} bytes", bad.len());
            assert_eq!(Union::default().add(&bad), Err(why), "{} bytes", bad.len());
        }
        let mut buffer = Vec::new();
        let mut cut = HyperLogLog::copy(&good[..HEADER], &mut buffer).expect("it begins like one");
        assert_eq!(cut.add(b"x"), Err(Invalid::Corrupt));
    }

    proptest! {
        /// However elements come and values are merged, the registers are those of the model: the
        /// greatest rank of the elements of each.
        #[test]
        fn registers_are_the_greatest_ranks(
            parts in prop::collection::vec((any::<u32>(), 0..900_u32), 1..5),
            times in 1..3_usize,
        ) {
            let mut model = vec![0; REGISTERS];
            let mut union = Union::default();
            for (from, len) in &parts {
                let from = *from % 100_000;
                let elements = vec![numbers(from..from + len); times].concat();
                for (index, rank) in elements.iter().map(|element| place(element)) {
                    model[index] = rank.max(model[index]);
                }
                let value = of(&elements);
                prop_assert!(value.len() <= LONGEST_SPARSE || value.len() == DENSE_LEN);
                union.add(&value).expect("it is valid");
                prop_assert_eq!(Ok(union.count()), {
                    let mut buffer = Vec::new();
                    let mut merged = HyperLogLog::create(&mut buffer);
                    merged.add_all(&union).expect("it is valid");
                    count(&buffer)
                });
            }
            prop_assert_eq!(&union.registers[..], &model[..]);
            let mut buffer = Vec::new();
            HyperLogLog::create(&mut buffer).add_all(&union).expect("it is valid");
            prop_assert_eq!(registers(&buffer), model);
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            (mut value, element) in (prop::collection::vec(any::<u8>(), 0..40), any::<Vec<u8>>()),
            begins in any::<bool>(),
        ) {
            if begins {
                value.splice(0..0, *b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0");
            }
            let _ = (known_count(&value), count(&value));
            let mut buffer = Vec::new();
            if let Ok(mut copy) = HyperLogLog::copy(&value, &mut buffer) {
                let _ = copy.add(&element);
            }
        }
    }
}
