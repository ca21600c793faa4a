use super::*;
use std::net::Ipv4Addr;

fn settings(args: &[&str]) -> Settings {
    Settings::from_args(args).expect("valid")
}
fn throttle(args: &[&str]) -> Throttle {
    Throttle::new(&settings(args), Switch::default())
}
const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// A request that names no key and no command.
fn ask(throttle: &Throttle, scope: Scope, address: IpAddr, user: Option<&str>) -> Result<Option<Allowance>, Throttled> {
    throttle.check(scope, Caller { address, user }, None, std::iter::empty())
}
fn plain(throttle: &Throttle, address: IpAddr) -> Result<Option<Allowance>, Throttled> {
    ask(throttle, Scope::Data, address, None)
}
fn command(throttle: &Throttle, name: &str, category: &str, keys: &[&str]) -> Result<Option<Allowance>, Throttled> {
    let class = CommandClass { name, categories: Categories::named(category).expect("known") };
    let caller = Caller { address: A, user: None };
    throttle.check(Scope::Data, caller, Some(class), keys.iter().map(|key| key.as_bytes()))
}

#[test]
fn limits_are_switched_on_and_off() {
    let throttle = throttle(&[]);
    assert!(!throttle.is_on() && plain(&throttle, A) == Ok(None));
    throttle.replace(&settings(&["--throttle=1/s"]));
    assert!(throttle.is_on() && plain(&throttle, A).is_ok() && plain(&throttle, A).is_err());
    throttle.replace(&settings(&[]));
    assert!(!throttle.is_on() && plain(&throttle, A).is_ok());
}

#[test]
fn each_client_has_its_own_budget_and_the_answer_names_the_setting() {
    let throttle = throttle(&["--throttle=2/m"]);
    let left = plain(&throttle, A).expect("allowed").expect("limited");
    assert_eq!((left.setting, left.burst, left.remaining), ("throttle", 2, 1));
    assert_eq!(left.window, Duration::from_secs(60));
    assert_eq!(left.whole_again(), Duration::from_secs(30));
    assert!(plain(&throttle, A).is_ok());
    let refused = plain(&throttle, A).expect_err("over");
    assert_eq!((refused.setting().as_str(), refused.is_of_client, refused.allowance.remaining), ("throttle", true, 0));
    assert!(refused.retry_after > Duration::ZERO && refused.retry_after <= Duration::from_secs(30));
    assert!(plain(&throttle, B).is_ok());
}

#[test]
fn the_total_is_shared_and_admin_is_apart() {
    let throttle = throttle(&["--throttle-total=1/s", "--throttle-admin=1/s"]);
    assert!(plain(&throttle, A).is_ok());
    let refused = plain(&throttle, B).expect_err("over");
    assert_eq!((refused.setting().as_str(), refused.is_of_client), ("throttle-total", false));
    assert!(ask(&throttle, Scope::Admin, A, None).is_ok());
    let refused = ask(&throttle, Scope::Admin, A, None).expect_err("over");
    assert_eq!(refused.setting(), "throttle-admin");
    assert!(ask(&throttle, Scope::Admin, B, None).is_ok());
}

#[test]
fn a_user_has_one_budget_at_all_addresses() {
    let throttle = throttle(&["--throttle-user=1/s"]);
    assert!(ask(&throttle, Scope::Data, A, Some("ann")).is_ok());
    let refused = ask(&throttle, Scope::Data, B, Some("ann")).expect_err("over");
    assert_eq!(refused.setting(), "throttle-user");
    assert!(ask(&throttle, Scope::Data, A, Some("bob")).is_ok());
    assert!((0..5).all(|_| plain(&throttle, A).is_ok()), "nobody has no budget of a user");
}

#[test]
fn commands_are_limited_by_name_and_by_category() {
    let throttle = throttle(&["--throttle-commands=keys=1/s", "--throttle-commands=@write=2/s"]);
    assert!(command(&throttle, "keys", "slow", &[]).is_ok());
    assert_eq!(command(&throttle, "keys", "slow", &[]).expect_err("over").setting(), "throttle-commands (keys=1/s)");
    assert!(command(&throttle, "set", "write", &[]).is_ok() && command(&throttle, "del", "write", &[]).is_ok());
    let refused = command(&throttle, "incr", "write", &[]).expect_err("over");
    assert_eq!(refused.setting(), "throttle-commands (@write=2/s)");
    assert!((0..5).all(|_| command(&throttle, "get", "read", &[]) == Ok(None)));
}

#[test]
fn the_longest_prefix_of_each_key_counts() {
    let throttle = throttle(&["--throttle-prefixes=user:=2/s", "--throttle-prefixes=user:vip:=5/s"]);
    assert!(command(&throttle, "mget", "read", &["user:1", "user:vip:1", "other"]).is_ok());
    assert!(command(&throttle, "get", "read", &["user:2"]).is_ok());
    let refused = command(&throttle, "get", "read", &["user:3"]).expect_err("over");
    assert_eq!((refused.setting().as_str(), refused.is_of_client), ("throttle-prefixes (user:)", false));
    assert!((0..4).all(|_| command(&throttle, "get", "read", &["user:vip:2"]).is_ok()));
    assert!(command(&throttle, "get", "read", &["user:vip:2"]).is_err());
    assert!(command(&throttle, "get", "read", &["other"]).is_ok());
}

#[test]
fn busy_clients_do_a_quiet_one_no_harm() {
    // 1600 clients far over their limits: a quiet client shares both of its cells with one in 400.
    let throttle = throttle(&["--throttle=3/m"]);
    let client = |n: u32| IpAddr::from(Ipv4Addr::from_bits(n));
    for n in 0..1600 {
        (0..20).for_each(|_| drop(plain(&throttle, client(n))));
    }
    let refused = (10_000..11_000).filter(|n| plain(&throttle, client(*n)).is_err()).count();
    assert!(refused < 50, "{refused} of 1000");
}

#[test]
fn an_ipv6_client_is_its_64_bit_prefix_and_a_mapped_ipv4_client_is_ipv4() {
    let parse = |text: &str| text.parse::<IpAddr>().expect("an address");
    assert_eq!(bucket(parse("2001:db8::1")), bucket(parse("2001:db8::ffff:2")));
    assert_ne!(bucket(parse("2001:db8::1")), bucket(parse("2001:db8:0:1::1")));
    assert_eq!(bucket(parse("::ffff:10.0.0.1")), A);
}
