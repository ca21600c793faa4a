//! Any bytes are a snapshot or none: nothing panics, and what is given decodes. Half of the time the checksums are made right, so that what is behind them is looked at as
//! well (docs/formats/snapshot.md).
#![no_main]
use larder_store::snapshot::{SavedEntry, Scrutiny, SnapshotReader};
use libfuzzer_sys::fuzz_target;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// A block: kind, compression, group, entries, length when decompressed, payload.
type Block<'a> = (u8, u8, u8, u16, u32, &'a [u8]);

/// A header of one group, and these blocks with what a writer would say of them where the input does not.
fn sealed(blocks: &[Block<'_>], footer: bool) -> Vec<u8> {
    let mut bytes = b"\x89LSNP\r\n\x1a\x01\0\0\0\0\0\0\0".to_vec();
    bytes.extend(7u64.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(3u32.to_le_bytes());
    bytes.extend([1, 0, b'g']);
    let seed = xxh3_64(&bytes);
    bytes.extend(seed.to_le_bytes());
    let mut sums = seed.to_le_bytes().to_vec();
    let mut entries = 0;
    let mut block = |number: usize, (kind, compression, group, entries, raw, payload): Block<'_>, sums: &mut Vec<u8>| {
        let raw = if compression == 0 { payload.len() as u32 } else { raw.max(payload.len() as u32) };
        let mut head = vec![kind, compression, 0, 0];
        for field in [u32::from(group), u32::from(entries), raw, payload.len() as u32, number as u32] {
            head.extend(field.to_le_bytes());
        }
        let mut summed = head.clone();
        summed.extend(xxh3_64(payload).to_le_bytes());
        let sum = xxh3_64_with_seed(&summed, seed);
        sums.extend(sum.to_le_bytes());
        head.extend(sum.to_le_bytes());
        bytes.extend(head);
        bytes.extend(payload);
    };
    for (number, (kind, compression, group, said, raw, payload)) in blocks.iter().enumerate() {
        // Mostly as many entries as there are.
        let said = if *compression == 0 && said % 4 != 0 { count(payload) } else { *said };
        entries += u64::from(said);
        block(number, (kind % 3, compression % 3, group % 2, said, raw % (2 << 20), payload), &mut sums);
    }
    if footer {
        let mut payload = (blocks.len() as u64).to_le_bytes().to_vec();
        payload.extend(xxh3_64(&sums).to_le_bytes());
        payload.extend(entries.to_le_bytes());
        payload.extend(0u64.to_le_bytes());
        block(blocks.len(), (2, 0, 0, 0, 0, &payload), &mut sums);
    }
    bytes
}

/// Entries that bytes begin with.
fn count(mut bytes: &[u8]) -> u16 {
    let mut entries = 0;
    while let Ok((_, used)) = SavedEntry::decode(bytes) {
        bytes = &bytes[used..];
        entries += 1;
    }
    entries
}

fn exercise(bytes: &[u8]) {
    for scrutiny in [Scrutiny::Checksum, Scrutiny::Entries] {
        let Ok(mut reader) = SnapshotReader::new(bytes) else { return };
        while let Ok(Some(block)) = reader.next_block(scrutiny) {
            if scrutiny == Scrutiny::Entries {
                assert_eq!(block.entries().count(), block.entries as usize);
            }
        }
        assert!(reader.position() <= bytes.len() as u64);
    }
}

fuzz_target!(|input: (&[u8], Vec<Block<'_>>, bool)| {
    let (raw, blocks, footer) = input;
    exercise(raw);
    exercise(&sealed(&blocks, footer));
    let _ = SavedEntry::decode(raw);
});
