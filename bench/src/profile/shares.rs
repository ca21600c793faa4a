//! What a stack's time was spent on, in a few words.
use crate::report;
use std::collections::BTreeMap;

/// A name, and what a function's name holds that belongs to it. The first function from the leaf that is told by any counts, and of the names the first.
const USER: [(&str, &[&str]); 10] = [
    (
        "allocate",
        &["malloc", "_int_free", "cfree", "realloc", "calloc", "unlink_chunk", "tcache", "alloc/src/alloc.rs"],
    ),
    ("copy", &["memmove", "memcpy"]),
    ("clock", &["clock_gettime", "Timespec", "std/src/time.rs"]),
    ("look up", &["engine/src/"]),
    ("parse", &["proto/resp/parse", "proto/resp/scan", "proto/resp/number", "proto/http/", "httparse"]),
    ("write replies", &["proto/output", "proto/resp/write", "http/answer", "itoa"]),
    ("hyper", &["hyper"]),
    ("ask the source", &["server/src/source/", "dispatch/relay", "dispatch/forward"]),
    ("dispatch", &["server/src/"]),
    (
        "runtime",
        &["tokio", "mio-", "epoll_wait", "__libc_recv", "__send", "__libc_sendmsg", "__libc_read", "__libc_write"],
    ),
];

/// System calls, by what is in the kernel's part of a stack.
const KERNEL: [(&str, &[&str]); 3] = [
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
        let kernel = || stack.split(';').filter(|name| name.ends_with("_[k]"));
        // The outermost tells the call.
        return kernel().find_map(|name| told(name, &KERNEL)).unwrap_or(KERNEL_OTHER);
    }
    names.find_map(|name| told(name, &USER)).unwrap_or(OTHER)
}
