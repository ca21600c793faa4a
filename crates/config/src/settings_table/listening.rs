//! Settings of the section “Listening”.
use super::{
    setting_section::SettingSection,
    setting_spec::{
        Fallback::{Is, Off},
        SettingSpec,
    },
    value_kind::{
        ADDRESS_RANGE, AUTH, COMMAND, HOSTNAME, LISTENER, REDIS_PREFIX, ROUTE_PREFIX,
        ValueKind::{Choice, Path, Secret, Switch, Text},
    },
};
use crate::trusted_proxies::{ForwardedHeader, ProxyProtocol};

settings! { SettingSection::Listening;
    /// Address for HTTP. Port 0 takes a free one; no host means all interfaces.
    "http": LISTENER => Is("127.0.0.1:8080"), example(":8080"), optional, many, also(&["PROXY_HOST", "PROXY_PORT"]);

    /// Address for the Redis protocol.
    "redis": LISTENER => Is("127.0.0.1:6380"), example(":6380"), optional, many, per_listener;

    /// `emulated`: the Redis listeners answer like the only node of a Redis Cluster, with all slots. Set
    /// it for applications whose client class is that of a cluster. Commands whose keys have several
    /// slots are then refused as a cluster refuses them. See docs/cluster.md.
    "cluster": Choice(&["off", "emulated"]) => Is("off"), example("emulated");

    /// Address for memcached's text protocol. See docs/memcached.md.
    "memcached": LISTENER => Off, example(":11211"), optional, many;

    /// Commands that Redis clients may not call: names (`flushall`), subcommands (`config|set`) or
    /// categories (`@dangerous`). They are answered with `-NOPERM`. See docs/in-front-of-redis.md.
    "deny-commands": COMMAND => Off, example("@dangerous"), optional, many, per_listener;

    /// The only commands that Redis clients may call, in the form of `deny-commands`. Empty: all
    /// commands. If both lists match, the more exact entry decides: `config|set` before `config` before
    /// `@admin` before `@all`. If both are equally exact, `deny-commands` wins. AUTH, HELLO, QUIT and
    /// RESET are always allowed.
    "allow-commands": COMMAND => Off, example("@read"), optional, many, per_listener;

    /// Forwards commands that stop the source's Redis server, change its primary, or change who can log
    /// in: SHUTDOWN, DEBUG, REPLICAOF, FAILOVER, MODULE LOAD, MIGRATE, ACL SETUSER, CONFIG REWRITE,
    /// CONFIG SET of anything but tuning, and related commands. Without it, Larder refuses them.
    "forward-admin": Switch => Is("false"), example("true"), per_listener;

    /// Address for the admin routes. Keep it off public networks.
    "admin": LISTENER => Is("127.0.0.1:8081"), example("127.0.0.1:9090"), optional;

    /// Host names that requests to the HTTP and admin listeners may have in `Host`. Set it when
    /// clients, or a proxy that passes `Host` on, reach a listener on a loopback address by a name.
    /// Addresses, `localhost` and names without a dot are always allowed. Requests with other names get
    /// 403, because a page of another site can give its own name the address of this machine (DNS
    /// rebinding). Listeners on other addresses check names only if this is set. Listeners with TLS
    /// check none, because the certificate has the name.
    "allowed-hosts": HOSTNAME => Off, example("larder.example.com"), optional, many;

    /// Addresses and ranges of trusted proxies. Larder uses the client address that they send
    /// (`proxy-protocol`, `forwarded-header`), and ignores it from other addresses. See
    /// docs/proxies.md.
    "trusted-proxies": ADDRESS_RANGE => Off, example("10.0.0.0/8"), optional, many;

    /// Reads the PROXY protocol (version 1 or 2) on connections of trusted proxies to the HTTP and
    /// Redis listeners. `required`: a connection without the header is closed. `optional`: it is
    /// served. `optional` is safe only if every trusted proxy sends the header or removes the ones that
    /// its clients send.
    "proxy-protocol": Choice(ProxyProtocol::NAMES) => Is("off"), example("required"), per_listener;

    /// Header in which trusted proxies name the client of an HTTP request. The client is the rightmost
    /// address that is not a trusted proxy. The other header is ignored, because clients can send it
    /// themselves.
    "forwarded-header": Choice(ForwardedHeader::NAMES) => Is("x-forwarded-for"), example("forwarded");

    /// Password of the user `default` on every listener: AUTH and HELLO over the Redis protocol,
    /// `Authorization: Basic` and `Bearer` over HTTP. Only `/healthz`, `/readyz` and the descriptions
    /// of the routes are open. `@FILE`: the one line of that file, which neither process lists nor the
    /// environment show. Larder reads it at the start. A reload reports a changed password, which needs
    /// a restart. See docs/users.md.
    "password": Secret => Off, example("correct horse"), optional;

    /// Serves other machines without authentication. Otherwise Larder does not start on an address that
    /// other machines can reach unless `password`, `users-file` or clients' certificates
    /// (`tls-client-ca`) are set.
    "insecure": Switch => Is("false"), example("true");

    /// File of users, one per line, in the format of Redis's `aclfile`: `user app on #SHA-256 ~app:* &*
    /// +@read`. SIGHUP, `POST /v1/config/reload` and ACL LOAD read it again. See docs/users.md.
    "users-file": Path => Off, example("/etc/larder/users.acl"), optional;

    /// File of the public keys that verify JSON Web Tokens, a JWK Set (RFC 7517). A token is then a
    /// login: `Authorization: Bearer` over HTTP, the password of AUTH and HELLO. It names a user of
    /// `users-file`. Needs `jwt-issuer` and `jwt-audience`. Read again with SIGHUP, `POST
    /// /v1/config/reload` and ACL LOAD. See docs/users.md.
    "jwt-jwks": Path => Off, example("/etc/larder/jwks.json"), optional;

    /// The value that the claim `iss` of a token must have, exactly.
    "jwt-issuer": Text => Off, example("https://login.example.com/"), optional;

    /// Names of this service. The claim `aud` of a token must have one of them. Tokens for other
    /// services are refused.
    "jwt-audience": Text => Off, example("larder"), optional, many;

    /// The claim of a token that names the user of `users-file`.
    "jwt-user-claim": Text => Is("sub"), example("preferred_username");

    /// Where Redis clients are authenticated. `larder`: here, by `password` and `users-file`; if
    /// neither is set, every client has the rights of Larder's own user at the source. `passthrough`:
    /// at the source's Redis; clients use their credentials there, and Larder serves them only keys
    /// that they may read there. `passthrough:1s`: Larder uses its copy of a user's rules for this long
    /// (200 ms if it is left out), and refreshes it twice as often. Set it to how long a right that is
    /// taken away at Redis may still count. `passthrough:0s`: every command goes to Redis. See
    /// docs/passthrough.md.
    "auth": AUTH => Is("larder"), example("passthrough");

    /// The group of the HTTP routes that name no group: `/v1/kv/{key}`, `/lookup`, `/v0/entity`, the
    /// item API and others. `/data/{key}` has the group `data` if there is one, and this group
    /// otherwise.
    "http-group": Text => Is("default"), example("data");

    /// Path of the item API on the HTTP listeners: `POST`, `GET` and `DELETE` of `/cache/v1/item`, and
    /// `GET /cache/v1/keys`. `off`: no item API. See docs/coming-from-gcache.md.
    "item-prefix": ROUTE_PREFIX => Is("/cache/v1"), example("/api/cache"), optional;

    /// Path of Redis over HTTP on the HTTP listeners: `POST /redis`, `/redis/pipeline` and others.
    /// `off`: no Redis over HTTP. `/`: wherever no other route is, for clients that cannot take a path
    /// in their URL. See docs/reference/http.md.
    "redis-http-prefix": REDIS_PREFIX => Is("/redis"), example("/api/redis"), optional;
}
