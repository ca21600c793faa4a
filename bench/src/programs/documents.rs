//! `larder-bench documents`: what JSON documents cost, in process.
use crate::lib::figures::{self, Figure, FigureTarget, median};
use larder_document::{Edit, Edited, Outcome, Path, Pointer, compact, find, find_pointer};
use larder_engine::{Attributes, Cache, Change, Config, Expiry, Value, Write as Stored};
use rustix::time::{ClockId, clock_gettime};
use serde_json_path::JsonPath;
use std::{hint::black_box, io::Write, sync::Arc};

/// Memory and time of JSON documents in the memory tier, in process
///
/// Memory: bytes of a full tier over bytes of compact text, for documents of about 200 bytes, 2 KiB
/// and 1 MiB, and for a list that grew element by element. Changes: an element appended to a list
/// of --elements elements, and a field set in the middle of a dictionary of as many, each beside a
/// plain write of the whole new value. Reads: one element of a document of 1 MiB, by pointer,
/// beside serde_json and simd-json, which build a tree; values by JSONPath, beside serde_json_path
/// on a tree of serde_json.
///
/// All times are CPU time of the thread: what else runs on the machine does not count. Ratios are
/// of medians, and the turns alternate.
#[derive(Debug, clap::Args)]
pub(crate) struct DocumentsArgs {
    /// Elements of the list and fields of the dictionary
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    elements: u64,
    /// Turns, of which the median counts
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
}

const PROGRAM: &str = "documents";
/// The mark of a document, as the server writes it.
const MARK: Attributes<'static> = Attributes { tags: &[], metadata: &[9, 0, 0] };
/// A document may take so many times its text.
const MEMORY: FigureTarget = FigureTarget::AtMost(1.2);
/// Changes and reads of a part must be faster than those of the whole.
const FASTER: FigureTarget = FigureTarget::AtMost(1.0);
/// Bytes of the tier whose documents are counted.
const FULL: usize = 256 << 20;
/// Bytes of a key there.
const KEY: usize = "document:0000000".len();
/// A path that looks into each element.
const FILTER: &str = "$.orders[?@.price > 90].item";
/// Operations of a turn, so that the clock's steps do not count.
const OPERATIONS: u64 = 20;

pub(crate) fn run(args: &DocumentsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    memory(out)?;
    append(args, out)?;
    set_field(args, out)?;
    read_part(args, out)?;
    read_paths(args, out)
}

fn new_cache() -> Arc<Cache> {
    Cache::new(Config { max_memory: 1 << 30, ..Config::default() })
}

fn store(cache: &Cache, key: &[u8], text: &[u8]) -> anyhow::Result<()> {
    cache.tier().set(cache.key(key), Stored { attributes: MARK, ..Stored::new(text) }, 0)?;
    Ok(())
}

fn report(out: &mut dyn Write, figure: String, value: f64, target: Option<FigureTarget>) -> anyhow::Result<()> {
    figures::line(out, &Figure::new(PROGRAM, figure, value, target))
}

fn memory(out: &mut dyn Write) -> anyhow::Result<()> {
    for (name, size) in [("200 B", 200), ("2 KiB", 2 << 10), ("1 MiB", 1 << 20)] {
        // A full tier: of so many documents half are evicted.
        let cache = Cache::new(Config { max_memory: FULL, ..Config::default() });
        let count = 2 * (FULL / size) as u64;
        let mut text_bytes = 0;
        for number in 0..count {
            let text = sized(number, size);
            text_bytes += text.len();
            store(&cache, format!("document:{number:07}").as_bytes(), &text)?;
        }
        let stats = cache.stats();
        let held = stats.entries as f64 * text_bytes as f64 / count as f64;
        let keys = stats.entries as f64 * KEY as f64;
        let ratio = (stats.used_bytes as f64 - keys) / held;
        report(out, format!("tier bytes without keys / text bytes, documents of {name}"), ratio, Some(MEMORY))?;
        let ratio = stats.used_bytes as f64 / held;
        report(out, format!("tier bytes with keys of {KEY} bytes / text bytes, documents of {name}"), ratio, None)?;
    }
    let cache = new_cache();
    store(&cache, b"list", b"[]")?;
    for number in 0..50_000_u64 {
        change(&cache, b"list", "$", &Edit::Append(&[format!("{{\"n\":{number}}}").into_bytes()]))?;
    }
    let ratio = cache
        .tier()
        .peek(cache.key(b"list"), 0, |entry| entry.footprint() as f64 / entry.value.as_bytes().len() as f64);
    report(
        out,
        "tier bytes / text bytes, a list that grew by 50,000 appends".into(),
        ratio.unwrap_or(f64::NAN),
        Some(MEMORY),
    )
}

/// A compact document of about this many bytes.
fn sized(number: u64, size: usize) -> Vec<u8> {
    let mut text = format!("{{\"id\":{number},\"name\":\"customer {number}\",\"active\":true,\"orders\":[");
    let end = b"],\"last\":\"end\"}";
    let mut order = 0;
    while text.len() + end.len() < size {
        if order > 0 {
            text.push(',');
        }
        order += 1;
        text.push_str(&format!("{{\"item\":{order},\"price\":{}.5}}", order % 97));
    }
    [text.as_bytes(), end].concat()
}

/// Changes a document as the commands do.
fn change(cache: &Cache, key: &[u8], path: &str, edit: &Edit<'_>) -> anyhow::Result<()> {
    let path = Path::parse(path)?;
    cache.tier().update(cache.key(key), 0, |entry, scratch| {
        let Some(entry) = entry else { return (Change::Keep, ()) };
        let text = entry.value.as_bytes();
        let found = find(text, &path, 0).unwrap_or_default();
        let edited = match (entry.note(), edit) {
            (Some(count), Edit::Append(values)) => {
                Edit::AppendKnowing(count as usize, values).apply(text, &found, usize::MAX)
            }
            _ => edit.apply(text, &found, usize::MAX),
        };
        let Ok((edited, outcomes)) = edited else { return (Change::Keep, ()) };
        let count = match (edit, &*outcomes) {
            (Edit::Append(_), [Some(Outcome::Integer(count))]) => Some(*count as u64),
            _ => None,
        };
        let change = match (edited, entry.value) {
            (Edited::Part(splice), Value::Large(_)) => {
                scratch.extend_from_slice(&splice.with);
                Change::Part(splice.at.start, splice.at.end, count)
            }
            (Edited::Part(splice), Value::Inline(_)) => {
                *scratch = larder_document::apply(text, &[splice]);
                Change::Put(Expiry::Keep)
            }
            (Edited::Whole(text), _) => {
                *scratch = text;
                Change::Put(Expiry::Keep)
            }
            (Edited::Same, _) => Change::Keep,
        };
        (change, ())
    })?;
    Ok(())
}

/// Microseconds of CPU time for each of [`OPERATIONS`].
fn timed(mut operation: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let cpu = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
    };
    let begun = cpu();
    for _ in 0..OPERATIONS {
        operation()?;
    }
    Ok((cpu() - begun) / OPERATIONS as f64)
}

/// Times of the part and of the whole, in turns; the medians.
fn compare(
    runs: u64,
    mut part: impl FnMut() -> anyhow::Result<()>,
    mut whole: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<(f64, f64)> {
    let (mut parts, mut wholes) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        parts.push(timed(&mut part)?);
        wholes.push(timed(&mut whole)?);
    }
    Ok((median(&parts), median(&wholes)))
}

fn report_pair(
    out: &mut dyn Write,
    (name, rival): (&str, &str),
    (part, whole): (f64, f64),
    target: Option<FigureTarget>,
) -> anyhow::Result<()> {
    report(out, format!("µs, {name}"), part, None)?;
    report(out, format!("µs, {rival}"), whole, None)?;
    report(out, format!("{name} / {rival}"), part / whole, target)
}

fn append(args: &DocumentsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let cache = new_cache();
    let elements: Vec<String> = (0..args.elements).map(|number| format!("\"{number}\"")).collect();
    let text = format!("[{}]", elements.join(","));
    store(&cache, b"list", text.as_bytes())?;
    let whole = compact(text.as_bytes())?;
    let more = [b"\"one more\"".to_vec()];
    let times =
        compare(args.runs, || change(&cache, b"list", "$", &Edit::Append(&more)), || store(&cache, b"whole", &whole))?;
    report_pair(out, ("append to a list", "plain write of the whole list"), times, Some(FASTER))?;
    let times = compare(
        args.runs,
        || change(&cache, b"list", "$", &Edit::Append(&more)),
        || store(&cache, b"whole", &compact(text.as_bytes())?),
    )?;
    report_pair(out, ("append to a list", "write of the whole list as a checked document"), times, Some(FASTER))
}

fn set_field(args: &DocumentsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let cache = new_cache();
    let fields: Vec<String> = (0..args.elements).map(|number| format!("\"field {number}\":{number}")).collect();
    let text = format!("{{{}}}", fields.join(","));
    store(&cache, b"dictionary", text.as_bytes())?;
    let whole = compact(text.as_bytes())?;
    let path = format!("$[\"field {}\"]", args.elements / 2);
    let mut number = 0;
    let times = compare(
        args.runs,
        || {
            number += 1;
            change(&cache, b"dictionary", &path, &Edit::Replace(number.to_string().as_bytes()))
        },
        || store(&cache, b"whole", &whole),
    )?;
    report_pair(out, ("set a field of a dictionary", "plain write of the whole dictionary"), times, Some(FASTER))?;
    let mut number = 0;
    let times = compare(
        args.runs,
        || {
            number += 1;
            change(&cache, b"dictionary", &path, &Edit::Replace(number.to_string().as_bytes()))
        },
        || store(&cache, b"whole", &compact(text.as_bytes())?),
    )?;
    report_pair(
        out,
        ("set a field of a dictionary", "write of the whole dictionary as a checked document"),
        times,
        Some(FASTER),
    )
}

fn read_part(args: &DocumentsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let text = sized(1, 1 << 20);
    for pointer in ["/last", "/orders/20000/price", "/name"] {
        let parsed = Pointer::parse(pointer)?;
        let ours = || {
            black_box(find_pointer(black_box(&text), &parsed));
            Ok(())
        };
        let serde = || {
            let value: serde_json::Value = serde_json::from_slice(black_box(&text))?;
            black_box(value.pointer(pointer));
            Ok(())
        };
        let times = compare(args.runs, ours, serde)?;
        report_pair(out, (&format!("read {pointer}"), &format!("serde_json, {pointer}")), times, Some(FASTER))?;
        let simd = || {
            // It parses in place.
            let mut copy = text.clone();
            black_box(simd_json::to_tape(black_box(&mut copy))?);
            Ok(())
        };
        let times = compare(args.runs, ours, simd)?;
        report_pair(out, (&format!("read {pointer}"), &format!("simd-json's tape, {pointer}")), times, Some(FASTER))?;
    }
    Ok(())
}

fn read_paths(args: &DocumentsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let text = sized(1, 1 << 20);
    for path in ["$.orders[20000].price", "$.orders[0,20000].price", "$.orders[*].price", "$..price", FILTER] {
        let parsed = Path::parse(path)?;
        let query = JsonPath::parse(path)?;
        let tree: serde_json::Value = serde_json::from_slice(&text)?;
        let found = find(&text, &parsed, text.len()).map_or(0, |found| found.len());
        let expected = query.query(&tree).len();
        anyhow::ensure!(found == expected, "{path} finds {found} values, serde_json_path {expected}");
        let ours = || {
            black_box(find(black_box(&text), &parsed, text.len())?);
            Ok(())
        };
        let theirs = || {
            let tree: serde_json::Value = serde_json::from_slice(black_box(&text))?;
            black_box(query.query(&tree));
            Ok(())
        };
        let times = compare(args.runs, ours, theirs)?;
        report_pair(out, (&format!("read {path}"), &format!("serde_json_path, {path}")), times, None)?;
    }
    Ok(())
}
