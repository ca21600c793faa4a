//! The commands that rules may name. The room `redis` fills the catalog from its table of commands.
use super::command_request::CommandRequest;
use crate::telemetry::CommandClass;
use larder_config::Categories;
use std::collections::HashMap;

/// One command of the server's own table.
#[derive(Debug, Clone, Copy)]
pub struct CatalogRow {
    /// In lower case; a subcommand is `parent|name`.
    pub name: &'static str,
    /// Redis's ACL categories.
    pub categories: Categories,
    /// Every client may call it (AUTH, HELLO, QUIT, RESET).
    pub is_always_allowed: bool,
}

/// The rows of a table of commands, in the table's order.
#[derive(Debug, Default)]
pub struct CommandCatalog {
    rows: Vec<CatalogRow>,
    places: HashMap<&'static str, usize>,
}

/// Redis's commands (8.0, without modules), so that a misspelt name is noticed. Rules may name
/// commands that this server only forwards.
const OF_REDIS: &str = "acl append asking auth bgrewriteaof bgsave bitcount bitfield bitfield_ro bitop bitpos blmove blmpop blpop brpop \
brpoplpush bzmpop bzpopmax bzpopmin client cluster command config copy dbsize debug decr decrby del discard dump echo eval eval_ro \
evalsha evalsha_ro exec exists expire expireat expiretime failover fcall fcall_ro flushall flushdb function geoadd geodist geohash \
geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch geosearchstore get getbit getdel getex getrange getset \
hdel hello hexists hexpire hexpireat hexpiretime hget hgetall hgetdel hgetex hincrby hincrbyfloat hkeys hlen hmget hmset hpersist \
hpexpire hpexpireat hpexpiretime hpttl hrandfield hscan hset hsetex hsetnx hstrlen httl hvals incr incrby incrbyfloat info keys \
lastsave latency lcs lindex linsert llen lmove lmpop lolwut lpop lpos lpush lpushx lrange lrem lset ltrim memory mget migrate module \
monitor move mset msetnx multi object persist pexpire pexpireat pexpiretime pfadd pfcount pfdebug pfmerge pfselftest ping psetex \
psubscribe psync pttl publish pubsub punsubscribe quit randomkey readonly readwrite rename renamenx replconf replicaof reset restore \
restore-asking role rpop rpoplpush rpush rpushx sadd save scan scard script sdiff sdiffstore select set setbit setex setnx setrange \
shutdown sinter sintercard sinterstore sismember slaveof slowlog smembers smismember smove sort sort_ro spop spublish srandmember srem \
sscan ssubscribe strlen subscribe substr sunion sunionstore sunsubscribe swapdb sync time touch ttl type unlink unsubscribe unwatch \
vadd vcard vdim vemb vgetattr vinfo vismember vlinks vrandmember vrem vsetattr vsim wait waitaof watch xack xackdel xadd xautoclaim \
xclaim xdel xdelex xgroup xinfo xlen xpending xrange xread xreadgroup xrevrange xsetid xtrim zadd zcard zcount zdiff zdiffstore \
zincrby zinter zintercard zinterstore zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore \
zrank zrem zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion \
zunionstore";

/// Those of Redis's commands that have subcommands.
const CONTAINERS_OF_REDIS: [&str; 15] = [
    "acl", "client", "cluster", "command", "config", "function", "latency", "memory", "module", "object", "pubsub",
    "script", "slowlog", "xgroup", "xinfo",
];

impl CommandCatalog {
    /// Of these rows. A subcommand follows its parent.
    pub fn new(rows: impl IntoIterator<Item = CatalogRow>) -> CommandCatalog {
        let rows: Vec<CatalogRow> = rows.into_iter().collect();
        let places = rows.iter().enumerate().map(|(at, row)| (row.name, at)).collect();
        CommandCatalog { rows, places }
    }
    /// The rows, in the table's order.
    pub fn rows(&self) -> &[CatalogRow] {
        &self.rows
    }
    /// The rows in the table's order, then Redis's other commands, as they are counted.
    pub fn counted(&self) -> impl Iterator<Item = (&'static str, CommandClass)> {
        let is =
            |row: &CatalogRow, name| Categories::named(name).is_some_and(|category| row.categories.meets(category));
        let class = move |row: &CatalogRow| match row {
            row if is(row, "write") => CommandClass::Write,
            row if is(row, "read") => CommandClass::Read,
            _ => CommandClass::Other,
        };
        let others = OF_REDIS.split_ascii_whitespace().filter(|name| !self.places.contains_key(name));
        let rows = self.rows.iter().map(move |row| (row.name, class(row)));
        rows.chain(others.map(|name| (name, CommandClass::Forwarded)))
    }
    /// The request to run a command of the table (in lower case) without a first argument.
    pub fn request<'n>(&self, name: &'n str) -> CommandRequest<'n> {
        let place = self.place(name);
        CommandRequest { place, name, categories: place.map(|at| self.rows[at].categories), first_argument: None }
    }
    /// The place of a command or subcommand (lower case) in the table.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }
    /// Whether the table has subcommands of this command.
    pub(super) fn is_container(&self, name: &str) -> bool {
        self.place(name).and_then(|at| self.rows.get(at + 1)).is_some_and(|next| parent(next.name) == Some(name))
    }
    /// Whether the command has subcommands at a Redis, of which the table may have fewer.
    pub(super) fn is_container_of_redis(name: &str) -> bool {
        CONTAINERS_OF_REDIS.contains(&name)
    }
    /// Whether a rule may name it: a row of the table, or a command that a Redis may have. A name
    /// with a dot is a module's.
    pub fn is_command(&self, name: &str) -> bool {
        let of_redis = || OF_REDIS.split_ascii_whitespace().any(|known| known == name);
        self.places.contains_key(name) || name.contains('.') && name.len() > 1 || of_redis()
    }
}

/// The command that a subcommand belongs to.
pub(super) fn parent(name: &str) -> Option<&str> {
    name.split_once('|').map(|(parent, _)| parent)
}
