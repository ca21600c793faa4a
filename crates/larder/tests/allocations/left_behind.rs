//! What a command leaves behind is on the account of all buffers: each row of the command table is
//! called often with large and with many small texts, and the bytes that stay allocated are compared
//! with those that the program counts. What a row may leave is in its column `Leaves`.
use super::{LIVE, NO_SLOW_LOG, common::left_behind::call};
use larder_base::telemetry::Logs;
use larder_config::Settings;
use larder_core::{
    app::{App, Bound, Worker},
    clients::Client,
};
use larder_redis::{
    COMMANDS, Command, CommandAccess, Flags, Flow, Leaves,
    connection::{BufferPool, ClientConnection, Protocol as _},
};
use larder_store::clock;
use std::{future::poll_fn, sync::Arc, task::Waker};

const MIB: isize = 1 << 20;
/// What may stay without being counted: first allocations, and tables that grow in steps.
const SLACK: isize = 192 << 10;
/// Of 8 MiB of buffers, the share of a table.
const SHARE: isize = MIB;

struct Place {
    worker: Worker,
    pool: BufferPool,
    next: u64,
}

impl Place {
    fn new() -> Place {
        let bounds = ["--max-memory", "8MiB", "--max-keys", "2000", "--max-buffers", "8MiB"];
        let args = [&["--threads", "1", NO_SLOW_LOG, "--log-level", "off"][..], &bounds].concat();
        let settings = Settings::from_args(&args).unwrap();
        let app = App::new(settings, Logs::default(), Bound::default(), 10, larder_redis::catalog()).unwrap();
        Place { worker: Worker::new(0, Arc::new(app)), pool: BufferPool::default(), next: 1 }
    }

    fn connect(&mut self) -> ClientConnection {
        let address = || ([127, 0, 0, 1], 1).into();
        let client = Client::new(self.next, address(), address(), 0, clock::now(), Waker::noop().clone());
        self.next += 1;
        let access = CommandAccess::of_listeners(&self.worker.app.settings)[0].clone();
        ClientConnection::new(&self.worker, Arc::new(client), access)
    }

    /// A connection whose reads are tracked if that is what the command leaves.
    async fn begin(&mut self, command: &Command, in_multi: bool) -> ClientConnection {
        let mut conn = self.connect();
        if command.leaves == Leaves::Shared {
            self.run(&mut conn, &["CLIENT", "TRACKING", "ON"].map(str::to_owned)).await;
        }
        if in_multi {
            self.run(&mut conn, &["MULTI".to_owned()]).await;
        }
        conn
    }

    /// Runs a command and forgets its reply; the first byte of that. False: the connection ends.
    async fn run(&self, conn: &mut ClientConnection, words: &[String]) -> (bool, Option<u8>) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        conn.input.feed(&super::command(&words), &self.pool);
        let mut said = None;
        loop {
            let step = conn.process(&self.worker, &self.pool, clock::now());
            while conn.is_waiting() {
                poll_fn(|cx| conn.poll_waiting(&self.worker, cx)).await;
            }
            let step = if let Flow::Alone(command) = step { conn.run_alone(&self.worker, command).await } else { step };
            said = said.or_else(|| conn.out.to_vec().first().copied());
            conn.out.clear();
            match step {
                Flow::Input { .. } => break,
                Flow::Close | Flow::Replicate => return (false, said),
                Flow::Done | Flow::Waits | Flow::Full | Flow::Behind | Flow::Alone(_) | Flow::Paused => {}
            }
        }
        conn.input.rest(&self.pool);
        (true, said)
    }

    /// Bytes that are on the account, with those that these connections would report to it.
    fn counted(&self, conns: &[&ClientConnection]) -> isize {
        let own: usize = conns.iter().map(|conn| conn.holding()).map(|held| held.input + held.output).sum();
        (self.worker.app.buffers.used() + own) as isize
    }
    fn in_tier(&self) -> isize {
        self.worker.app.groups.default().cache.stats().used_bytes as isize
    }
}

/// Calls a row often; says what is wrong with what it leaves.
async fn problem(command: &'static Command, length: usize, calls: usize, in_multi: bool) -> Option<String> {
    let mut place = Place::new();
    let mut hearer = place.connect();
    for words in [["SUBSCRIBE", "all"], ["SSUBSCRIBE", "all"]] {
        place.run(&mut hearer, &words.map(str::to_owned)).await;
    }
    // The tier is at its bounds, so that it does not grow with entries.
    if command.leaves == Leaves::Entries {
        let mut filler = place.connect();
        for n in 0..3000 {
            let value = if n % 10 == 0 { 50_000 } else { 8 };
            place.run(&mut filler, &["SET".to_owned(), format!("fill:{n}"), "x".repeat(value)]).await;
        }
    }
    // Tables and buffers are made the first time.
    for words in [["GET", "warm"].map(str::to_owned).to_vec(), call(command, 0, length)] {
        let mut first = place.begin(command, false).await;
        place.run(&mut first, &words).await;
    }
    let before_it = LIVE.get();
    let mut conn = place.begin(command, in_multi).await;
    if !place.run(&mut conn, &call(command, 0, length)).await.0 {
        conn = place.connect();
    }
    let (live, counted) = (LIVE.get(), place.counted(&[&conn, &hearer]));
    let in_tier = place.in_tier();
    for n in 1..calls {
        if !place.run(&mut conn, &call(command, n, length)).await.0 {
            conn = place.connect();
        }
    }
    let in_tier = place.in_tier() - in_tier;
    let stays = LIVE.get() - live;
    let counts = place.counted(&[&conn, &hearer]) - counted;
    let found = format!(
        "{}, {calls} texts of {length} bytes, in MULTI {in_multi}: {stays} bytes stay, {counts} count",
        command.name
    );
    if stays > counts + in_tier.max(0) + SLACK {
        return Some(format!("{found}: not counted"));
    }
    if counts > SLACK && !in_multi {
        match command.leaves {
            Leaves::Nothing | Leaves::Mode => return Some(format!("{found}: the table says {:?}", command.leaves)),
            Leaves::Shared if counts > SHARE + SLACK => {
                return Some(format!("{found}: more than the share of a table"));
            }
            Leaves::Shared | Leaves::Connection | Leaves::Entries => {}
        }
    }
    if place.in_tier() > 8 * MIB {
        return Some(format!("{found}: {} bytes in the tier", place.in_tier()));
    }
    // Of the connection nothing stays. Its messages are those of the other one.
    drop(conn);
    drop(hearer);
    let (stays, counts) = (LIVE.get() - before_it, place.counted(&[]) - counted);
    if stays > counts.max(0) + in_tier.max(0) + SLACK {
        return Some(format!("{found}: {stays} bytes outlive the connection, {counts} count"));
    }
    None
}

#[test]
fn what_commands_leave_behind_counts() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default()).unwrap();
    let mut problems = Vec::new();
    for command in &COMMANDS {
        for (length, calls) in [(50_000, 40), (8, 4000)] {
            for in_multi in [false, true] {
                if in_multi && command.flags.has(Flags::NOT_QUEUED) {
                    continue;
                }
                problems.extend(runtime.block_on(problem(command, length, calls, in_multi)));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
