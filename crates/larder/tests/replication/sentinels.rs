//! Redis Sentinel watches a pair: real redis-sentinel processes, a primary that is killed, and one
//! that comes back.
use super::{
    common::wait_until,
    larder::Larder,
    sentinel::{Sentinel, Watched},
    workload::{Writes, info, replica_of, wait_for_equality, wait_for_link},
};
use rustix::process::Signal;

#[test]
fn sentinels_promote_a_replica_and_bring_the_old_primary_back_as_one() {
    let mut primary = Larder::start(&[]);
    let (first, second) = (replica_of(primary.redis, &[]), replica_of(primary.redis, &[]));
    let mut writes = Writes::new(8, 100);
    writes.run(&primary, 1000, false);
    wait_for_equality(&primary, &first);
    wait_for_equality(&primary, &second);
    let sentinels: Vec<Sentinel> = (0..3)
        .map(|_| {
            Sentinel::start(&Watched { port: primary.redis, silence: 3000, failover: 20_000, ..Watched::default() })
        })
        .collect();
    for sentinel in &sentinels {
        let sees = |name: &str, wanted: &str| sentinel.master(name).as_deref() == Some(wanted);
        wait_until("the Sentinels to find each other and the replicas", || {
            sees("num-slaves", "2") && sees("num-other-sentinels", "2") && sees("flags", "master")
        });
        wait_until("a replica to be well", || sentinel.replica("flags").as_deref() == Some("slave"));
    }
    primary.signal(Signal::KILL);
    primary.wait();
    let promoted = || [&first, &second].into_iter().find(|larder| info(larder, "role").as_deref() == Some("master"));
    wait_until("a replica to be promoted", || promoted().is_some());
    let new = promoted().unwrap();
    let other = if std::ptr::eq(new, &first) { &second } else { &first };
    for sentinel in &sentinels {
        wait_until("the Sentinels to name it", || sentinel.port_of_master() == Some(new.redis));
    }
    writes.run(new, 500, false);
    wait_until("the other to follow it", || info(other, "master_port") == Some(new.redis.to_string()));
    wait_for_equality(new, other);
    // The old primary comes back as one, and is made a replica.
    primary.start_again(&[]);
    wait_until("the old primary to follow", || info(&primary, "role").as_deref() == Some("slave"));
    wait_for_link(&primary);
    wait_for_equality(new, &primary);
}
