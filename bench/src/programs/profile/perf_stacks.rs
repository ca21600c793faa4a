//! What `perf script -F time,trace,ip,sym,dso` prints, as stacks and how often each was seen.
//!
//! ```text
//! 28456.295491: [(55d0c1a2b3f0) size=64]      the second; a probe's arguments
//!           2dc893 larder::net::… (/path/larder)      leaf first; addresses are offsets in the file
//!         ffffffff820226b5 tcp_ack ([kernel.kallsyms])
//! ```
use anyhow::{Context, ensure};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

/// Stacks, root first, separated by `;`, and how often each was seen.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    pub(super) by_stack: BTreeMap<String, u64>,
    /// All of them.
    pub(super) samples: u64,
    /// Sum of the probes' sizes.
    pub(super) bytes: u64,
}

/// By address: the functions that are inlined there, innermost first, and the one that holds them.
type Inlined = BTreeMap<u64, Vec<String>>;

/// Reads what perf printed; calls inlined in `binary` are told apart.
pub(super) fn read(script: &str, binary: &Path) -> anyhow::Result<Stacks> {
    let in_binary = format!("({})", binary.display());
    let mut addresses = BTreeSet::new();
    for sample in samples(script) {
        addresses.extend(frames(sample).filter(|frame| frame.dso == in_binary).map(|frame| frame.address));
    }
    Ok(fold(script, &in_binary, &inlined(&addresses, binary)?))
}

fn samples(script: &str) -> impl Iterator<Item = &str> {
    script.split("\n\n").filter(|sample| !sample.trim().is_empty())
}

struct Frame<'s> {
    address: u64,
    symbol: &'s str,
    dso: &'s str,
}

/// Leaf first. Of a frame further up the address lies within the call, not behind it.
fn frames(sample: &str) -> impl Iterator<Item = Frame<'_>> {
    sample
        .lines()
        .filter_map(parse_frame)
        .enumerate()
        .map(|(depth, frame)| Frame { address: frame.address - u64::from(depth > 0 && frame.address > 0), ..frame })
}

fn parse_frame(line: &str) -> Option<Frame<'_>> {
    let (address, rest) = line.trim().split_once(' ')?;
    let symbol = rest.rsplit_once(" (")?.0;
    let dso = &rest[symbol.len() + 1..];
    Some(Frame { address: u64::from_str_radix(address, 16).ok()?, symbol: symbol.trim(), dso })
}

fn fold(script: &str, binary: &str, inlined: &Inlined) -> Stacks {
    let mut stacks = Stacks::default();
    for sample in samples(script) {
        let mut names = Vec::new();
        for frame in frames(sample) {
            match inlined.get(&frame.address).filter(|_| frame.dso == binary) {
                Some(functions) => names.extend(functions.iter().cloned()),
                None if frame.dso.contains("kernel") => names.push(format!("{}_[k]", frame.symbol)),
                None => names.push(tidy(frame.symbol)),
            }
        }
        if let Some((_, size)) = sample.lines().next().unwrap_or_default().split_once("size=") {
            stacks.bytes += size.trim().parse::<u64>().unwrap_or(0);
        }
        if names.is_empty() {
            continue;
        }
        names.reverse();
        stacks.samples += 1;
        *stacks.by_stack.entry(names.join(";")).or_default() += 1;
    }
    stacks
}

/// A function's name without its hash, and without what folding uses.
fn tidy(name: &str) -> String {
    let hashed =
        name.rsplit_once("::h").filter(|(_, hash)| hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()));
    hashed.map_or(name, |(name, _)| name).replace(';', ":")
}

/// Asks addr2line(1), once for all addresses.
fn inlined(addresses: &BTreeSet<u64>, binary: &Path) -> anyhow::Result<Inlined> {
    let mut addr2line = Command::new("addr2line")
        .args(["-a", "-i", "-f", "-C", "-e"])
        .arg(binary)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start addr2line (binutils)")?;
    let segments = Segments::read(binary)?;
    let mut input = addr2line.stdin.take().context("addr2line takes no input")?;
    let asked: String = addresses.iter().map(|offset| format!("{:x}\n", segments.address(*offset))).collect();
    let writer = std::thread::spawn(move || input.write_all(asked.as_bytes()));
    let output = addr2line.wait_with_output()?;
    ensure!(output.status.success(), "addr2line ended with {}", output.status);
    // Fails only if addr2line ended early, which was looked at.
    let _ = writer.join();
    let by_address = parse_inlined(&String::from_utf8_lossy(&output.stdout));
    let told = |offset: &u64| Some((*offset, by_address.get(&segments.address(*offset))?.clone()));
    Ok(addresses.iter().filter_map(told).collect())
}

/// Where an ELF file's segments are in the file and, once it is loaded, in memory (elf(5), 64 bits,
/// little-endian).
struct Segments(Vec<(u64, u64, u64)>);

impl Segments {
    fn read(binary: &Path) -> anyhow::Result<Segments> {
        const LOADED: u64 = 1;
        let file = std::fs::read(binary)?;
        let number = |at: usize, bytes: usize| -> anyhow::Result<u64> {
            let bytes = file.get(at..at + bytes).context("a file that is no ELF program")?;
            Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
        };
        let (headers, length, count) =
            (number(0x20, 8)? as usize, number(0x36, 2)? as usize, number(0x38, 2)? as usize);
        let mut segments = Vec::new();
        for header in (0..count).map(|index| headers + index * length) {
            if number(header, 4)? == LOADED {
                segments.push((number(header + 8, 8)?, number(header + 16, 8)?, number(header + 32, 8)?));
            }
        }
        Ok(Segments(segments))
    }

    fn address(&self, offset: u64) -> u64 {
        let holds = |segment: &&(u64, u64, u64)| (segment.0..segment.0 + segment.2).contains(&offset);
        self.0.iter().find(holds).map_or(offset, |(from, to, _)| offset - from + to)
    }
}

/// An address (`0x…`), then for each function its name and its place.
fn parse_inlined(text: &str) -> Inlined {
    let mut inlined = Inlined::new();
    let mut functions: Option<&mut Vec<String>> = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(address) = line.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
            functions = Some(inlined.entry(address).or_default());
        } else if let Some(functions) = &mut functions {
            let place = lines.next().unwrap_or_default();
            if line != "??" {
                functions.push(format!("{} [{}]", tidy(line), source_file(place)));
            }
        }
    }
    inlined.retain(|_, functions| !functions.is_empty());
    inlined
}

/// Larder's own crates, by where their files are in the workspace.
const OWN_CRATES: &str = "/crates/";

/// From the crate on: `crates/engine/src/index.rs`, `tokio-1.54.0/src/…`, `core/src/…`. An inlined
/// function has no other name for its module.
fn source_file(place: &str) -> &str {
    let path = place.rsplit_once(':').map_or(place, |(path, _)| path);
    let from = |mark: &str| path.find(mark).map(|at| &path[at + mark.len()..]);
    let registry = || from("/registry/src/").and_then(|rest| Some(rest.split_once('/')?.1));
    let own = || Some(&path[path.find(OWN_CRATES)? + 1..]);
    registry().or_else(|| from("/library/")).or_else(own).unwrap_or(path)
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    pub(crate) fn stacks(script: &str, binary: &str, addr2line: &str) -> Stacks {
        fold(script, &format!("({binary})"), &parse_inlined(addr2line))
    }
}
