//! Request and response policies: how a command is spread over the nodes of a cluster
//! (<https://redis.io/docs/latest/develop/reference/command-tips/>). Servers before version 7 have no tips, so this file lists them.

/// How the replies of several nodes become one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResponsePolicy {
    /// The first reply.
    First,
    /// The first reply that is no error, else the first.
    AnyGood,
    /// The first reply, if none is an error.
    AllGood,
    Sum,
    Min,
    Max,
    /// 1 if all replies are 1, else 0.
    And,
    /// 1 if one reply is 1, else 0. Arrays are merged element by element, like with `And`.
    Or,
    /// The elements of all arrays, one array after the other.
    Concat,
    /// The elements of all arrays, each at the position of its key.
    KeyOrder(Vec<Vec<usize>>),
}

/// Which nodes a command goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum RequestPolicy {
    /// The node of its keys; any node if it has none.
    #[default]
    OneNode,
    /// Split by slot, each part to the node of its keys.
    MultiShard,
    /// Every master.
    AllShards,
    /// `SCAN`: one master after the other.
    Scan,
}

/// The request and response policy of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ClusterPolicies {
    pub(crate) request: RequestPolicy,
    response: Option<ResponsePolicy>,
}

impl ClusterPolicies {
    /// Applies one tip of the table.
    pub(crate) fn set(&mut self, tip: &[u8]) {
        match tip {
            b"request_policy:all_nodes" | b"request_policy:all_shards" => self.request = RequestPolicy::AllShards,
            b"request_policy:multi_shard" => self.request = RequestPolicy::MultiShard,
            b"response_policy:one_succeeded" => self.response = Some(ResponsePolicy::AnyGood),
            b"response_policy:all_succeeded" => self.response = Some(ResponsePolicy::AllGood),
            b"response_policy:agg_logical_and" => self.response = Some(ResponsePolicy::And),
            b"response_policy:agg_logical_or" => self.response = Some(ResponsePolicy::Or),
            b"response_policy:agg_min" => self.response = Some(ResponsePolicy::Min),
            b"response_policy:agg_max" => self.response = Some(ResponsePolicy::Max),
            b"response_policy:agg_sum" => self.response = Some(ResponsePolicy::Sum),
            b"response_policy:special" => self.response = Some(ResponsePolicy::First),
            _ => {}
        }
    }

    /// Adds the policies that the table does not name for this command.
    pub(crate) fn complete(self, name: &str) -> ClusterPolicies {
        let policies = |request, response| ClusterPolicies { request, response: Some(response) };
        match (name, self.request) {
            ("scan", _) => policies(RequestPolicy::Scan, ResponsePolicy::First),
            // The table sends these to all nodes but names no response policy: one node is enough.
            ("randomkey" | "info", _) => ClusterPolicies::default(),
            ("del" | "unlink" | "exists" | "touch", RequestPolicy::OneNode) => {
                policies(RequestPolicy::MultiShard, ResponsePolicy::Sum)
            }
            ("mset", RequestPolicy::OneNode) => policies(RequestPolicy::MultiShard, ResponsePolicy::AllGood),
            ("mget", RequestPolicy::OneNode) => ClusterPolicies { request: RequestPolicy::MultiShard, response: None },
            ("dbsize", RequestPolicy::OneNode) => policies(RequestPolicy::AllShards, ResponsePolicy::Sum),
            ("keys", RequestPolicy::OneNode) => policies(RequestPolicy::AllShards, ResponsePolicy::Concat),
            ("flushall" | "flushdb" | "script|flush" | "script|load" | "script", RequestPolicy::OneNode) => {
                policies(RequestPolicy::AllShards, ResponsePolicy::AllGood)
            }
            _ => self,
        }
    }

    /// The response policy. The default joins arrays, in the order of the keys if the command was
    /// split by slot.
    pub(crate) fn response(&self, places: Vec<Vec<usize>>) -> ResponsePolicy {
        match (&self.response, self.request) {
            (Some(how), _) => how.clone(),
            (None, RequestPolicy::MultiShard) => ResponsePolicy::KeyOrder(places),
            (None, _) => ResponsePolicy::Concat,
        }
    }
}
