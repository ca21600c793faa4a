//! Random commands to Larder and to memcached: the replies are compared byte for byte. Versions
//! (cas) are each server's own: they are masked, and a command that needs one gets that of its
//! server. No entry has the version 999999.
//!
//! Numbers only grow here: whether memcached changes a number that becomes shorter in place, and keeps
//! its length, depends on what it has yet to send. The table has those.
use super::wire::{Memcached, Wire, start};

/// Commands that the test tries.
const COMMANDS: usize = 6000;
/// How many of those before it a failure shows.
const LAST: usize = 12;

/// A generator that a seed repeats (splitmix64).
struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }
}

fn command(random: &mut Random) -> String {
    let key = random.pick(&["a", "b", "c", "d", "Zm9v", "e"]);
    let value = random.pick(&["", "v", "7", "10", "99", "1234", "x y", "vvvvvvvv"]);
    let exptime = random.pick(&["0", "0", "0", "1000", "-1"]);
    let flags = random.pick(&["0", "1", "65536", "4294967295"]);
    let noreply = random.pick(&["", "", "", " noreply"]);
    let length = value.len();
    let opaque = random.pick(&["", " O1", " Oabc", " k", " k O9", " q", " q k"]);
    // memcached forgets that a key came in base64 when it makes the item itself, and returns it decoded.
    let (binary, opaque) =
        if key == "Zm9v" { (" b", opaque.split(" k").next().unwrap_or_default()) } else { ("", opaque) };
    match random.below(17) {
        0..3 => {
            let name = random.pick(&["set", "set", "add", "replace", "append", "prepend"]);
            format!("{name} {key} {flags} {exptime} {length}{noreply}\r\n{value}\r\n")
        }
        3 => format!("get {key}\r\n"),
        4 => format!("get {key} a b c\r\n"),
        5 => format!("incr {key} {}{noreply}\r\n", random.below(20)),
        6 => format!("incr {key} {}{noreply}\r\n", random.below(20000)),
        7 => format!("delete {key}{noreply}\r\n"),
        8 => format!("touch {key} {exptime}{noreply}\r\n"),
        9 => format!("gat {exptime} {key} a\r\n"),
        10 | 11 => {
            let more =
                random.pick(&["", " s", " f", " v", " v s f", " f v", " N30 v", " N30", " R60 v", " T1000 v", " v v"]);
            format!("mg {key}{binary}{more}{opaque}\r\n")
        }
        12 | 13 => {
            let more = random.pick(&[
                "",
                " F7",
                " T1000",
                " ME",
                " MA",
                " MP",
                " MR",
                " MS",
                " F1 MA",
                " C999999",
                " C999999 MA",
                " MX",
            ]);
            format!("ms {key} {length}{binary}{more}{opaque}\r\n{value}\r\n")
        }
        14 => {
            let more = random.pick(&["", " I", " I T30", " C999999", " I C999999"]);
            format!("md {key}{binary}{more}{opaque}\r\n")
        }
        15 => {
            let more = random.pick(&["", " v", " D5 v", " D7 v", " N0 J5 v", " N1000", " D3", " C999999", " MX"]);
            format!("ma {key}{binary}{more}{opaque}\r\n")
        }
        _ => random
            .pick(&["nonsense\r\n", "get\r\n", "set a 0 0 1\r\nxx\r\n", "flush_all\r\n", "incr a x\r\n", "\r\n"])
            .to_owned(),
    }
}

/// A `cas` with the version that the key has, or with another.
fn cas(wire: &mut Wire, key: &str, is_right: bool) -> String {
    let shown = wire.ask(format!("gets {key}\r\n"));
    let head = shown.lines().next().unwrap_or_default();
    let version = head.split(' ').nth(4).and_then(|version| version.parse().ok()).unwrap_or(5u64);
    let version = if is_right { version } else { version + 1 };
    wire.ask(format!("cas {key} 3 0 2 {version}\r\nok\r\n"))
}

#[test]
fn random_commands_are_answered_like_by_memcached() {
    let seed = std::env::var("LARDER_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let (larder, memcached) = (start(&[]), Memcached::start());
    let (mut ours, mut theirs) = (Wire::larder(&larder), memcached.client());
    let mut random = Random(seed);
    let mut said = Vec::new();
    for _ in 0..COMMANDS {
        let (our, their) = match random.below(20) {
            0 => {
                let (key, is_right) = (random.pick(&["a", "b", "e"]), random.below(2) == 0);
                said.push(format!("cas {key} {is_right}"));
                (cas(&mut ours, key, is_right), cas(&mut theirs, key, is_right))
            }
            _ => {
                // One at a time: memcached does not change an item in place that it has yet to send.
                let command = command(&mut random);
                let answers = (ours.ask(&command), theirs.ask(&command));
                said.push(command);
                answers
            }
        };
        if our != their {
            let last = said.iter().rev().take(LAST).rev().map(|said| format!("  {said:?}\n")).collect::<String>();
            panic!("seed {seed}, after\n{last}larder    {our:?}\nmemcached {their:?}");
        }
    }
}
