//! The checker of CLIENT TRACKING without a source: clients keep copies of what they read until
//! they are told that it has changed, while writers change it over other connections, on other
//! cores, over HTTP. A client that has had the answer to a PING has been told of all that was
//! acknowledged before it sent it: no copy that it still has may be older.
//!
//! `LARDER_COHERENCE_SECONDS=600 cargo test -p larder --test integration coherence::copies` runs it
//! for longer than the suite does.
use super::checker::{Random, length};
use super::{
    common::{Client, Reply},
    larder::{Larder, connect},
};
use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    thread::scope,
    time::Instant,
};

const KEYS: usize = 48;
const WRITERS: usize = 3;

/// Each key is written by one writer, a rising number each time.
struct World {
    sent: Vec<AtomicU64>,
    acknowledged: Vec<AtomicU64>,
    /// The last number that was acknowledged as one that stays: it was not deleted, nor does it
    /// expire.
    lasting_number: Vec<AtomicU64>,
    over: AtomicBool,
    /// Copies that were looked at, and those that were not read just before.
    looks: AtomicU64,
    lasting: AtomicU64,
    told: AtomicU64,
}

/// How a client tracks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Default,
    OptIn,
    Broadcast,
    /// In RESP2, told over another connection.
    Redirected,
}
const WAYS: [Way; 4] = [Way::Default, Way::OptIn, Way::Broadcast, Way::Redirected];

/// What comes over a connection.
enum Came {
    Text(String),
    Nothing,
    /// These keys have changed; `None`: any may have.
    Changed(Option<Vec<String>>),
}

struct Connection(BufReader<TcpStream>);
impl Connection {
    fn new(port: u16, begin: &[&str]) -> Connection {
        let mut connection = Connection(BufReader::new(connect(port)));
        for line in begin {
            connection.send(line);
        }
        connection.send("PING begun");
        while !matches!(connection.next(), Came::Text(text) if text.ends_with("begun")) {}
        connection
    }
    fn send(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
    }
    fn line(&mut self) -> (char, String) {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "the server hung up");
        (line.remove(0), line.trim_end().to_owned())
    }
    fn next(&mut self) -> Came {
        match self.line() {
            ('$', len) if len != "-1" => {
                let mut text = vec![0; len.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut text).unwrap();
                text.truncate(text.len() - 2);
                Came::Text(String::from_utf8(text).unwrap())
            }
            ('+' | ':', text) => Came::Text(text),
            ('$' | '_', _) => Came::Nothing,
            // `invalidate`, or `message` and the channel; then the keys. Of other arrays the last part matters.
            ('>' | '*' | '%', len) if len != "-1" => {
                let parts = len.parse::<usize>().unwrap();
                let first = self.next();
                let told = matches!(&first, Came::Text(text) if text == "invalidate" || text == "message");
                if !told {
                    // Of a map there are twice as many; HELLO has seven, the last of which is an empty array.
                    return (1..if parts == 7 { 14 } else { parts }).fold(first, |_, _| self.next());
                }
                for _ in 2..parts {
                    self.next();
                }
                self.keys()
            }
            (kind, text) => panic!("{kind}{text}"),
        }
    }
    fn keys(&mut self) -> Came {
        match self.line() {
            ('*', len) => {
                let keys = (0..len.parse().unwrap()).map(|_| match self.next() {
                    Came::Text(key) => key,
                    _ => panic!("no key"),
                });
                Came::Changed(Some(keys.collect()))
            }
            _ => Came::Changed(None),
        }
    }
}

struct Copies<'w> {
    world: &'w World,
    reads: Connection,
    hears: Option<Connection>,
    way: Way,
    /// The number of each copy, or what may last have been sent when there was none.
    copies: HashMap<usize, Result<u64, u64>>,
}
impl Copies<'_> {
    fn new(world: &World, port: u16, way: Way) -> Copies<'_> {
        let (reads, hears) = match way {
            Way::Default => (Connection::new(port, &["HELLO 3", "CLIENT TRACKING ON"]), None),
            Way::OptIn => (Connection::new(port, &["HELLO 3", "CLIENT TRACKING ON OPTIN"]), None),
            Way::Broadcast => (Connection::new(port, &["HELLO 3", "CLIENT TRACKING ON BCAST"]), None),
            Way::Redirected => {
                let mut hears = Connection::new(port, &[]);
                hears.send("CLIENT ID");
                let Came::Text(id) = hears.next() else { panic!("no number") };
                hears.send("SUBSCRIBE __redis__:invalidate");
                hears.next();
                let tracking = format!("CLIENT TRACKING ON REDIRECT {id}");
                (Connection::new(port, &[&tracking]), Some(hears))
            }
        };
        Copies { world, reads, hears, way, copies: HashMap::new() }
    }

    fn changed(&mut self, keys: Option<Vec<String>>) {
        self.world.told.fetch_add(1, SeqCst);
        match keys {
            None => self.copies.clear(),
            // In BCAST there are other keys as well.
            Some(keys) => keys.iter().filter_map(|key| key[1..].parse().ok()).for_each(|key: usize| {
                self.copies.remove(&key);
            }),
        }
    }

    fn read(&mut self, key: usize) {
        if self.way == Way::OptIn {
            self.reads.send("CLIENT CACHING YES");
        }
        self.reads.send(&format!("GET k{key}"));
        let mut left = if self.way == Way::OptIn { 2 } else { 1 };
        while left > 0 {
            match self.reads.next() {
                Came::Changed(keys) => self.changed(keys),
                Came::Text(text) if text == "OK" => left -= 1,
                Came::Text(number) => {
                    self.copies.insert(key, Ok(number.parse().unwrap()));
                    left -= 1;
                }
                Came::Nothing => {
                    self.copies.insert(key, Err(self.world.sent[key].load(SeqCst)));
                    left -= 1;
                }
            }
        }
    }

    /// Hears of all that was acknowledged before, and looks at the copies.
    fn check(&mut self) {
        let load = |numbers: &[AtomicU64]| numbers.iter().map(|number| number.load(SeqCst)).collect::<Vec<u64>>();
        // The lasting first: the last number that was acknowledged is the same, or newer.
        let (lasting, floor) = (load(&self.world.lasting_number), load(&self.world.acknowledged));
        let heard = |hears: &mut Connection| {
            hears.send("PING");
            let next = hears.next();
            if let Came::Changed(keys) = next {
                return Some(keys);
            }
            None
        };
        // One PING, then all that comes before its answer.
        let first = match &mut self.hears {
            Some(hears) => heard(hears),
            None => heard(&mut self.reads),
        };
        let mut came = first;
        while let Some(keys) = came.take() {
            self.changed(keys);
            let connection = self.hears.as_mut().unwrap_or(&mut self.reads);
            if let Came::Changed(keys) = connection.next() {
                came = Some(keys);
            }
        }
        self.world.looks.fetch_add(self.copies.len() as u64, SeqCst);
        for (key, copy) in &self.copies {
            let fresh = match copy {
                Ok(number) => *number >= floor[*key],
                // Written before or not, it was not there afterwards unless a number came that lasts.
                Err(sent) => *sent >= lasting[*key] || lasting[*key] < floor[*key],
            };
            assert!(fresh, "{:?}: k{key} is {copy:?}, {} was acknowledged", self.way, floor[*key]);
        }
    }
}

fn reader(world: &World, larder: &Larder, way: Way, seed: u64) {
    let mut random = Random(seed);
    let mut copies = Copies::new(world, larder.redis, way);
    while !world.over.load(SeqCst) {
        if random.below(2000) == 0 {
            copies = Copies::new(world, larder.redis, way);
        }
        for _ in 0..random.below(6) {
            copies.read(random.below(KEYS));
        }
        let before = copies.copies.len();
        copies.check();
        world.lasting.fetch_add(u64::from(before > 6 && copies.copies.len() > 6), SeqCst);
    }
}

fn writer(world: &World, larder: &Larder, number: usize, seed: u64) {
    let (mut random, mut client) = (Random(seed), Client::connect(larder.redis).unwrap());
    while !world.over.load(SeqCst) {
        let key = random.below(KEYS / WRITERS) * WRITERS + number;
        let value = world.sent[key].fetch_add(1, SeqCst) + 1;
        let (name, text) = (format!("k{key}"), value.to_string());
        let way = random.below(9);
        let reply = match way {
            0 => {
                let put = format!(
                    "PUT /v1/kv/{name} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
                    text.len()
                );
                assert!(matches!(larder.http(&put).0, 201 | 204));
                Reply::ok()
            }
            1 => client.command(&["DEL", &name]),
            2 => client.command(&["SET", &name, &text, "PX", "3"]),
            3 => client.command(&["MSET", "other", "x", &name, &text]),
            4 => client.command(&["GETSET", &name, &text]),
            5 => {
                for command in [&["MULTI"][..], &["INCR", "counter"], &["SET", &name, &text]] {
                    client.command(command);
                }
                client.command(&["EXEC"])
            }
            _ => client.command(&["SET", &name, &text]),
        };
        assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
        world.acknowledged[key].store(value, SeqCst);
        if !matches!(way, 1 | 2) {
            world.lasting_number[key].store(value, SeqCst);
        }
    }
}

fn check(args: &[&str]) {
    let larder = Larder::start(&[&["--threads", "4"], args].concat());
    let numbers = || (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let world = World {
        sent: numbers(),
        acknowledged: numbers(),
        lasting_number: numbers(),
        over: AtomicBool::new(false),
        looks: AtomicU64::new(0),
        lasting: AtomicU64::new(0),
        told: AtomicU64::new(0),
    };
    // A thread that panics ends the others, too.
    struct Over<'w>(&'w World);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.over.store(true, SeqCst);
        }
    }
    let (world, larder) = (&world, &larder);
    scope(|scope| {
        for (seed, way) in WAYS.into_iter().enumerate() {
            scope.spawn(move || {
                let _over = Over(world);
                reader(world, larder, way, seed as u64 + 1);
            });
        }
        for number in 0..WRITERS {
            scope.spawn(move || {
                let _over = Over(world);
                writer(world, larder, number, number as u64 + 100);
            });
        }
        let begun = Instant::now();
        while begun.elapsed() < length() && !world.over.load(SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        world.over.store(true, SeqCst);
    });
    let [looks, lasting, told] = [&world.looks, &world.lasting, &world.told].map(|count| count.load(SeqCst));
    println!("{looks} copies looked at, {lasting} times more than six lasted; told {told} times");
    assert!(looks > 1000 && lasting > 10 && told > 100, "{looks} {lasting} {told}");
}

#[test]
fn copies_are_never_older_than_what_was_acknowledged() {
    check(&[]);
}

/// The table forgets keys all the time.
#[test]
fn nor_where_the_table_is_too_small() {
    check(&["--tracking-table-max-keys", "20"]);
}
