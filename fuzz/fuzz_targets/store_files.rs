//! Any bytes as a file of the disk store: a journal, the list of tables under a checksum that is right, a table, a backup. Each is an answer that takes
//! no more memory than the file has, and what is whole is read to its end.
#![no_main]
use larder_store::disk::{StoreSettings, backup, damage};
use libfuzzer_sys::fuzz_target;
use std::{fs, path::PathBuf};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// A folder in memory, where there is one.
fn folder() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
    base.join(format!("larder-fuzz-store-{}", std::process::id()))
}

/// A batch of a journal with its checksum.
fn batch(items: &[(u8, &[u8], &[u8])]) -> Vec<u8> {
    let mut content = Vec::new();
    for (kind, key, value) in items {
        content.extend([2, kind % 3, 0]);
        content.extend(7u64.to_le_bytes());
        content.extend((key.len() as u16).to_le_bytes());
        content.extend((value.len() as u32).to_le_bytes());
        content.extend((value.len() as u32).to_le_bytes());
        content.extend(*key);
        content.extend(*value);
    }
    let begin = [&[1][..], &(items.len() as u32).to_le_bytes(), &[9; 8]].concat();
    [&begin[..], &content, &[3], &xxh3_64(&content).to_le_bytes(), b"FJL\x03"].concat()
}

/// Sections with their table of contents, as fjall's files have it.
fn archive(name: &[u8], content: &[u8], sections: u32) -> Vec<u8> {
    let mut bytes = content.to_vec();
    let place = bytes.len() as u64;
    let mut contents = b"TOC!".to_vec();
    contents.extend(sections.to_le_bytes());
    contents.extend(0u64.to_le_bytes());
    contents.extend((content.len() as u64).to_le_bytes());
    contents.extend((name.len() as u16).to_le_bytes());
    contents.extend(name);
    bytes.extend(&contents);
    bytes.extend(b"SFA!\x01\0");
    bytes.extend(xxh3_128(&contents).to_le_bytes());
    bytes.extend(place.to_le_bytes());
    bytes.extend((contents.len() as u64).to_le_bytes());
    bytes
}

fuzz_target!(|input: (u8, &[u8], Vec<(u8, &[u8], &[u8])>, &[u8], bool)| {
    let (kind, raw, items, list, is_one_section) = input;
    let dir = folder();
    let _ = fs::remove_dir_all(&dir);
    let db = dir.join("db");
    let keyspace = db.join("keyspaces/0");
    fs::create_dir_all(keyspace.join("tables")).expect("a folder");
    fs::write(dir.join("larder-store"), "Larder disk store, version 1\n").expect("written");
    fs::write(db.join("version"), b"FJL\x03").expect("written");
    let journal = [&batch(&items)[..], raw, &batch(&items)].concat();
    fs::write(db.join("0.jnl"), if kind & 1 == 0 { raw } else { &journal }).expect("written");
    let versions = archive(b"tables", list, if is_one_section { 1 } else { u32::from(kind) << 24 });
    let versions = if kind & 2 == 0 { &versions } else { list };
    fs::write(keyspace.join("v1"), versions).expect("written");
    let current = [&1u64.to_le_bytes()[..], &xxh3_128(versions).to_le_bytes(), &[0]].concat();
    fs::write(keyspace.join("current"), current).expect("written");
    // The number of a table in the list, for which there is a file.
    fs::write(keyspace.join("tables/0"), archive(b"meta", raw, 1)).expect("written");
    damage::verify(&dir, &mut |_, _| {}).expect("a store");

    // A backup: chunks with their checksums, of entries or of anything.
    let backup = dir.join("backup");
    let chunk = |content: &[u8]| {
        [&(content.len() as u32).to_le_bytes()[..], &xxh3_64(content).to_le_bytes(), content].concat()
    };
    let bytes = [b"larder backup\n\x01\0\0\0", &chunk(raw)[..], list].concat();
    fs::write(&backup, if kind & 4 == 0 { raw } else { &bytes }).expect("written");
    // It opens a store, which takes long.
    if kind > 250 {
        let restored = dir.join("restored");
        let _ = backup::restore(&backup, &restored, &StoreSettings::DEFAULT, &mut |_, _| {});
    }
    let _ = fs::remove_dir_all(&dir);
});
