//! What a stack's time was spent on, in a few words.
use crate::lib::figures;
use std::collections::BTreeMap;

/// The folders and files of Larder's own crates, as [`super::perf_stacks`] names them.
const OWN_SOURCES: [(&str, &[&str]); 6] = [
    ("look up", &["crates/engine/src/"]),
    ("store: other", &["crates/store/src/"]),
    (
        "parse",
        &[
            "crates/proto/src/resp/parse",
            "crates/proto/src/resp/scan",
            "crates/proto/src/resp/number",
            "crates/proto/src/http/head.rs",
            "crates/proto/src/http/target.rs",
        ],
    ),
    (
        "write replies",
        &[
            "crates/proto/src/output.rs",
            "crates/proto/src/resp/write.rs",
            "crates/proto/src/http/",
            "crates/http/src/response_writer.rs",
            "crates/http/src/response_body.rs",
        ],
    ),
    ("ask the source", &["crates/source/src/", "crates/redis/src/upstream", "crates/redis/src/forwarded_commands.rs"]),
    (
        "server: other",
        &[
            "crates/config/src/",
            "crates/base/src/",
            "crates/source/src/",
            "crates/ring/src/",
            "crates/core/src/",
            "crates/redis/src/",
            "crates/http/src/",
            "crates/larder/src/",
        ],
    ),
];

/// Parts of a disk store's work, by what is anywhere in a stack: in whichever library or part of the
/// kernel it spends its time. The first that a stack has counts: a flush reads a memtable, and a
/// compaction writes tables.
const STORE: [(&str, &[&str]); 5] = [
    ("store: compaction", &["/src/compaction/"]),
    ("store: flush", &["/src/flush/", "flush_to_tables"]),
    ("store: journal", &["/src/journal/", "fdatasync"]),
    ("store: memtable", &["/src/memtable/", "skiplist"]),
    ("store: block reads", &["/src/table/", "crates/store/src/disk/cached_reads.rs"]),
];

/// What functions of other crates and libraries are told by.
const LIBRARIES_FIRST: [(&str, &[&str]); 3] = [
    (
        "allocate",
        &["malloc", "_int_free", "cfree", "realloc", "calloc", "unlink_chunk", "tcache", "alloc/src/alloc.rs"],
    ),
    ("copy", &["memmove", "memcpy"]),
    ("clock", &["clock_gettime", "Timespec", "std/src/time.rs"]),
];
const LIBRARIES: [(&str, &[&str]); 5] = [
    ("store: other", &["fjall", "lsm-tree", "lsm_tree"]),
    ("parse", &["httparse"]),
    ("write replies", &["itoa"]),
    ("hyper", &["hyper"]),
    (
        "runtime",
        &["tokio", "mio-", "epoll_wait", "__libc_recv", "__send", "__libc_sendmsg", "__libc_read", "__libc_write"],
    ),
];

/// System calls, by what is in the kernel's part of a stack: the first that it has.
const KERNEL: [(&str, &[&str]); 5] = [
    (
        "kernel: files",
        &[
            "ext4",
            "xfs",
            "btrfs",
            "tmpfs",
            "shmem",
            "filemap",
            "generic_perform_write",
            "sys_pread",
            "fsync",
            "fdatasync",
        ],
    ),
    ("kernel: wake threads", &["futex", "eventfd"]),
    ("kernel: send (and the peer's receiving, on the loopback)", &["sys_send", "sys_write", "sys_writev"]),
    ("kernel: receive", &["sys_recv", "sys_read"]),
    ("kernel: wait", &["epoll"]),
];
const KERNEL_OTHER: &str = "kernel: other";
const OTHER: &str = "other";

/// The shares of all stacks, adding up to 1.
pub(super) fn of(by_stack: &BTreeMap<String, u64>) -> BTreeMap<&'static str, f64> {
    let all: u64 = by_stack.values().sum();
    let mut shares = BTreeMap::<&'static str, u64>::new();
    for (stack, count) in by_stack {
        *shares.entry(kind(stack)).or_default() += count;
    }
    shares.into_iter().map(|(name, count)| (name, figures::rounded(count as f64 / all.max(1) as f64))).collect()
}

/// The store's part that is in the stack. Else the first function from the leaf that any table knows
/// decides. Of the tables, the first that knows it.
pub(super) fn kind(stack: &str) -> &'static str {
    // Only fjall's and lsm-tree's own files: Larder's have such names, too.
    let is_stores = |name: &&str| {
        ["fjall", "lsm-tree", "skiplist", "fdatasync", "cached_reads"].iter().any(|part| name.contains(part))
    };
    let in_store = |part: &&str| stack.split(';').filter(is_stores).any(|name| name.contains(*part));
    if let Some((kind, _)) = STORE.iter().find(|(_, parts)| parts.iter().any(in_store)) {
        return kind;
    }
    let told = |name: &str, table: &[(&'static str, &[&str])]| {
        table.iter().find(|(_, parts)| parts.iter().any(|part| name.contains(part))).map(|(kind, _)| *kind)
    };
    let mut names = stack.rsplit(';');
    if stack.ends_with("_[k]") {
        let has = |part: &&str| stack.split(';').any(|name| name.ends_with("_[k]") && name.contains(*part));
        return KERNEL.iter().find(|(_, parts)| parts.iter().any(has)).map_or(KERNEL_OTHER, |(kind, _)| *kind);
    }
    names
        .find_map(|name| {
            told(name, &LIBRARIES_FIRST).or_else(|| told(name, &OWN_SOURCES)).or_else(|| told(name, &LIBRARIES))
        })
        .unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    /// Paths of all files below a folder.
    fn files(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in folder.read_dir().expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { files(&path, found) } else { found.push(path) }
        }
    }

    #[test]
    fn every_source_of_the_table_exists() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        let mut found = Vec::new();
        files(&workspace.join("crates"), &mut found);
        for (kind, sources) in OWN_SOURCES {
            for source in sources {
                let path = workspace.join(source).display().to_string().to_owned();
                let prefix = if source.ends_with('/') { format!("{path}/").replace("//", "/") } else { path };
                let there = found.iter().any(|file| file.display().to_string().starts_with(&prefix));
                assert!(there, "{kind}: there is no {source}");
            }
        }
    }

    #[test]
    fn own_sources_are_told_apart() {
        for (name, expected) in [
            ("f [crates/proto/src/resp/parse.rs]", "parse"),
            ("f [crates/proto/src/http/json.rs]", "write replies"),
            ("f [crates/store/src/disk/readers.rs]", "store: other"),
            ("f [crates/store/src/table/chunks.rs]", "store: other"),
            ("f [crates/source/src/redis/pipeline.rs]", "ask the source"),
            ("f [crates/redis/src/upstream_pipeline.rs]", "ask the source"),
            ("f [crates/larder/src/net/redis/conn.rs]", "server: other"),
            ("lsm_tree::get [lsm-tree-3/src/tree.rs]", "store: other"),
            ("write [fjall-3/src/journal/writer.rs];__write;ext4_write_[k]", "store: journal"),
            ("sync [crates/store/src/disk/tree.rs];fdatasync;jbd2_[k]", "store: journal"),
            ("insert [lsm-tree-3/src/memtable/mod.rs];malloc", "store: memtable"),
            ("run [fjall-3/src/flush/worker.rs];next [lsm-tree-3/src/memtable/mod.rs]", "store: flush"),
            ("run [lsm-tree-3/src/compaction/worker.rs];write [lsm-tree-3/src/table/writer.rs]", "store: compaction"),
            ("get [lsm-tree-3/src/table/mod.rs];__pread;ext4_read_[k]", "store: block reads"),
            ("f [somewhere/else.rs]", OTHER),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }
}
