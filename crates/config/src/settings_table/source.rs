//! Settings of the section “Source”.
use super::{
    quantities::DAY,
    setting_section::SettingSection,
    setting_spec::{
        Fallback::{Computed, Is, Off},
        SettingSpec,
    },
    value_kind::{
        HEADER, IN_FLIGHT, PREFIX, SOURCE,
        ValueKind::{Choice, Count, Duration, Percent, Size, Text},
    },
};
use crate::settings::Coherence;

settings! { SettingSection::Source;
    /// URL of the source, which answers misses and takes writes: `none:`, `table:FILE`
    /// (docs/tables.md), `disk:DIR` (docs/disk-store.md), `redis://[USER[:PASSWORD]@]HOST[:PORT][/DB]`,
    /// `rediss://…` (TLS; `?ca=FILE&cert=FILE&key=FILE&insecure=true`), `unix:///PATH[?db=N]`,
    /// `cassandra://HOST[:PORT][,…]/KEYSPACE` (docs/cassandra.md),
    /// `redis+cluster://HOST[:PORT],…[?read-from=replica]` or
    /// `redis+sentinel://HOST[:PORT],…/SERVICE[/DB][?sentinel-user=USER&sentinel-password=PASSWORD]`
    /// (and `rediss+…`), `http://HOST[:PORT]/PATH/{key}` or
    /// `https://…[#ca=FILE&cert=FILE&key=FILE&insecure=true&http2=false]` (docs/http-origin.md),
    /// `postgres://USER[:PASSWORD]@HOST[:PORT][,…]/DATABASE?table=TABLE` (docs/postgres.md),
    /// `demo:[?delay=DURATION&fail=SHARE&absent=SHARE]` (generated answers). `#vary=FIELD,FIELD` behind
    /// an HTTP URL names request fields that a response may name in `Vary` and still be cached.
    "source": SOURCE => Is("none:"),
        example("redis://127.0.0.1:6379/0"), per_group, also(&["REDIS_HOST", "REDIS_PORT"]);

    /// Store or Redis server to move to: Larder copies all entries of the source there, and each change
    /// that clients make. The two then have the same entries, and the mirror can take the place of the
    /// source: by a reload if both are stores (`disk:`, `cassandra://`) or both are Redis servers.
    /// Entries that only the mirror has are deleted; a mirror of other data is refused. Set it while
    /// you move your data. See docs/move-data.md.
    "mirror": SOURCE => Off, example("redis://127.0.0.1:6390"), optional, per_group;

    /// With a PostgreSQL source: the query whose row is the value of a key. `$1` is the key, under a
    /// prefix the rest of the key. With more parameters, that is split at `:`. See docs/postgres.md.
    "query": Text => Off, example("SELECT * FROM users WHERE id = $1"), optional, per_group, per_prefix;

    /// With `query`. `one`: the value is the first row, as a JSON object. `all`: the value is a JSON
    /// array of all rows.
    "rows": Choice(&["one", "all"]) => Computed("one"), example("all"), per_group, per_prefix;

    /// With `query`: the columns on which its answer depends. A change of a row removes the copy of the
    /// key that has the value of `TABLE.COLUMN`. `TABLE.*`: any change of the table removes all copies
    /// under the prefix. Without it, copies are as old as `ttl` allows.
    "depends-on": Text => Off, example("users.id"), optional, many, per_group, per_prefix;

    /// With `query`: the statement that writes a value. Its parameters are those of the query, then
    /// the value. Without it, writes are refused.
    "upsert": Text => Off,
        example("INSERT INTO users VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET name = $2"), optional,
        per_group, per_prefix;

    /// With `query`: the statement that deletes a key. Its parameters are those of the query. Without
    /// it, deletes are refused.
    "delete": Text => Off, example("DELETE FROM users WHERE id = $1"), optional, per_group, per_prefix;

    /// How copies of a Redis source are kept up to date. `coherent`: Redis announces every change
    /// (`CLIENT TRACKING`); data without announcements is not cached. While Redis cannot be reached,
    /// copies are served for `stale-if-error`, or for the rest of their `ttl` where that is longer.
    /// `ttl`: copies are as old as `ttl` allows. `off`: nothing is cached. See docs/coherence.md.
    "coherence": Choice(Coherence::NAMES) => Is("coherent"), example("ttl"), per_group;

    /// With `coherence` `coherent`: Redis announces every change of keys with these prefixes (`BCAST`),
    /// and only such keys are cached. Otherwise Redis remembers each key that was read. `*`: every key.
    /// No prefix may begin with another.
    "tracking-prefixes": PREFIX => Off, example("user:"), optional, many, per_group;

    /// With a Redis source: caches replies of commands that read one key (HGET, LRANGE, ZRANGE …), up
    /// to this size each. `off`: caches values only. See docs/reference/redis.md.
    "cache-replies": Size { min: 64, max: 1 << 30 } => Is("256KiB"), example("1MiB"), optional, per_group;

    /// Maximum time of one fetch or write, including the wait for a connection. Under a prefix it
    /// applies to an HTTP or `demo:` source only: fetches from Redis share connections and use the
    /// value of the group.
    "source-timeout": Duration { min: 1, max: DAY } => Is("1s"), example("250ms"), per_group, per_prefix;

    /// Maximum time of forwarded commands that can be slow at Redis: scripts and functions, KEYS, SORT,
    /// LCS, and commands that Redis lists as `@dangerous`. They use a separate connection per thread.
    /// Commands over several sets (ZUNIONSTORE, SINTER) have as long, and so have other commands that
    /// wait while one of them runs. Values below `source-timeout` are raised to it.
    "source-slow-timeout": Duration { min: 1, max: DAY } => Is("1m"), example("10m");

    /// With an HTTP source: header fields of each request, `Name: value`, or `Name: @FILE` to read the
    /// value from a file at the start. The values are secrets and are never shown.
    "source-headers": HEADER => Off, example("X-Api-Key: @/run/secrets/api-key"), optional, many, per_group;

    /// With an HTTP source: `refuse` answers every write with an error. `through` sends it to the API
    /// as `PUT` or `DELETE` of the key's URL and removes the copy. With a PostgreSQL source with
    /// `table=`, `through` writes the row.
    "source-writes": Choice(&["refuse", "through"]) => Is("refuse"), example("through"), per_group;

    /// Maximum number of fetches in flight at one server, including those that wait, over all threads
    /// and all groups with that server. Beyond it, a miss fails at once. While the server's latency is
    /// above twice its best, Larder reduces the number, to no less than 16. Other fetches wait up to
    /// 250ms, or a quarter of `source-timeout` if that is less, and then fail. `fixed:100` is never
    /// reduced: for a server whose latency differs from fetch to fetch whatever its load is. See
    /// docs/slow-sources.md.
    "source-max-in-flight": IN_FLIGHT => Is("4096"), example("fixed:100");

    /// Opens the circuit breaker when this share of the fetches within ten seconds failed (at least
    /// 10), or when at least 10 in a row failed over one second. Misses then get stale copies or an
    /// error at once, until the source answers probes again. `off`: no breaker. A cluster has none. See
    /// docs/slow-sources.md.
    "source-breaker": Percent { max: 100 } => Is("75%"), example("50%"), optional;

    /// Connections of each thread to a Redis, or of all threads together to a PostgreSQL. Requests are
    /// pipelined on them.
    "source-connections": Count { min: 1, max: 64 } => Computed("1; to PostgreSQL, the number of `threads`"),
        example("4");
}
