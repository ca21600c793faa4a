//! Making a table of an input of any size in bounded memory.
//!
//! Records go by the first bits of their hashes into partitions, which spill to a file when they
//! outgrow the memory. Then one partition after the other is sorted by hash, rid of duplicates,
//! indexed and written: it is in memory alone.
use super::{
    entries::{BadLines, LineRules},
    error::TableError,
    format::Origin,
    frames::{FrameCompression, FrameEncoder, Sample},
    index::Hash,
    input::{Format, Input},
    limits::MAX_KEY,
    open::Table,
    progress::Progress,
    spill::{PARTITION_BITS, Record, Spill},
    walk::Position,
    write::{Item, Writer},
};
use std::{collections::VecDeque, path::PathBuf};

/// A part has up to about so many entries: few enough to be built in the processor's cache, many
/// enough that the directory stays small.
const PART_ENTRIES: u64 = 1 << 16;

/// What to do with a key that comes twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Duplicates {
    /// The last one counts.
    #[default]
    Last,
    /// The build ends in an error.
    Error,
}

/// What to build.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// What it is made of.
    pub input: Input,
    /// A table that the input changes; its entries come first.
    pub base: Option<PathBuf>,
    /// A file with keys, one a line, that the table is not to have.
    pub remove: Option<PathBuf>,
    /// Where it goes.
    pub output: PathBuf,
    /// What to do with a key that comes twice in the input.
    pub duplicates: Duplicates,
    /// A bad line ends the build.
    pub strict: bool,
    /// Bytes to use for records, about; more are spilled to a file beside the output.
    pub memory: usize,
    /// Of the hash. Any will do; another one where keys were chosen to collide under it.
    pub seed: u64,
    /// How values are kept; `None`: as in the table that it is made of, and as they are if it is
    /// made of none.
    pub compression: Option<FrameCompression>,
}

impl BuildOptions {
    /// Memory to use unless told otherwise, bytes.
    pub const MEMORY: usize = 512 << 20;

    /// A table at `output` of all that is in the input and nothing else; a bad line is left out.
    pub fn of(input: Input, output: PathBuf) -> BuildOptions {
        BuildOptions {
            input,
            base: None,
            remove: None,
            output,
            duplicates: Duplicates::Last,
            strict: false,
            memory: BuildOptions::MEMORY,
            seed: 0,
            compression: None,
        }
    }
}

/// What was built.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Built {
    /// Entries of the table.
    pub entries: u64,
    /// Entries of the input that a later one replaced.
    pub replaced: u64,
    /// Lines that could not be used.
    pub bad: BadLines,
    /// Bytes that did not fit into memory.
    pub spilled: u64,
}

/// Builds a table. The output is there when this returns, whole and durable, and is as it was
/// before if this fails.
///
/// # Errors
/// A file that cannot be read or written; a bad line (if [`strict`](BuildOptions::strict)) or a
/// duplicate (if it counts as an error), with its number.
pub fn build(options: &BuildOptions, progress: &mut dyn FnMut(Progress)) -> Result<Built, TableError> {
    if options.input.format != Format::Table && options.input.is_file(&options.output) {
        let name = options.input.name();
        return Err(TableError::Input(format!("{name}: is the input: the table needs a name of its own").into()));
    }
    let mut built = Built::default();
    let mut spill = Spill::new(options.memory / 4 * 3, &options.output);
    let origin = read_all(options, &mut spill, &mut built, progress)?;
    spill.end()?;
    let records = spill.records();
    let part_bits = records.div_ceil(PART_ENTRIES).max(1).next_power_of_two().ilog2();
    let unit_bits = part_bits.min(PARTITION_BITS);
    let (partitions, parts) = (1usize << (PARTITION_BITS - unit_bits), 1usize << (part_bits - unit_bits));
    let mut units = (0..1usize << unit_bits).map(|unit| spill.take(unit * partitions..(unit + 1) * partitions));
    // Units that were looked at already.
    let mut ahead = VecDeque::new();
    let encoder = match compression(options)? {
        FrameCompression::None => None,
        FrameCompression::Zstd => {
            // Hashes are random: the first by hash are as good as any, and the same ones whatever the memory.
            let mut sample = Sample::default();
            while !sample.is_full()
                && let Some(pieces) = units.next().transpose()?
            {
                let places = sorted(&pieces, options.seed);
                let items = distinct(&pieces, &places, options.duplicates, &mut Built::default())?;
                items.iter().for_each(|item| sample.push(item.value));
                ahead.push_back(pieces);
            }
            Some(FrameEncoder::new(&sample)?)
        }
    };
    let mut writer = Writer::create(&options.output, part_bits, options.seed, origin, encoder)?;
    let mut seen = 0;
    for unit in 0..1usize << unit_bits {
        let pieces = match ahead.pop_front() {
            Some(pieces) => pieces,
            None => units.next().expect("as many as are counted")?,
        };
        let places = sorted(&pieces, options.seed);
        seen += places.len() as u64;
        let items = distinct(&pieces, &places, options.duplicates, &mut built)?;
        let mut rest = &items[..];
        for part in unit * parts..(unit + 1) * parts {
            let (these, others) = rest.split_at(rest.partition_point(|item| item.hash.part(part_bits) <= part));
            writer.part(these)?;
            rest = others;
        }
        built.entries += items.len() as u64;
        progress(Progress::Writing(seen, records));
    }
    built.spilled = spill.spilled();
    writer.finish()?;
    Ok(built)
}

/// What was asked for, else what the table that this one is made of has.
fn compression(options: &BuildOptions) -> Result<FrameCompression, TableError> {
    let input = (options.input.format == Format::Table).then_some(&options.input.path);
    match (options.compression, options.base.as_ref().or(input)) {
        (Some(wanted), _) => Ok(wanted),
        (None, Some(table)) => Ok(Table::open(table)?.compression()),
        (None, None) => Ok(FrameCompression::None),
    }
}

/// Reads everything that the table is made of.
fn read_all(
    options: &BuildOptions,
    spill: &mut Spill<'_>,
    built: &mut Built,
    progress: &mut dyn FnMut(Progress),
) -> Result<Origin, TableError> {
    let mut push = |record: Record<'_>| spill.push(Hash::of(record.key, options.seed), record);
    if let Some(base) = &options.base {
        let base = Table::open(base)?;
        for entry in base.entries(Position::default()) {
            let (key, value) = entry?;
            push(Record { line: 0, key, value: Some(&value) })?;
        }
    }
    let removals = options.remove.as_ref().map(|path| Input::keys(path.clone()));
    let mut origin = Origin::default();
    for (input, removal) in [(Some(&options.input), false), (removals.as_ref(), true)] {
        let Some(input) = input else { continue };
        let removes = removal || options.base.is_some();
        let rules = LineRules { strict: options.strict, removes, max_key: MAX_KEY };
        let found = input.entries(rules, &mut built.bad, progress, &mut |number, key, value| {
            // A removal has no number: it replaces, and is no duplicate.
            push(Record { line: if value.is_some() { number } else { 0 }, key, value })
        })?;
        if !removal {
            origin = found;
        }
    }
    Ok(origin)
}

/// Where a record is: its piece, and its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    hash: Hash,
    piece: u32,
    at: usize,
}

/// Where the records of some pieces are, by hash and then in the order in which they came.
fn sorted(pieces: &[Vec<u8>], seed: u64) -> Vec<Place> {
    let mut places = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let mut at = 0;
        while at < piece.len() {
            let (record, next) = Record::read(piece, at);
            places.push(Place { hash: Hash::of(record.key, seed), piece: number as u32, at });
            at = next;
        }
    }
    places.sort_unstable();
    places
}

/// The last record of each key, without removals.
fn distinct<'a>(
    pieces: &'a [Vec<u8>],
    places: &[Place],
    duplicates: Duplicates,
    built: &mut Built,
) -> Result<Vec<Item<'a>>, TableError> {
    let record = |place: &Place| Record::read(&pieces[place.piece as usize], place.at).0;
    let mut items = Vec::with_capacity(places.len());
    for same in places.chunk_by(|a, b| a.hash == b.hash) {
        let first = record(&same[0]);
        let mut last = first;
        for place in &same[1..] {
            let next = record(place);
            if next.key != last.key {
                let (a, b) = (last.key.escape_ascii(), next.key.escape_ascii());
                return Err(TableError::Input(format!("the keys {a} and {b} collide: choose another --seed").into()));
            }
            if last.line != 0 && next.line != 0 {
                if duplicates == Duplicates::Error {
                    let key = next.key.escape_ascii();
                    return Err(TableError::Input(
                        format!("line {}: the key {key} was in line {} already", next.line, last.line).into(),
                    ));
                }
                built.replaced += 1;
            }
            last = next;
        }
        if let Some(value) = last.value {
            items.push(Item { hash: same[0].hash, key: last.key, value });
        }
    }
    Ok(items)
}
