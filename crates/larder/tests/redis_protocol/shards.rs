//! The number of shards, which follows from the bounds, is a matter of speed alone: replies and bounds
//! are the same with any.
use super::{
    common::{Client, Reply},
    larder::Larder,
};

/// A metric of group `default`.
const USED: &str = "larder_cache_used_bytes{group=\"default\"}";
/// Tiers of 1, 2 and 64 shards.
const MEMORY: [&str; 3] = ["7MiB", "8MiB", "256MiB"];

/// A small generator of its own, so that a failure can be run again: the numbers of splitmix64.
struct Random(u64);
impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }
    fn key(&mut self) -> String {
        format!("k{}", self.below(200))
    }
    fn value(&mut self) -> String {
        match self.below(4) {
            0 => self.below(1000).to_string(),
            1 => "long ".repeat(self.below(2000) as usize),
            _ => format!("value {}", self.below(1_000_000)),
        }
    }
    fn command(&mut self) -> Vec<String> {
        let (a, b, c) = (self.key(), self.key(), self.key());
        let words: Vec<String> = match self.below(22) {
            0..6 => vec!["SET".into(), a, self.value()],
            6..9 => vec!["GET".into(), a],
            9 => vec!["DEL".into(), a, b, c],
            10 => vec!["INCRBY".into(), a, self.below(50).to_string()],
            11 => vec!["APPEND".into(), a, self.value()],
            12 => vec!["MGET".into(), a, b, c],
            13 => vec!["MSET".into(), a, self.value(), b, self.value()],
            14 => vec!["MSETNX".into(), a, self.value(), b, self.value()],
            15 => vec!["RENAME".into(), a, b],
            16 => vec!["COPY".into(), a, b, "REPLACE".into()],
            17 => vec!["SET".into(), a, self.value(), "EX".into(), "1000".into(), "GET".into()],
            18 => vec!["EXISTS".into(), a, b, c],
            19 => vec!["GETDEL".into(), a],
            20 => vec!["PERSIST".into(), a],
            _ => vec!["DBSIZE".into()],
        };
        words
    }
}

fn sorted_keys(client: &mut Client) -> Vec<Reply> {
    let Reply::Array(Some(mut keys)) = client.command(&["KEYS", "*"]) else { panic!("KEYS lists keys") };
    keys.sort_by_key(|key| format!("{key:?}"));
    keys
}

#[test]
fn any_number_of_shards_gives_the_same_replies() {
    let larders = MEMORY.map(|memory| Larder::start(&["--max-memory", memory]));
    let mut clients = larders.each_ref().map(Larder::client);
    let mut random = Random(42);
    for number in 0..5000 {
        let command = random.command();
        let [one, two, many] = clients.each_mut().map(|client| client.command(&command));
        assert!(one == two && two == many, "{number}: {command:?}: {one:?}, {two:?}, {many:?}");
    }
    let [one, two, many] = clients.each_mut().map(sorted_keys);
    assert!(one.len() > 20 && one == two && two == many);
}

#[test]
fn any_number_of_shards_keeps_the_bounds() {
    for (memory, bytes) in [("7MiB", 7 << 20), ("8MiB", 8 << 20), ("64MiB", 64 << 20)] {
        let few = Larder::start(&["--max-memory", memory, "--max-keys", "1000"]);
        let small = Larder::start(&["--max-memory", memory]);
        let (mut few_client, mut small_client) = (few.client(), small.client());
        let mut random = Random(7);
        let number_of_keys = bytes / 2000;
        for number in 0..number_of_keys {
            let (key, value) = (format!("{number}"), "x".repeat(random.below(8000) as usize));
            assert_eq!(few_client.command(&["SET", &key, &value]), Reply::ok());
            assert_eq!(small_client.command(&["SET", &key, &value]), Reply::ok());
            if number % 500 == 499 {
                assert!(few_client.command(&["DBSIZE"]).int() <= 1000, "{memory}");
                let used = small.metric(USED);
                assert!(used <= f64::from(bytes), "{memory}: {used}");
            }
        }
        assert!(few_client.command(&["DBSIZE"]).int() > 900, "{memory}");
        assert!(small.metric(USED) > 0.75 * f64::from(bytes), "{memory}");
    }
}
