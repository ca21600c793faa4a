//! Nodes that share their caches, their network and their clocks simulated, with faults at random:
//! the rooms `peer` and `read` as they are, over a `Transport` that loses, delays and repeats
//! messages. Decision 0049.
//!
//! One thread and one seed: the same seed gives the same history, message by message. Each node has
//! a set of tasks of its own, which a kill drops. Time is tokio's, which jumps when nothing is left
//! to do; `clock` stands where the simulation puts it, at each node a little elsewhere.
//!
//! What has to hold:
//! - **Nothing is forwarded.** Some keys are asked for by clients of one node alone: no other node
//!   may ever send a message about them, but to take them over.
//! - **Nothing waits in a circle.** Every request of a client ends in time, whatever happens.
//! - **No answer is too old.** An answer was current within a lifetime and what messages may take.
//!   After quiet, every node answers the latest value.
//! - **One fill.** While all nodes agree and reach each other, a key that they all ask for at once
//!   is fetched once.
mod node;
mod origin;
mod scenario;
mod transport;
mod world;

use scenario::{Scenario, run};

/// How many seeds, and the first.
fn seeds() -> std::ops::Range<u64> {
    let number = |name, default| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    };
    let first: u64 = number("LARDER_SIMULATION_SEED", 1);
    first..first + number("LARDER_SIMULATION_SEEDS", 100)
}

#[test]
fn nodes_keep_the_contract_under_random_faults() {
    for seed in seeds() {
        let history = run(&Scenario::of_seed(seed));
        assert!(
            history.violations.is_empty(),
            "{}\n{}\nthe same again: LARDER_SIMULATION_SEED={seed} LARDER_SIMULATION_SEEDS=1 cargo test -p larder-core --lib peer_simulation",
            history.log.join("\n"),
            history.violations.join("\n"),
        );
    }
}

#[test]
fn a_seed_has_one_history() {
    let scenario = Scenario::of_seed(seeds().start);
    let [one, other] = [run(&scenario), run(&scenario)];
    assert!(one.messages > 100, "{} messages", one.messages);
    assert_eq!((one.messages, one.digest), (other.messages, other.digest));
}
