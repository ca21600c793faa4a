//! Larder's ring and those of the real libraries: the same owner for every key.
use super::interop;
use larder_ring::peer::{Ring, RingHash};
use std::{
    fmt::Write as _,
    io::Write as _,
    process::{Command, Stdio},
};

const KEYS: u64 = 100_000;

/// Keys of many kinds: short and long numbers, names with a common beginning, paths, text of
/// several alphabets, any bytes, none at all.
fn keys() -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(17);
    let mut keys = vec![Vec::new(), b"\0".to_vec(), vec![0xff; 300], b"a/b?c=%20 d+e".to_vec(), "ключ/鍵".into()];
    for number in keys.len() as u64..KEYS {
        keys.push(match number % 6 {
            0 => number.to_string().into_bytes(),
            1 => format!("user:{number}:profile").into_bytes(),
            2 => format!("/api/v1/items/{}?page={}", number / 7, number % 7).into_bytes(),
            3 => random.u64(..).to_be_bytes().to_vec(),
            4 => (0..random.usize(1..80)).map(|_| random.u8(..)).collect(),
            _ => (0..random.usize(1..20)).map(|_| random.char('à'..='龥')).collect::<String>().into_bytes(),
        });
    }
    keys
}

/// The owners that a library chooses, by name.
fn library_owners(library: &str, peers: &[String], keys: &[Vec<u8>]) -> Vec<String> {
    let mut child = Command::new(interop::program("ring"))
        .arg(library)
        .args(peers)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = String::new();
    for key in keys {
        key.iter().for_each(|byte| write!(lines, "{byte:02x}").unwrap());
        lines.push('\n');
    }
    let mut stdin = child.stdin.take().unwrap();
    // It answers while it reads.
    let sent = std::thread::spawn(move || stdin.write_all(lines.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    sent.join().unwrap();
    assert!(output.status.success(), "the program ring fails for {library}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Peers as fleets have them: hosts in a row, and those of a headless service.
fn peer_sets() -> Vec<Vec<String>> {
    let hosts = |count: usize| (0..count).map(|node| format!("10.0.{}.{}:8080", node / 8, node % 8 * 3 + 1)).collect();
    let pods =
        |count: usize| (0..count).map(|node| format!("cache-{node}.cache.default.svc.cluster.local:8080")).collect();
    let ports = |count: usize| (0..count).map(|node| format!("127.0.0.1:{}", 8080 + node)).collect();
    vec![ports(3), hosts(5), pods(16), hosts(64), ports(1)]
}

fn agrees(library: &str, hash: RingHash, name: impl Fn(&String) -> String) {
    let keys = keys();
    for peers in peer_sets() {
        let peers: Vec<String> = peers.iter().map(&name).collect();
        let ring = Ring::new(hash, &peers.iter().map(String::as_str).collect::<Vec<_>>());
        let owners = library_owners(library, &peers, &keys);
        assert_eq!(owners.len(), keys.len());
        let different: Vec<_> = keys
            .iter()
            .zip(&owners)
            .filter(|(key, owner)| peers[ring.owner(key).unwrap()] != **owner)
            .take(5)
            .collect();
        assert!(different.is_empty(), "{library}, {} peers, the library says: {different:?}", peers.len());
    }
}

#[test]
#[ignore = "make test-clients"]
fn owners_are_those_of_groupcache_go_v3() {
    agrees("v3", RingHash::Fnv1, String::clone);
}

#[test]
#[ignore = "make test-clients"]
fn owners_are_those_of_mailguns_groupcache() {
    agrees("mailgun", RingHash::Fnv1, |peer| format!("http://{peer}"));
}

#[test]
#[ignore = "make test-clients"]
fn owners_are_those_of_the_original_groupcache() {
    agrees("original", RingHash::Crc32, |peer| format!("http://{peer}"));
}

#[test]
#[ignore = "make test-clients"]
fn ties_are_settled_like_the_original_does() {
    // One point of these two is the same: 1372318963. Whichever was added last has the keys before it.
    let tied = ["http://10.0.32.9:8080", "http://10.0.60.20:8080"].map(str::to_owned);
    // Many keys: those of the tied point are 1 in some hundred.
    let keys: Vec<Vec<u8>> = keys();
    for peers in [tied.clone(), [tied[1].clone(), tied[0].clone()]] {
        let ring = Ring::new(RingHash::Crc32, &[&peers[0], &peers[1]]);
        let ours = keys.iter().map(|key| peers[ring.owner(key).unwrap()].clone());
        assert!(ours.eq(library_owners("original", &peers, &keys)));
    }
    let owners =
        |first: usize, second: usize| library_owners("original", &[tied[first].clone(), tied[second].clone()], &keys);
    assert_ne!(owners(0, 1), owners(1, 0), "the test has keys of the tied point");
}
