//! The nodes of the cluster that is a source: which of them are up, and what changes about them.
use std::collections::BTreeMap;

/// Each known node by its address, and whether it is up.
pub type SourceNodes = BTreeMap<String, bool>;

/// What happened to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeChange {
    Away,
    Back,
    Joined,
    Left,
}

impl NodeChange {
    /// What follows the name of the node in a sentence.
    pub fn text(self) -> &'static str {
        match self {
            NodeChange::Away => "is away",
            NodeChange::Back => "is back",
            NodeChange::Joined => "has joined",
            NodeChange::Left => "has left",
        }
    }
    /// An operator should look at it.
    pub fn is_warning(self) -> bool {
        self == NodeChange::Away
    }
}

/// What has changed, node by node. `before` becomes what was told of `now`. When a cluster becomes
/// known, only the nodes that are away are a change.
pub fn node_changes(before: &mut SourceNodes, now: &SourceNodes) -> Vec<(String, NodeChange)> {
    // Before there is a session nothing is known.
    if now.is_empty() {
        return Vec::new();
    }
    let (mut changes, is_known) = (Vec::new(), !before.is_empty());
    before.retain(|node, _| {
        let stays = now.contains_key(node);
        if !stays {
            changes.push((node.clone(), NodeChange::Left));
        }
        stays
    });
    for (node, is_up) in now {
        let (told, change) = match (before.get(node), *is_up) {
            // It may be known before it takes connections. If it stays so, that is the next change.
            (None, _) if is_known => (true, Some(NodeChange::Joined)),
            (None | Some(true), false) => (false, Some(NodeChange::Away)),
            (Some(false), true) => (true, Some(NodeChange::Back)),
            (_, is_up) => (is_up, None),
        };
        before.insert(node.clone(), told);
        changes.extend(change.map(|change| (node.clone(), change)));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::{NodeChange::*, *};

    /// The nodes as they are, and the changes that are told.
    type Step<'s> = (&'s [(&'s str, bool)], &'s [(&'s str, NodeChange)]);

    #[test]
    fn each_change_of_a_node_is_told_once() {
        let steps: [Step<'_>; 10] = [
            (&[], &[]),
            (&[("a", true), ("b", false)], &[("b", Away)]),
            (&[("a", true), ("b", false)], &[]),
            (&[("a", false), ("b", true)], &[("a", Away), ("b", Back)]),
            (&[], &[]),
            (&[("a", true), ("b", true), ("c", true)], &[("a", Back), ("c", Joined)]),
            (&[("a", true), ("b", true), ("c", true), ("d", false)], &[("d", Joined)]),
            (&[("a", true), ("b", true), ("c", true), ("d", false)], &[("d", Away)]),
            (&[("a", true), ("b", true), ("c", true), ("d", true)], &[("d", Back)]),
            (&[("a", true), ("c", true)], &[("b", Left), ("d", Left)]),
        ];
        let mut before = SourceNodes::new();
        for (now, expected) in steps {
            let now = now.iter().map(|(node, is_up)| ((*node).to_owned(), *is_up)).collect();
            let expected: Vec<_> = expected.iter().map(|(node, change)| ((*node).to_owned(), *change)).collect();
            assert_eq!(node_changes(&mut before, &now), expected);
        }
    }
}
