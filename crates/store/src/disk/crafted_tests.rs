//! Tables whose checksums are right and whose content makes no sense: what an attacker makes who can
//! write files. lsm-tree panics on some; here each is read by a process of its own.
use super::{damage, dir::database, tests::*, *};
use crate::clock;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use xxhash_rust::xxh3::xxh3_128;

/// The start of each block: magic number, type, checksum (16), length, length in memory, checksum of
/// these (4).
const MAGIC: &[u8] = b"LSM\x03";
const HEAD: usize = 33;

/// A store with one table, which it returns, in the keyspace of the entries.
fn store(dir: &Path) -> PathBuf {
    let store = open(dir, SETTINGS);
    write_all(&store, (0..500).map(|number| put(number, format!("value {number}"), None)));
    store.shared().tree.flush().expect("flushed");
    drop(store);
    let mut tables = Vec::new();
    for keyspace in fs::read_dir(database(dir).join("keyspaces")).expect("keyspaces") {
        let tables_of = keyspace.expect("a keyspace").path().join("tables");
        tables.extend(fs::read_dir(tables_of).expect("tables").map(|table| table.expect("a table").path()));
    }
    tables.sort_by_key(|table| fs::metadata(table).expect("a table").len());
    tables.pop().expect("a table")
}

/// Puts a table in the place of another, with all checksums.
fn replace(table: &Path, bytes: &[u8]) {
    let old = xxh3_128(&fs::read(table).expect("a table")).to_le_bytes();
    fs::write(table, bytes).expect("written");
    let keyspace = table.parent().and_then(Path::parent).expect("a keyspace");
    let mut current = fs::read(keyspace.join("current")).expect("current");
    let version = u64::from_le_bytes(current[..8].try_into().expect("8 bytes"));
    let path = keyspace.join(format!("v{version}"));
    let mut list = fs::read(&path).expect("a version");
    let at = list.windows(16).position(|part| part == old).expect("the table's checksum");
    list[at..at + 16].copy_from_slice(&xxh3_128(bytes).to_le_bytes());
    fs::write(&path, &list).expect("written");
    current[8..24].copy_from_slice(&xxh3_128(&list).to_le_bytes());
    fs::write(keyspace.join("current"), current).expect("written");
}

/// Where blocks begin, and their types.
fn blocks(table: &[u8]) -> Vec<(usize, u8)> {
    let is_block = |at: &usize| {
        table[*at..].starts_with(MAGIC)
            && table[at + 29..at + HEAD] == xxh3_128(&table[*at..at + 29]).to_le_bytes()[..4]
    };
    (0..table.len() - HEAD).filter(is_block).map(|at| (at, table[at + MAGIC.len()])).collect()
}

/// Makes both checksums of a block right.
fn seal(table: &mut [u8], at: usize) {
    let length = u32::from_le_bytes(table[at + 21..at + 25].try_into().expect("4 bytes")) as usize;
    if let Some(content) = table.get(at + HEAD..at + HEAD + length) {
        let sum = xxh3_128(content).to_le_bytes();
        table[at + 5..at + 21].copy_from_slice(&sum);
    }
    let sum = xxh3_128(&table[at..at + 29]).to_le_bytes();
    table[at + 29..at + HEAD].copy_from_slice(&sum[..4]);
}

/// Mutants of a table, with what they are.
fn mutants(table: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for (at, kind) in blocks(table) {
        let length = u32::from_le_bytes(table[at + 21..at + 25].try_into().expect("4 bytes")) as usize;
        // The content at several places, its end, where the numbers of a block are; and its lengths.
        let content = [0, 1, length / 4, length / 2, length - 12, length - 8, length - 4, length - 1];
        let places = content.map(|place| HEAD + place).into_iter().chain([4, 24, 28]);
        for place in places {
            for byte in [0, 0xff] {
                let mut mutant = table.to_vec();
                if mutant[at + place] == byte {
                    continue;
                }
                mutant[at + place] = byte;
                seal(&mut mutant, at);
                found.push((format!("block {kind} at {at}, byte {place} is {byte}"), mutant));
            }
        }
    }
    // The table of contents: how many sections there are, under its own checksum and not.
    let end = table.len() - 38;
    let contents = u64::from_le_bytes(table[end + 22..end + 30].try_into().expect("8 bytes")) as usize;
    for (name, at) in [("sections", contents + 4), ("a section's place", contents + 8), ("its length", contents + 16)] {
        let mut mutant = table.to_vec();
        mutant[at..at + 4].copy_from_slice(&[0xff; 4]);
        found.push((format!("{name}, damaged"), mutant.clone()));
        let sum = xxh3_128(&mutant[contents..end]).to_le_bytes();
        mutant[end + 6..end + 22].copy_from_slice(&sum);
        found.push((format!("{name}, crafted"), mutant));
    }
    let mut mutant = table.to_vec();
    mutant[end + 22..end + 30].copy_from_slice(&u64::MAX.to_le_bytes());
    found.push(("the place of the table of contents".to_owned(), mutant));
    found
}

const DIR: &str = "LARDER_TEST_CRAFTED";

/// Reads a store as a server and a command line do. Run by the next test.
#[test]
#[ignore = "is run for each mutant, in a process of its own"]
fn one_crafted_store_is_read() {
    let dir = PathBuf::from(std::env::var_os(DIR).expect("a store"));
    let named = damage::verify(&dir, &mut |_, _| {}).expect("a report").problems.join("; ");
    println!("verify: {named}");
    match Offline::open(&dir, SETTINGS) {
        Err(error) => println!("open: {error}"),
        Ok(store) => {
            let (tree, now) = (store.tree(), clock::now());
            for number in [0, 250, 499, 600] {
                println!("get: {:?}", tree.get(&key(number), now));
            }
            println!("count: {:?}", tree.count());
        }
    }
    println!("whole");
}

#[test]
fn a_crafted_table_is_refused_by_name_or_read_as_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("store");
    let table = store(&path);
    let whole = fs::read(&table).expect("a table");
    let this = std::env::current_exe().expect("this program");
    let (mut named, mut same, mut aborted) = (0, 0, Vec::new());
    for (what, mutant) in mutants(&whole) {
        replace(&table, &mutant);
        let child = Command::new(&this)
            .args(["--ignored", "--exact", "--nocapture", "disk::crafted_tests::one_crafted_store_is_read"])
            .env(DIR, &path)
            .output()
            .expect("run");
        let said = String::from_utf8_lossy(&child.stdout).into_owned();
        let error = String::from_utf8_lossy(&child.stderr);
        if !said.contains("whole") {
            // lsm-tree reads some places without a check. A build with assertions ends there.
            assert!(error.contains("unsafe precondition"), "{what}: {said}{error}");
            aborted.push(what);
        } else if said.contains(&format!("verify: {}", table.display())) {
            named += 1;
        } else {
            assert!(said.contains("verify: \n") && said.contains("count: Ok(500)"), "{what}: {said}{error}");
            println!("as good as whole: {what}");
            same += 1;
        }
        replace(&table, &whole);
    }
    println!("{named} named, {same} as good as whole, lsm-tree ended the process with {}: {aborted:#?}", aborted.len());
    assert!(named > 3 * aborted.len(), "{named} named, {aborted:#?}");
}
