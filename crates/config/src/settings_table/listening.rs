//! Settings of the section “Listening”.
use super::{
    quantities::TEN_YEARS,
    setting_section::SettingSection,
    setting_spec::{Fallback::Is, SettingSpec},
    value_kind::ValueKind,
};
use crate::trusted_proxies::{ForwardedHeader, ProxyProtocol};

const ROW: SettingSpec = SettingSpec::in_section(SettingSection::Listening);

pub(super) const LISTENING: &[SettingSpec] = &[
    SettingSpec {
        name: "http",
        kind: ValueKind::Address,
        default: Is("127.0.0.1:8080"),
        optional: true,
        many: true,
        also: &["PROXY_HOST", "PROXY_PORT"],
        example: ":8080",
        help: "Address for HTTP. Port 0 takes a free one; no host means all interfaces.",
        ..ROW
    },
    SettingSpec {
        name: "redis",
        kind: ValueKind::Address,
        default: Is("127.0.0.1:6380"),
        optional: true,
        many: true,
        per_listener: true,
        example: ":6380",
        help: "Address for the Redis protocol.",
        ..ROW
    },
    SettingSpec {
        name: "memcached",
        kind: ValueKind::Address,
        optional: true,
        many: true,
        example: ":11211",
        help: "Address for memcached's text protocol. See docs/memcached.md.",
        ..ROW
    },
    SettingSpec {
        name: "deny-commands",
        kind: ValueKind::Command,
        optional: true,
        many: true,
        per_listener: true,
        example: "@dangerous",
        help: "Commands that Redis clients may not call: names (`flushall`), subcommands \
               (`config|set`) or categories (`@dangerous`). They are answered with `-NOPERM`. See \
               docs/in-front-of-redis.md.",
        ..ROW
    },
    SettingSpec {
        name: "allow-commands",
        kind: ValueKind::Command,
        optional: true,
        many: true,
        per_listener: true,
        example: "@read",
        help: "The only commands that Redis clients may call, in the form of `deny-commands`. \
               Empty: all commands. If both lists match, the more exact entry decides: `config|set` \
               before `config` before `@admin` before `@all`. If both are equally exact, \
               `deny-commands` wins. AUTH, HELLO, QUIT and RESET are always allowed.",
        ..ROW
    },
    SettingSpec {
        name: "forward-admin",
        kind: ValueKind::Switch,
        default: Is("false"),
        per_listener: true,
        example: "true",
        help: "Forwards commands that stop the source's Redis server, change its primary, or change \
               who can log in: SHUTDOWN, DEBUG, REPLICAOF, FAILOVER, MODULE LOAD, MIGRATE, ACL \
               SETUSER, CONFIG REWRITE, CONFIG SET of anything but tuning, and related commands. \
               Without it, Larder refuses them.",
        ..ROW
    },
    SettingSpec {
        name: "admin",
        kind: ValueKind::Address,
        default: Is("127.0.0.1:8081"),
        optional: true,
        example: "127.0.0.1:9090",
        help: "Address for the admin routes. Keep it off public networks.",
        ..ROW
    },
    SettingSpec {
        name: "allowed-hosts",
        kind: ValueKind::Hostname,
        optional: true,
        many: true,
        example: "larder.example.com",
        help: "Host names that requests to the HTTP and admin listeners may have in `Host`. Set it \
               when clients, or a proxy that passes `Host` on, reach a listener on a loopback \
               address by a name. Addresses, `localhost` and names without a dot are always \
               allowed. Requests with other names get 403, because a page of another site can \
               give its own name the address of this machine (DNS rebinding). Listeners on other \
               addresses check names only if this is set. Listeners with TLS check none, because \
               the certificate has the name.",
        ..ROW
    },
    SettingSpec {
        name: "trusted-proxies",
        kind: ValueKind::AddressRange,
        optional: true,
        many: true,
        example: "10.0.0.0/8",
        help: "Addresses and ranges of trusted proxies. Larder uses the client address that they send (`proxy-protocol`, `forwarded-header`), and ignores it from other addresses. See docs/proxies.md.",
        ..ROW
    },
    SettingSpec {
        name: "proxy-protocol",
        kind: ValueKind::Choice(ProxyProtocol::NAMES),
        default: Is("off"),
        per_listener: true,
        example: "required",
        help: "Reads the PROXY protocol (version 1 or 2) on connections of trusted proxies to the \
               HTTP and Redis listeners. `required`: a connection without the header is closed. \
               `optional`: it is served. `optional` is safe only if every trusted proxy sends the \
               header or removes the ones that its clients send.",
        ..ROW
    },
    SettingSpec {
        name: "forwarded-header",
        kind: ValueKind::Choice(ForwardedHeader::NAMES),
        default: Is("x-forwarded-for"),
        example: "forwarded",
        help: "Header in which trusted proxies name the client of an HTTP request. The client is \
               the rightmost address that is not a trusted proxy. The other header is ignored, \
               because clients can send it themselves.",
        ..ROW
    },
    SettingSpec {
        name: "password",
        kind: ValueKind::Secret,
        optional: true,
        example: "correct horse",
        help: "Password of the user `default` on every listener: AUTH and HELLO over the Redis \
               protocol, `Authorization: Basic` and `Bearer` over HTTP. Only `/healthz`, `/readyz` \
               and the descriptions of the routes are open. See docs/users.md.",
        ..ROW
    },
    SettingSpec {
        name: "password-file",
        kind: ValueKind::Path,
        optional: true,
        example: "/run/secrets/larder-password",
        help: "File with the `password`, in one line. Unlike a flag or a variable, it does not show in process lists or the environment. Larder reads it at the start. A reload reports a changed password, which needs a restart.",
        ..ROW
    },
    SettingSpec {
        name: "insecure",
        kind: ValueKind::Switch,
        default: Is("false"),
        example: "true",
        help: "Serves other machines without authentication. Otherwise Larder does not start on an \
               address that other machines can reach unless `password`, `users-file` or clients' \
               certificates (`tls-client-ca`) are set.",
        ..ROW
    },
    SettingSpec {
        name: "users-file",
        kind: ValueKind::Path,
        optional: true,
        example: "/etc/larder/users.acl",
        help: "File of users, one per line, in the format of Redis's `aclfile`: `user app on \
               #SHA-256 ~app:* &* +@read`. SIGHUP, `POST /v1/config/reload` and ACL LOAD read it \
               again. See docs/users.md.",
        ..ROW
    },
    SettingSpec {
        name: "jwt-jwks",
        kind: ValueKind::Path,
        optional: true,
        example: "/etc/larder/jwks.json",
        help: "File of the public keys that verify JSON Web Tokens, a JWK Set (RFC 7517). A token is then a login: `Authorization: Bearer` over HTTP, the password of AUTH and HELLO. It names a user of `users-file`. Needs `jwt-issuer` and `jwt-audience`. Read again with SIGHUP, `POST /v1/config/reload` and ACL LOAD. See docs/users.md.",
        ..ROW
    },
    SettingSpec {
        name: "jwt-issuer",
        kind: ValueKind::Text,
        optional: true,
        example: "https://login.example.com/",
        help: "The value that the claim `iss` of a token must have, exactly.",
        ..ROW
    },
    SettingSpec {
        name: "jwt-audience",
        kind: ValueKind::Text,
        optional: true,
        many: true,
        example: "larder",
        help: "Names of this service. The claim `aud` of a token must have one of them. Tokens for other services are refused.",
        ..ROW
    },
    SettingSpec {
        name: "jwt-user-claim",
        kind: ValueKind::Text,
        default: Is("sub"),
        example: "preferred_username",
        help: "The claim of a token that names the user of `users-file`.",
        ..ROW
    },
    SettingSpec {
        name: "auth",
        kind: ValueKind::Choice(&["larder", "passthrough"]),
        default: Is("larder"),
        example: "passthrough",
        help: "Where Redis clients are authenticated. `larder`: here, by `password` and \
               `users-file`; if neither is set, every client has the rights of Larder's own user at \
               the source. `passthrough`: at the source's Redis; clients use their credentials \
               there, and Larder serves them only keys that they may read there. See \
               docs/passthrough.md.",
        ..ROW
    },
    SettingSpec {
        name: "auth-cache",
        kind: ValueKind::Duration { min: 0, max: TEN_YEARS },
        default: Is("200ms"),
        example: "1s",
        help: "With `auth = \"passthrough\"`: how long Larder uses a copy of a user's rules; it refreshes the copy twice as often. Larder sends commands that the copy cannot decide to the source as that user. `0s`: it sends every read.",
        ..ROW
    },
    SettingSpec {
        name: "http-group",
        kind: ValueKind::Text,
        default: Is("default"),
        example: "data",
        help: "The group of the HTTP routes that name no group: `/v1/kv/{key}`, `/lookup`, `/v0/entity`, the item API and others. `/data/{key}` has the group `data` if there is one, and this group otherwise.",
        ..ROW
    },
    SettingSpec {
        name: "item-prefix",
        kind: ValueKind::RoutePrefix,
        default: Is("/cache/v1"),
        optional: true,
        example: "/api/cache",
        help: "Path of the item API on the HTTP listeners: `POST`, `GET` and `DELETE` of \
               `/cache/v1/item`, and `GET /cache/v1/keys`. `off`: no item API. See \
               docs/coming-from-gcache.md.",
        ..ROW
    },
    SettingSpec {
        name: "item-min-ttl",
        kind: ValueKind::Duration { min: 0, max: TEN_YEARS },
        default: Is("5s"),
        example: "1s",
        help: "Shortest `ttl` that the item API accepts, in whole seconds. A shorter one is refused \
               with error 12. `0` allows items that expire at once.",
        ..ROW
    },
    SettingSpec {
        name: "item-max-ttl",
        kind: ValueKind::Duration { min: 1000, max: TEN_YEARS },
        default: Is("217d"),
        example: "30d",
        help: "Longest `ttl` that the item API accepts, in whole seconds. A longer one is refused \
               with error 12.",
        ..ROW
    },
];
