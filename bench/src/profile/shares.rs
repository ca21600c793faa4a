//! What a stack's time was spent on, in a few words.
use crate::report;
use std::collections::BTreeMap;

/// A name, and what a function's name holds that belongs to it. The first function from the leaf that is told by any counts, and of the names the first.
const USER: [(&str, &[&str]); 11] = [
    (
        "allocate",
        &["malloc", "_int_free", "cfree", "realloc", "calloc", "unlink_chunk", "tcache", "alloc/src/alloc.rs"],
    ),
    ("copy", &["memmove", "memcpy"]),
    ("clock", &["clock_gettime", "Timespec", "std/src/time.rs"]),
    ("look up", &["engine/src/"]),
    ("store", &["server/src/store/", "fjall", "lsm-tree", "lsm_tree", "skiplist"]),
    ("parse", &["proto/resp/parse", "proto/resp/scan", "proto/resp/number", "proto/http/", "httparse"]),
    ("write replies", &["proto/output", "proto/resp/write", "http/read_responses", "http/response_writer", "itoa"]),
    ("hyper", &["hyper"]),
    ("ask the source", &["server/src/source/", "dispatch/relay", "dispatch/forward"]),
    ("redis", &["server/src/"]),
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
    shares.into_iter().map(|(name, count)| (name, report::rounded(count as f64 / all.max(1) as f64))).collect()
}

fn kind(stack: &str) -> &'static str {
    let told = |name: &str, table: &[(&'static str, &[&str])]| {
        table.iter().find(|(_, parts)| parts.iter().any(|part| name.contains(part))).map(|(kind, _)| *kind)
    };
    let mut names = stack.rsplit(';');
    if stack.ends_with("_[k]") {
        let has = |part: &&str| stack.split(';').any(|name| name.ends_with("_[k]") && name.contains(*part));
        return KERNEL.iter().find(|(_, parts)| parts.iter().any(has)).map_or(KERNEL_OTHER, |(kind, _)| *kind);
    }
    names.find_map(|name| told(name, &USER)).unwrap_or(OTHER)
}
