//! Settings of the section “Source”.
use super::{
    quantities::DAY,
    setting_section::SettingSection,
    setting_spec::{
        Fallback::{Computed, Is},
        SettingSpec,
    },
    value_kind::ValueKind,
};
use crate::settings::Coherence;

const ROW: SettingSpec = SettingSpec::in_section(SettingSection::Source);

pub(super) const SOURCE: &[SettingSpec] = &[
    SettingSpec {
        name: "source",
        kind: ValueKind::Source,
        default: Is("none:"),
        per_group: true,
        also: &["REDIS_HOST", "REDIS_PORT"],
        example: "redis://127.0.0.1:6379/0",
        help: "URL of the source, which answers misses and takes writes: `none:`, `table:FILE` (docs/tables.md), `disk:DIR` (docs/disk-store.md), `redis://[USER[:PASSWORD]@]HOST[:PORT][/DB]`, `rediss://…` (TLS; `?ca=FILE&cert=FILE&key=FILE&insecure=true`), `unix:///PATH[?db=N]`, `cassandra://HOST[:PORT][,…]/KEYSPACE` (docs/cassandra.md), `redis+cluster://HOST[:PORT],…[?read-from=replica]` or `redis+sentinel://HOST[:PORT],…/SERVICE[/DB][?sentinel-user=USER&sentinel-password=PASSWORD]` (and `rediss+…`), `http://HOST[:PORT]/PATH/{key}` or `https://…[#ca=FILE&cert=FILE&key=FILE&insecure=true&http2=false]` (docs/http-origin.md), `postgres://USER[:PASSWORD]@HOST[:PORT][,…]/DATABASE?table=TABLE` (docs/postgres.md), `demo:[?delay=DURATION&fail=SHARE&absent=SHARE]` (generated answers).",
        ..ROW
    },
    SettingSpec {
        name: "query",
        kind: ValueKind::Text,
        optional: true,
        per_group: true,
        per_prefix: true,
        example: "SELECT * FROM users WHERE id = $1",
        help: "With a PostgreSQL source: the query whose row is the value of a key. `$1` is the key, \
               under a prefix the rest of the key. With more parameters, that is split at `:`. See \
               docs/postgres.md.",
        ..ROW
    },
    SettingSpec {
        name: "rows",
        kind: ValueKind::Choice(&["one", "all"]),
        default: Computed("`one`"),
        per_group: true,
        per_prefix: true,
        example: "all",
        help: "Beside `query`. `one`: the value is the first row, as a JSON object. `all`: the value \
               is a JSON array of all rows.",
        ..ROW
    },
    SettingSpec {
        name: "depends-on",
        kind: ValueKind::Text,
        optional: true,
        many: true,
        per_group: true,
        per_prefix: true,
        example: "users.id",
        help: "Beside `query`: a change of a row of `TABLE.COLUMN` removes the copy of the key that is \
               made of the column's value. `TABLE.*`: any change removes all copies under the \
               prefix. Without it, copies are as old as `ttl` allows.",
        ..ROW
    },
    SettingSpec {
        name: "upsert",
        kind: ValueKind::Text,
        optional: true,
        per_group: true,
        per_prefix: true,
        example: "INSERT INTO users VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET name = $2",
        help: "Beside `query`: the statement that writes a value. Its parameters are those of the query, \
               then the value. Without it, writes are refused.",
        ..ROW
    },
    SettingSpec {
        name: "delete",
        kind: ValueKind::Text,
        optional: true,
        per_group: true,
        per_prefix: true,
        example: "DELETE FROM users WHERE id = $1",
        help: "Beside `query`: the statement that deletes a key. Its parameters are those of the query. \
               Without it, deletes are refused.",
        ..ROW
    },
    SettingSpec {
        name: "coherence",
        kind: ValueKind::Choice(Coherence::NAMES),
        default: Is("coherent"),
        per_group: true,
        example: "ttl",
        help: "How copies of a Redis source are kept up to date. `coherent`: Redis announces every \
               change (`CLIENT TRACKING`); data without announcements is not cached. While Redis cannot be reached, copies are served for \
               `stale-if-error`, or for the rest of their `ttl` where that is longer. `ttl`: copies \
               are as old as `ttl` allows. `off`: nothing is cached. See docs/coherence.md.",
        ..ROW
    },
    SettingSpec {
        name: "tracking-prefixes",
        kind: ValueKind::Prefix,
        optional: true,
        many: true,
        per_group: true,
        example: "user:",
        help: "With `coherence` `coherent`: Redis announces every change of keys with these \
               prefixes (`BCAST`), and only such keys are cached. Otherwise Redis remembers each \
               key that was read. `*`: every key. No prefix may begin with another.",
        ..ROW
    },
    SettingSpec {
        name: "cache-replies",
        kind: ValueKind::Size { min: 64, max: 1 << 30 },
        default: Is("256KiB"),
        optional: true,
        per_group: true,
        example: "1MiB",
        help: "With a Redis source: caches replies of commands that read one key (HGET, LRANGE, \
               ZRANGE …), up to this size each. `off`: caches values only. See \
               docs/reference/redis.md.",
        ..ROW
    },
    SettingSpec {
        name: "source-timeout",
        kind: ValueKind::Duration { min: 1, max: DAY },
        default: Is("1s"),
        per_group: true,
        per_prefix: true,
        example: "250ms",
        help: "Maximum time of one fetch or write, including the wait for a connection. Under a \
               prefix it applies to an HTTP or `demo:` source only: fetches from Redis share \
               connections and use the value of the group.",
        ..ROW
    },
    SettingSpec {
        name: "source-slow-timeout",
        kind: ValueKind::Duration { min: 1, max: DAY },
        default: Is("1m"),
        example: "10m",
        help: "Maximum time of forwarded commands that can be slow at Redis: scripts and functions, \
               KEYS, SORT, LCS, and commands that Redis lists as `@dangerous`. They use a separate \
               connection per thread. Commands over several sets (ZUNIONSTORE, SINTER) have as \
               long, and so have other commands that wait while one of them runs. Values below \
               `source-timeout` are raised to it.",
        ..ROW
    },
    SettingSpec {
        name: "source-headers",
        kind: ValueKind::Header,
        optional: true,
        many: true,
        per_group: true,
        example: "X-Api-Key: @/run/secrets/api-key",
        help: "With an HTTP source: header fields of each request, `Name: value`, or `Name: @FILE` \
               to read the value from a file at the start. The values are secrets and are never \
               shown.",
        ..ROW
    },
    SettingSpec {
        name: "source-vary",
        kind: ValueKind::HeaderName,
        optional: true,
        many: true,
        per_group: true,
        example: "accept",
        help: "With an HTTP source: request header fields that a response may name in `Vary` and \
               still be cached, because Larder always sends the same value. `accept-encoding` is \
               always included. A response that varies with another field is not cached.",
        ..ROW
    },
    SettingSpec {
        name: "source-writes",
        kind: ValueKind::Choice(&["refuse", "through"]),
        default: Is("refuse"),
        per_group: true,
        example: "through",
        help: "With an HTTP source: `refuse` answers every write with an error. `through` sends it \
               to the API as `PUT` or `DELETE` of the key's URL and removes the copy. With a \
               PostgreSQL source with `table=`, `through` writes the row.",
        ..ROW
    },
    SettingSpec {
        name: "source-max-in-flight",
        kind: ValueKind::Count { min: 1, max: 1 << 20 },
        default: Is("4096"),
        example: "100",
        help: "Maximum number of fetches in flight at one server, including those that wait, over \
               all threads and all groups with that server. Beyond it, a miss fails at once.",
        ..ROW
    },
    SettingSpec {
        name: "source-adaptive",
        kind: ValueKind::Switch,
        default: Is("true"),
        example: "false",
        help: "Reduces the number of concurrent fetches, to no less than 16, when the server's \
               latency rises above twice its best. Other fetches wait up to 250ms, or a quarter of \
               `source-timeout` if that is less, and then fail. `false`: only \
               `source-max-in-flight` limits them. See docs/slow-sources.md.",
        ..ROW
    },
    SettingSpec {
        name: "source-breaker",
        kind: ValueKind::Percent { max: 100 },
        default: Is("75%"),
        optional: true,
        example: "50%",
        help: "Opens the circuit breaker when this share of the fetches within \
               ten seconds failed (at least 10), or when at least 10 in a row failed \
               over one second. Misses then get stale copies or an error at once, until the \
               source answers probes again. `off`: no breaker. A cluster has none. See \
               docs/slow-sources.md.",
        ..ROW
    },
    SettingSpec {
        name: "source-connections",
        kind: ValueKind::Count { min: 1, max: 64 },
        default: Computed("1; to PostgreSQL, the number of `threads`"),
        example: "4",
        help: "Connections of each thread to a Redis, or of all threads together to a PostgreSQL. Requests are pipelined \
               on them.",
        ..ROW
    },
];
