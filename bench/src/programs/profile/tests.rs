//! From what perf printed to a picture, without perf.
use super::{flame_graph, perf_stacks::testing::stacks, time_shares};

/// Three samples: two of the kernel within a send, one of the larder's own code; and an allocation.
const SCRIPT: &str = "
\tffffffff820226b5 tcp_ack ([kernel.kallsyms])
\tffffffff81e31462 __sys_sendto ([kernel.kallsyms])
\t          10aba4 __send (/usr/lib/libc.so.6)
\t          2dc8a0 larder::net::redis::Loop::flush (/bin/larder)

\tffffffff820226b5 tcp_ack ([kernel.kallsyms])
\tffffffff81e31462 __sys_sendto ([kernel.kallsyms])
\t          10aba4 __send (/usr/lib/libc.so.6)
\t          2dc8a0 larder::net::redis::Loop::flush (/bin/larder)

28456.295491:
\t          2dc893 larder::net::worker::admit::{{closure}} (/bin/larder)

28456.3: (7f0102030405) size=48
\t           a3fa0 malloc (/usr/lib/libc.so.6)
\t          2dc8a0 larder::net::redis::Loop::flush (/bin/larder)
";
/// A call's address lies one byte before the one it returns to.
const INLINED: &str = "0x00000000002dc893
larder_engine::cache::Cache::lookup::h0123456789abcdef
/home/me/larder/crates/engine/src/cache.rs:7
poll
/home/me/.cargo/registry/src/index.crates.io-1/tokio-1.54.0/src/task.rs:1
larder::net::worker::admit::{{closure}}
/rustc/0123/library/core/src/ops.rs:1 (discriminator 2)
0x00000000002dc89f
larder::net::redis::Loop::flush
/home/me/larder/crates/larder/src/net/redis/mod.rs:2
0x0000000000000001
??
??:0
";

#[test]
fn samples_become_stacks_with_their_inlined_calls() {
    let stacks = stacks(SCRIPT, "/bin/larder", INLINED);
    let flush = "larder::net::redis::Loop::flush [crates/larder/src/net/redis/mod.rs]";
    let lookup = "larder::net::worker::admit::{{closure}} [core/src/ops.rs];poll [tokio-1.54.0/src/task.rs];\
                  larder_engine::cache::Cache::lookup [crates/engine/src/cache.rs]";
    let (send, malloc) = (format!("{flush};__send;__sys_sendto_[k];tcp_ack_[k]"), format!("{flush};malloc"));
    let expected = [(&send[..], 2), (&malloc[..], 1), (lookup, 1)];
    let found: Vec<_> = stacks.by_stack.iter().map(|(stack, count)| (stack.as_str(), *count)).collect();
    assert_eq!(found, expected);
    assert_eq!((stacks.samples, stacks.bytes), (4, 48));
}

#[test]
fn a_stack_is_told_by_its_innermost_function_that_is_known() {
    let shares = time_shares::of(&stacks(SCRIPT, "/bin/larder", INLINED).by_stack);
    let found: Vec<_> = shares.into_iter().collect();
    let send = "kernel: send (and the peer's receiving, on the loopback)";
    assert_eq!(found, [("allocate", 0.25), (send, 0.5), ("look up", 0.25)]);
}

#[test]
fn a_flame_graph_has_a_box_for_each_function() {
    let svg = |title, unit, stacks| String::from_utf8(flame_graph(title, unit, stacks).expect("drawn")).expect("text");
    let stacks = stacks(SCRIPT, "/bin/larder", INLINED);
    let drawn = svg("a <title>", "samples", &stacks.by_stack);
    assert!(drawn.contains("a &lt;title&gt; (4 samples)"), "{drawn}");
    let flush = "larder::net::redis::Loop::flush [crates/larder/src/net/redis/mod.rs]";
    assert!(drawn.contains(&format!("<title>{flush} (3 samples, 75.00%)</title><rect x=\"0.0000%\"")), "{drawn}");
    assert!(drawn.contains("<title>tcp_ack (2 samples, 50.00%)</title>"), "{drawn}");
    // inferno leaves the mark of the kernel out. Callers are below, and the tallest stack has four
    // functions.
    let tops = |name: &str| {
        let from = drawn.find(&format!("<title>{name}")).expect(name);
        let (_, rest) = drawn[from..].split_once(" y=\"").expect("a place");
        rest.split('"').next().and_then(|y| y.parse::<f64>().ok()).expect("a number")
    };
    assert_eq!(tops("larder::net::redis::Loop::flush") - tops("tcp_ack"), 3.0 * 16.0);
    assert!(svg("", "allocations", &Default::default()).contains("(0 allocations)"));
}
