use super::super::source_url::{Deployment, RedisAddress, RedisUrl, SentinelUrl, SourceUrl};
use super::super::{demo_url::DemoUrl, tls_client_settings::TlsClientSettings};
use proptest::prelude::*;

fn redis(text: &str) -> RedisUrl {
    match text.parse() {
        Ok(SourceUrl::Redis(url)) => url,
        other => panic!("{text}: {other:?}"),
    }
}
fn tcp(host: &str, port: u16) -> RedisAddress {
    RedisAddress::Tcp { host: host.to_string(), port }
}

#[test]
fn parts() {
    assert_eq!("none:".parse(), Ok(SourceUrl::None));
    assert_eq!("none".parse(), Ok(SourceUrl::None));
    for (text, file) in [("table:a.ltab", "a.ltab"), ("table:/var/l%20b", "/var/l b"), ("table:///var/x", "/var/x")] {
        assert_eq!(text.parse(), Ok(SourceUrl::Table(file.into())));
    }
    assert_eq!(SourceUrl::Table("/a b/c".into()).to_string(), "table:/a%20b/c");
    for (text, dir) in [("disk:data", "data"), ("disk:/var/l%20b", "/var/l b"), ("disk:///var/x", "/var/x")] {
        assert_eq!(text.parse(), Ok(SourceUrl::Disk(dir.into())));
    }
    assert_eq!(SourceUrl::Disk("/a b/c".into()).to_string(), "disk:/a%20b/c");
    assert_eq!("demo:".parse(), Ok(SourceUrl::Demo(DemoUrl::default())));
    let url = redis("redis://cache.internal");
    assert_eq!((url.address, url.database, url.tls), (tcp("cache.internal", 6379), 0, None));
    let url = redis("redis://us%40er:p%3Aa%2Fss:word@[::1]:7000/15");
    assert_eq!((url.address, url.database), (tcp("::1", 7000), 15));
    assert_eq!(url.user.as_deref(), Some("us@er"));
    assert_eq!(url.password.as_deref(), Some("p:a/ss:word"));
    let url = redis("redis://:secret@h/");
    assert_eq!((url.user, url.password.as_deref(), url.database), (None, Some("secret"), 0));
    let url = redis("REDISS://h:1/2?ca=/etc/ca%20s.pem&cert=c&key=k&insecure=true");
    assert_eq!(
        url.tls,
        Some(TlsClientSettings {
            ca: Some("/etc/ca s.pem".into()),
            cert: Some("c".into()),
            key: Some("k".into()),
            insecure: true,
            any_name: false,
        })
    );
    let url = redis("redis+cluster://u:p@a,b:7001,[::1]:7002?read-from=replica");
    assert_eq!(url.address, tcp("a", 6379));
    let seeds = vec![tcp("b", 7001), tcp("::1", 7002)];
    assert_eq!(url.deployment, Deployment::Cluster { seeds, from_replicas: true });
    let url = redis("rediss+sentinel://:p@a,b:1/my%2Fmaster/3?sentinel-user=s&sentinel-password=q");
    assert_eq!((url.address, url.database, url.tls), (tcp("a", 26379), 3, Some(TlsClientSettings::default())));
    let (service, user, password) = ("my/master".to_string(), Some("s".to_string()), Some("q".to_string().into()));
    assert_eq!(
        url.deployment,
        Deployment::Sentinel(Box::new(SentinelUrl {
            others: vec![tcp("b", 1)],
            service,
            user,
            password,
            password_file: None
        }))
    );
    let url = redis("unix://u:p@/run/redis.sock?db=3");
    assert_eq!(url.address, RedisAddress::Unix("/run/redis.sock".into()));
    assert_eq!((url.user.as_deref(), url.password.as_deref(), url.database), (Some("u"), Some("p"), 3));
}

#[test]
fn errors_name_what_is_valid() {
    for (text, expected) in [
        ("", "a source is a URL; sources are none:, table:FILE, disk:DIR, redis://"),
        ("rediz://h", "unknown source rediz:, did you mean redis:? (sources are none:"),
        ("mysql://h", "unknown source mysql: (sources are none:"),
        ("http://h/key", "the path or query of an http source holds {key} once: write http://HOST:PORT/PATH/{key}"),
        ("table:", "the table's file is missing"),
        ("table:%ff", "the file is not UTF-8"),
        ("disk:", "the store's directory is missing"),
        ("disk:%ff", "the directory is not UTF-8"),
        ("demo:?slow=1s", "unknown parameter `slow`: demo: takes delay, fail and absent"),
        ("redis+cluster://h/1", "a cluster has one database"),
        ("redis+cluster://h,", "the source's host is missing"),
        ("redis+cluster://h?read-from=any", "read-from is primary or replica, not `any`"),
        ("redis+cluster://h?db=1", "unknown parameter `db`: redis:// takes password-file and read-from"),
        ("redis+sentinel://h", "the master's name is missing"),
        (
            "redis+sentinel://h/m?x=1",
            "unknown parameter `x`: redis:// takes password-file, sentinel-user, sentinel-password and",
        ),
        ("redis+clutser://h", "unknown source redis+clutser:, did you mean redis+cluster:?"),
        ("redis:h", "write two slashes after redis:, as in redis://HOST:PORT"),
        ("rediss:/u:secret@h", "write two slashes after rediss:, as in rediss://HOST:PORT"),
        ("unix:/run/redis.sock", "write two slashes and an absolute path: unix:///run/redis.sock"),
        ("127.0.0.1:6379", "`127.0.0.1:6379` is an address, not a URL: did you mean redis://127.0.0.1:6379?"),
        ("[::1]:6379", "`[::1]:6379` is an address, not a URL: did you mean redis://[::1]:6379?"),
        ("::1", "`::1` is an address, not a URL: did you mean redis://[::1]?"),
        (
            "/x.ltab",
            "is a path, not a URL: write table:/x.ltab for a table, disk:/x.ltab for a disk store, unix:///x.ltab",
        ),
        ("./x", "is a path, not a URL: write table:./x for a table, disk:./x for a disk store"),
        ("localhost", "`localhost` is an address, not a URL: did you mean redis://localhost?"),
        // It may be a password, so it is not shown.
        ("u:secret@h:6379", "unknown source u: (sources are none:"),
        ("none://x", "sources are none:"),
        ("redis://", "the source's host is missing"),
        ("redis://h:0", "`0` is not a port"),
        ("redis://h:70000", "`70000` is not a port"),
        ("redis://h:1:2", "`h:1:2` is not a host and port"),
        ("redis://[::1", "is not a host: write [::1]:6379"),
        ("redis://[::1]x", "is not a host and port"),
        ("redis://h/one", "`one` is not the number of a database"),
        ("redis://user:a/b@h", "a / in a user or password is written %2F"),
        ("redis://h/99999999999", "database `99999999999` is too large"),
        ("redis://h?ca=x", "unknown parameter `ca`: redis:// takes password-file"),
        ("rediss://h?cat=x", "unknown parameter `cat`: rediss:// takes ca, cert, key, insecure, password-file"),
        ("rediss://h?insecure=1", "insecure is true or false, not `1`"),
        ("rediss://h?cert=x", "cert and key go together"),
        ("unix://run/x", "a socket's path is absolute: write unix:///run/redis.sock"),
        ("unix:///x?foo=1", "unknown parameter `foo`: unix:// takes db"),
        ("redis://:a@h?password-file=b", "give the password in the URL or in password-file, not in both"),
        ("redis://%ff@h", "the user is not UTF-8"),
    ] {
        let error = text.parse::<SourceUrl>().unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn passwords_are_masked_everywhere() {
    let url = redis("rediss://user:hunter2@h:1/2?cert=a&key=b");
    assert_eq!(url.to_string(), "rediss://user:***@h:1/2?cert=a&key=b");
    assert!(!format!("{url:?}").contains("hunter2"), "{url:?}");
    let url = redis("redis+sentinel://h:1,i:2/m?sentinel-password=hunter2");
    assert_eq!(url.to_string(), "redis+sentinel://h:1,i:2/m/0?sentinel-password=***");
    assert!(!format!("{url:?}").contains("hunter2"), "{url:?}");
    let error = "redis://:hunter2@h:x".parse::<SourceUrl>().unwrap_err();
    assert!(!error.contains("hunter2"), "{error}");
}

proptest! {
    #[test]
    fn what_is_shown_reads_back(host in "[a-z0-9.-]{1,20}|::1", port in 1u16.., database: u32, user in proptest::option::of("\\PC{1,10}"), unix: bool, tls: bool, several in 0..3) {
        let address = if unix { RedisAddress::Unix(format!("/{host}").into()) } else { RedisAddress::Tcp { host, port } };
        let others = vec![tcp("::2", port), tcp("other", 1)];
        let deployment = match several {
            1 if !unix => Deployment::Cluster { seeds: others, from_replicas: tls },
            2 if !unix => Deployment::Sentinel(Box::new(SentinelUrl { others, service: "a/b?".to_string(), user: user.clone(), password: None, password_file: tls.then(|| "/s p".into()) })),
            _ => Deployment::Single,
        };
        let database = if matches!(deployment, Deployment::Cluster { .. }) { 0 } else { database };
        let url = RedisUrl { address, tls: (tls && !unix).then(TlsClientSettings::default), user, password: None, password_file: unix.then(|| "/a b".into()), database, deployment };
        prop_assert_eq!(redis(&url.to_string()), url);
    }
    #[test]
    fn any_text_is_an_answer(text in "(redis|rediss|unix|none)?:?/{0,2}\\PC*") {
        let _ = text.parse::<SourceUrl>();
    }
}
