//! One node's view of the cluster: its reply to `CLUSTER NODES`
//! (<https://redis.io/docs/latest/commands/cluster-nodes/>), which old and new servers support.
use super::key_slot::SLOTS;
use larder_config::RedisAddress;
use std::ops::RangeInclusive;

/// One line of the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClusterNode {
    pub(super) id: String,
    pub(super) address: RedisAddress,
    /// Another name of the node.
    pub(super) alias: Option<RedisAddress>,
    pub(super) role: NodeRole,
    /// Whether this is the node that replied.
    pub(super) is_asked: bool,
    /// Whether the cluster considers the node failed.
    pub(super) failed: bool,
    /// Of two nodes that claim a slot, the one with the higher epoch owns it.
    pub(super) epoch: u64,
    pub(super) slots: Vec<RangeInclusive<u16>>,
    /// Slots that the node is moving to another node. A node reports only its own.
    pub(super) moving: Vec<u16>,
}
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NodeRole {
    Master,
    /// A replica of the master with this id.
    Replica(String),
}

/// Parses the reply of the node at `asked`. With `by_name` (TLS checks names) a node's address is
/// its host name if it has one. Invalid lines and nodes without an address are left out. A node
/// knows one owner of each slot, so lines that claim more slots than there are, are left out, too.
pub(super) fn parse(answer: &str, asked: &RedisAddress, by_name: bool) -> Vec<ClusterNode> {
    let mut unclaimed = SLOTS;
    answer.lines().filter_map(|line| parse_line(line, asked, by_name, &mut unclaimed)).collect()
}

fn parse_line(line: &str, asked: &RedisAddress, by_name: bool, unclaimed: &mut usize) -> Option<ClusterNode> {
    let mut words = line.split_ascii_whitespace();
    let (id, place, flags, master) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let (_ping, _pong, epoch, _link) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let has = |flag| flags.split(',').any(|other| other == flag);
    if has("handshake") || has("noaddr") {
        return None;
    }
    // ip:port@cport[,hostname[,…]]
    let mut parts = place.split(',');
    let (ip, port) = parts.next()?.split('@').next()?.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let host = match (ip, asked) {
        // The node does not know its own address; it was reached at `asked`.
        ("", RedisAddress::Tcp { host, .. }) if has("myself") => host,
        ("", _) => return None,
        (ip, _) => ip,
    };
    let at = |host: &str| RedisAddress::Tcp { host: host.to_owned(), port };
    let name = parts.next().filter(|name| !name.is_empty() && !name.contains('='));
    let (address, alias) = match name {
        Some(name) if by_name => (at(name), Some(at(host))),
        name => (at(host), name.map(at)),
    };
    let (mut slots, mut moving) = (Vec::new(), Vec::new());
    let slot = |text: &str| text.parse::<u16>().ok().filter(|slot| usize::from(*slot) < SLOTS);
    for word in words {
        if let Some(inside) = word.strip_prefix('[') {
            moving.extend(inside.split_once("->-").and_then(|(number, _)| slot(number)));
        } else {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            let range = slot(first)?..=slot(last)?;
            *unclaimed = unclaimed.checked_sub(range.len())?;
            slots.push(range);
        }
    }
    let role = if has("master") { NodeRole::Master } else { NodeRole::Replica(master.to_owned()) };
    Some(ClusterNode {
        id: id.to_owned(),
        address,
        alias,
        role,
        is_asked: has("myself"),
        failed: has("fail"),
        epoch: epoch.parse().ok()?,
        slots,
        moving,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tcp(host: &str, port: u16) -> RedisAddress {
        RedisAddress::Tcp { host: host.into(), port }
    }

    /// A range is a few bytes of an answer, and 16,384 steps for the maker of the map.
    #[test]
    fn no_answer_claims_more_slots_than_there_are() {
        let line =
            |at: usize, slots: &str| format!("n{at} 10.0.0.1:{} master - 0 0 1 connected{slots}\n", 1 + at % 60_000);
        let claimed = |answer: &str| {
            let nodes = parse(answer, &tcp("seed", 1), false);
            nodes.iter().flat_map(|node| &node.slots).map(ExactSizeIterator::len).sum::<usize>()
        };
        assert_eq!(claimed(&[line(0, " 0-8191"), line(1, " 8192-16383")].concat()), SLOTS);
        assert_eq!(claimed(&line(0, &" 0-16383".repeat(1000))), 0, "the line is left out");
        let lines: String = (0..1000).map(|at| line(at, " 0-16383")).collect();
        assert_eq!(claimed(&lines), SLOTS);
    }

    #[test]
    fn lines_of_several_versions() {
        let answer = "\
a1 :7000@17000 myself,master - 0 0 3 connected 0-5460 7000 [5461->-b2] [9-<-b2]
b2 10.0.0.2:7001@17001,node-b master - 0 1426238316232 2 connected 5461-6999
c3 ::1:7002@17002,,shard-id=x,tls-port=0 slave a1 0 1426238318243 3 connected
d4 10.0.0.4:7003 master,fail - 0 1426238318243 1 disconnected
e5 :0@0 slave,noaddr a1 0 0 0 disconnected
f6 10.0.0.6:7005@17005 handshake - 0 0 0 connected
nonsense
";
        let nodes = parse(answer, &tcp("seed", 1), false);
        let ids: Vec<&str> = nodes.iter().map(|node| &*node.id).collect();
        assert_eq!(ids, ["a1", "b2", "c3", "d4"]);
        let [a, b, c, d] = &nodes[..] else { panic!() };
        assert_eq!((&a.address, a.epoch, &a.moving[..]), (&tcp("seed", 7000), 3, &[5461][..]));
        assert_eq!(a.slots, [0..=5460, 7000..=7000]);
        assert_eq!((&b.address, &b.alias), (&tcp("10.0.0.2", 7001), &Some(tcp("node-b", 7001))));
        assert_eq!((&c.address, &c.alias, &c.role), (&tcp("::1", 7002), &None, &NodeRole::Replica("a1".into())));
        assert!(d.failed && !a.failed);
        assert_eq!(parse(answer, &tcp("seed", 1), true)[1].address, tcp("node-b", 7001));
    }

    type Line = (String, u16, (Option<u16>, Option<String>), bool, (bool, bool), u64, Vec<(u16, u16)>, Vec<u16>);
    fn line() -> impl Strategy<Value = Line> {
        let host = prop_oneof!["10\\.0\\.0\\.[1-9]", "[a-f0-9]{0,2}::[a-f0-9]{1,2}"];
        let slot = || 0..SLOTS as u16;
        let more = (prop::option::of(1..u16::MAX), prop::option::of("[a-z]{1,3}\\.local"));
        // All of them together are fewer than there are.
        let range = (slot(), 0..600u16).prop_map(|(first, more)| (first, (first + more).min(SLOTS as u16 - 1)));
        let slots = prop::collection::vec(range, 0..4);
        (
            host,
            1..u16::MAX,
            more,
            any::<bool>(),
            any::<(bool, bool)>(),
            any::<u64>(),
            slots,
            prop::collection::vec(slot(), 0..3),
        )
    }

    proptest! {
        #[test]
        fn what_a_node_writes_is_what_is_read(lines in prop::collection::vec(line(), 0..6), by_name: bool) {
            let (mut answer, mut expected) = (String::new(), Vec::new());
            for (number, (host, port, (bus, name), is_replica, (is_asked, failed), epoch, slots, moving)) in lines.into_iter().enumerate() {
                let of = if is_replica { format!("id{}", number + 1) } else { "-".to_owned() };
                let flags = [(is_asked, "myself,"), (is_replica, "slave"), (!is_replica, "master"), (failed, ",fail")];
                let flags: String = flags.iter().filter(|(is, _)| *is).map(|(_, flag)| *flag).collect();
                let bus = bus.map_or(String::new(), |bus| format!("@{bus}"));
                let named = name.as_ref().map_or(String::new(), |name| format!(",{name},shard-id=1"));
                answer.push_str(&format!("id{number} {host}:{port}{bus}{named} {flags} {of} 0 1 {epoch} connected"));
                for (first, last) in &slots {
                    answer.push_str(&if first == last { format!(" {first}") } else { format!(" {first}-{last}") });
                }
                moving.iter().for_each(|slot| answer.push_str(&format!(" [{slot}->-other] [{slot}-<-other]")));
                answer.push('\n');
                let (host, name) = (tcp(&host, port), name.map(|name| tcp(&name, port)));
                let (address, alias) = match name {
                    Some(name) if by_name => (name, Some(host)),
                    name => (host, name),
                };
                let role = if is_replica { NodeRole::Replica(of) } else { NodeRole::Master };
                let slots = slots.iter().map(|(first, last)| *first..=*last).collect();
                expected.push(ClusterNode { id: format!("id{number}"), address, alias, role, is_asked, failed, epoch, slots, moving });
            }
            prop_assert_eq!(parse(&answer, &tcp("h", 1), by_name), expected);
        }

        #[test]
        fn any_answer_is_read(answer in "(([a-f0-9]{1,4}|) ([0-9.:a-z]{0,9}:[0-9]{1,6}(@[0-9]{1,5})?(,[a-z=]{0,4})?|\\PC*) [a-z,?]{1,20} -? 0 0 [0-9]{1,3} c ([0-9\\[\\]<>-]{1,9} ?)*\n?)*") {
            for node in parse(&answer, &tcp("h", 1), true) {
                prop_assert!(node.moving.iter().all(|slot| usize::from(*slot) < SLOTS));
                prop_assert!(node.slots.iter().all(|slots| usize::from(*slots.start().max(slots.end())) < SLOTS));
            }
        }
    }
}
