mod marked;

use super::{Pipeline, Protocol, batch_replies::QUEUED};
use crate::{
    BusyFor, Fetch, FillPolicy, SourceError, SourceLimits, invalidation_scope,
    redis::{
        connection_settings::ConnectionSettings,
        queued_request::{QueuedFetch, QueuedRelay, QueuedRequest},
    },
};
use bytes::{Bytes, BytesMut};
use larder_config::{Coherence, SourceUrl};
use larder_engine::{Cache, Config, Lookup, Outcome, Wait};
use larder_proto::{output::Output, resp::Malformed};
use larder_store::clock;
use proptest::prelude::*;
use std::{
    collections::VecDeque,
    future::Future,
    pin::pin,
    rc::Rc,
    sync::Arc,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};
use tokio::time::Instant;

const MAX_VALUE: usize = 100_000;

/// What a reader gets.
async fn ended(wait: Wait) -> Result<Option<Bytes>, SourceError> {
    match wait.await {
        Outcome::Value(value) => Ok(Some(value)),
        Outcome::Absent => Ok(None),
        Outcome::Failed(text) => Err(SourceError::of_outcome(text)),
        Outcome::Abandoned => Err(SourceError::Unavailable("fetch abandoned".into())),
    }
}

/// A pipeline that has sent `count` fetches, and what waits for them.
struct Sent {
    pipeline: Pipeline,
    queue: VecDeque<QueuedRequest>,
    waits: Vec<Wait>,
    cache: Arc<Cache>,
    /// What it has sent.
    out: Output,
}
fn sent(count: usize) -> Sent {
    sent_in(count, Coherence::Ttl, &[])
}
/// In mode `coherent` on a connection with announcements.
fn sent_in(count: usize, coherence: Coherence, prefixes: &[&str]) -> Sent {
    let cache = Cache::new(Config { max_memory: 8 * 1024 * 1024, ..Config::default() });
    let policy = Arc::new(FillPolicy { coherence, ..FillPolicy::default() });
    let watch = (coherence == Coherence::Coherent).then(|| invalidation_scope(&cache, &policy, prefixes));
    let Ok(SourceUrl::Redis(url)) = "unix:///nowhere".parse() else { panic!("a URL") };
    let timeout = Duration::from_secs(1);
    let limits = SourceLimits {
        timeout,
        slow_timeout: timeout,
        max_in_flight: 1000,
        adaptive: true,
        max_value: MAX_VALUE,
        max_backlog: 1 << 20,
        ..SourceLimits::SMALLEST
    };
    let settings = ConnectionSettings::new(&url, limits, Arc::default(), larder_base::buffers::Buffers::unbounded())
        .expect("settings");
    settings.health.admission().begin(count);
    let (mut batch, mut waits) = (Vec::new(), Vec::new());
    for index in 0..count {
        let key = index.to_string();
        let Lookup::Lead(lead) = cache.lookup(cache.key(key.as_bytes()), clock::now(), |_| ()) else {
            panic!("not a miss: {key}");
        };
        waits.push(lead.wait());
        batch.push(Fetch::in_batch(&batch, lead, policy.clone()));
    }
    let since = Instant::now();
    let deadline = since + timeout;
    let queued = |fetch| QueuedRequest::Fetch(QueuedFetch { fetch, queue: 1, since, deadline, retried: false });
    let mut queue: VecDeque<QueuedRequest> = batch.into_iter().map(queued).collect();
    let protocol = Protocol { resp3: true, switches: true };
    let mut pipeline = Pipeline::new(Arc::new(settings), watch, Rc::default(), protocol, None);
    let mut out = Output::default();
    pipeline.send(&mut queue, &mut out);
    assert!(queue.is_empty());
    Sent { pipeline, queue, waits, cache, out }
}
impl Sent {
    /// Feeds bytes as a socket would that has `sizes` of them ready at a time, going round.
    fn feed(&mut self, mut bytes: &[u8], sizes: &[usize]) -> Result<(), Malformed> {
        let mut input = BytesMut::new();
        for size in sizes.iter().cycle() {
            if bytes.is_empty() {
                break;
            }
            let mut ready = (*size).min(bytes.len());
            match self.pipeline.direct() {
                Some((value, missing)) => {
                    ready = ready.min(missing);
                    value.extend_from_slice(&bytes[..ready]);
                    self.pipeline.direct_read(ready);
                }
                None => input.extend_from_slice(&bytes[..ready]),
            }
            bytes = &bytes[ready..];
            self.pipeline.receive(&mut input)?;
        }
        self.pipeline.requeue(&mut self.queue);
        Ok(())
    }
    /// Is there a copy of the key?
    fn kept(&self, key: &str) -> bool {
        let key = self.cache.key(key.as_bytes());
        self.cache.tier().peek(key, clock::now(), |_| ()).is_some()
    }
    /// What each fetch ended with; `None`: it has not.
    fn answers(self) -> Vec<Option<Result<Option<Bytes>, SourceError>>> {
        let now = |wait| match pin!(ended(wait)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        };
        self.waits.into_iter().map(now).collect()
    }
}

/// A key's answer to GET.
#[derive(Debug, Clone)]
enum Get {
    Value(Vec<u8>),
    Nil,
    Error(&'static str),
}
fn get() -> impl Strategy<Value = Get> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..100).prop_map(Get::Value),
        1 => (any::<u8>(), 0..MAX_VALUE + 2).prop_map(|(byte, len)| Get::Value(vec![byte; len])),
        1 => Just(Get::Nil),
        1 => Just(Get::Error("WRONGTYPE x")),
        1 => Just(Get::Error("LOADING x")),
    ]
}
impl Get {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Get::Value(value) => {
                out.extend(format!("${}\r\n", value.len()).bytes());
                out.extend(value);
                out.extend(b"\r\n");
            }
            Get::Nil => out.extend(b"$-1\r\n"),
            Get::Error(text) => out.extend(format!("-{text}\r\n").bytes()),
        }
    }
    fn expected(&self) -> Result<Option<Bytes>, SourceError> {
        match self {
            Get::Value(value) if value.len() > MAX_VALUE => Err(SourceError::OnlyStreamed(
                format!("ERR the source's value of {} bytes is larger than allowed: 100000 (max-value)", value.len())
                    .into(),
            )),
            Get::Value(value) => Ok(Some(value.clone().into())),
            Get::Nil => Ok(None),
            Get::Error(text) if text.starts_with("LOADING") => Err(SourceError::Unavailable((*text).into())),
            Get::Error(text) => Err(SourceError::Refused((*text).into())),
        }
    }
}

#[test]
fn only_values_within_the_limit_get_a_buffer() {
    for (size, held) in [(MAX_VALUE, true), (MAX_VALUE + 1, false)] {
        let mut sent = sent(1);
        let head = format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n${size}\r\n");
        assert_eq!(sent.feed(head.as_bytes(), &[usize::MAX]), Ok(()));
        assert_eq!(sent.pipeline.direct().is_some(), held);
    }
}

#[test]
fn a_reply_that_is_coming_is_waited_for_and_an_announcement_is_not_one() {
    let mut sent = sent_in(3, Coherence::Coherent, &[]);
    let first = sent.pipeline.deadline().expect("it is in flight");
    assert_eq!(sent.feed(invalidate(&["a"]).as_bytes(), &[usize::MAX]), Ok(()));
    assert_eq!(sent.pipeline.deadline(), Some(first));
    let mut before = first;
    for part in PARTS.iter().take(PARTS.len() - 1) {
        assert_eq!(sent.feed(part.as_bytes(), &[2]), Ok(()));
        let now = sent.pipeline.deadline().expect("it is in flight");
        assert!(now > before, "after {part:?}");
        before = now;
    }
    // Not for ever.
    sent.pipeline.progress = Some(first + Duration::from_secs(3600));
    assert_eq!(sent.pipeline.deadline(), Some(first + sent.pipeline.settings.limits.slow_timeout));
}

#[test]
fn what_is_owed_before_a_slow_call_may_take_as_long() {
    let mut sent = sent(0);
    let relay = |limit| {
        let deadline = Instant::now() + limit;
        let commands = Bytes::from_static(b"*1\r\n$4\r\nPING\r\n");
        let (busy, running, answer) = (None, None, None);
        let may_break = false;
        QueuedRequest::Relay(QueuedRelay { commands, count: 1, deadline, limit, may_break, busy, running, answer })
    };
    let (quick, slow) = (Duration::from_secs(1), Duration::from_secs(20));
    sent.queue.extend([relay(quick), relay(slow), relay(quick)]);
    let deadlines: Vec<_> = sent.queue.iter().map(QueuedRequest::deadline).collect();
    sent.pipeline.send(&mut sent.queue, &mut Output::default());
    assert_eq!(sent.pipeline.deadline(), Some(deadlines[1]));
    assert_eq!(sent.feed(b"+PONG\r\n+PONG\r\n", &[usize::MAX]), Ok(()));
    sent.pipeline.progress = None;
    assert_eq!(sent.pipeline.deadline(), Some(deadlines[2]), "nothing slow is behind it");
}

/// A command explains the silence of the server from when it is written until it is answered.
#[test]
fn only_a_command_that_was_written_keeps_the_server_busy() {
    let mut sent = sent(0);
    let busy = sent.pipeline.settings.busy.clone();
    let later = || std::time::Instant::now() + Duration::from_millis(600);
    let queue = |sent: &mut Sent| {
        sent.queue.push_back(QueuedRequest::Relay(QueuedRelay {
            commands: Bytes::from_static(b"*1\r\n$4\r\nPING\r\n"),
            count: 1,
            deadline: Instant::now() + Duration::from_secs(20),
            limit: Duration::from_secs(20),
            may_break: false,
            busy: Some(BusyFor::Long),
            running: None,
            answer: None,
        }));
    };
    queue(&mut sent);
    assert!(busy.until(later()).is_none(), "it is queued");
    sent.queue.clear();
    assert!(busy.until(later()).is_none(), "it was never sent");
    queue(&mut sent);
    sent.pipeline.send(&mut sent.queue, &mut Output::default());
    assert!(busy.until(later()).is_some(), "it is written");
    assert_eq!(sent.feed(b"+PONG\r\n", &[usize::MAX]), Ok(()));
    assert!(busy.until(later()).is_none(), "it is answered");
}

#[test]
fn who_is_not_let_in_any_more_asks_whether_that_is_so() {
    const NO_AUTH: &str = "-NOAUTH Authentication required.\r\n";
    let mut sent = sent(1);
    assert!(!sent.pipeline.take_auth_doubt());
    assert_eq!(sent.feed(NO_AUTH.repeat(4).as_bytes(), &[usize::MAX]), Ok(()));
    assert!(sent.pipeline.take_auth_doubt() && !sent.pipeline.take_auth_doubt());
    let relay = |answer| QueuedRelay {
        commands: Bytes::from_static(b"*1\r\n$4\r\nPING\r\n"),
        count: 1,
        deadline: Instant::now() + Duration::from_secs(1),
        limit: Duration::from_secs(1),
        may_break: false,
        busy: None,
        running: None,
        answer,
    };
    // A client's command, which may have been answered by a script; then a question of our own.
    let (sender, mut answer) = tokio::sync::oneshot::channel();
    sent.queue.extend([QueuedRequest::Relay(relay(Some(sender))), QueuedRequest::Relay(relay(None))]);
    sent.pipeline.send(&mut sent.queue, &mut Output::default());
    assert_eq!(sent.feed(NO_AUTH.as_bytes(), &[usize::MAX]), Ok(()));
    assert!(sent.pipeline.take_auth_doubt() && sent.pipeline.auth_error().is_none());
    assert_eq!(answer.try_recv().expect("an answer").expect("a reply").bytes(), NO_AUTH);
    assert_eq!(sent.feed(NO_AUTH.as_bytes(), &[usize::MAX]), Ok(()));
    assert_eq!(sent.pipeline.auth_error().as_deref(), Some("NOAUTH Authentication required."));
    assert!(sent.answers()[0].as_ref().is_some_and(|answer| matches!(answer, Err(SourceError::Unavailable(_)))));
}

fn invalidate(keys: &[&str]) -> String {
    let mut push = format!(">2\r\n$10\r\ninvalidate\r\n*{}\r\n", keys.len());
    keys.iter().for_each(|key| push += &format!("${}\r\n{key}\r\n", key.len()));
    push
}
/// Replies to MULTI, the commands of three reads and EXEC, before the elements of its reply.
const TRANSACTION: &str = "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*6\r\n";
/// RESP3 replies to three reads, of which the second finds nothing, in their smallest parts.
const PARTS: [&str; 6] = ["$1\r\na\r\n", ":-1\r\n", "_\r\n", ":-2\r\n", "$1\r\nc\r\n", ":60000\r\n"];

#[test]
fn an_announcement_anywhere_between_replies_ends_the_copies_that_came_before() {
    for at in 0..=PARTS.len() {
        for size in [1, 7, usize::MAX] {
            let mut sent = sent_in(3, Coherence::Coherent, &[]);
            let push = invalidate(&["0", "another"]);
            let bytes = [PARTS[..at].concat(), push, PARTS[at..].concat()].concat();
            assert_eq!(sent.feed(bytes.as_bytes(), &[size]), Ok(()), "before part {at}");
            assert!(!sent.pipeline.has_in_flight());
            assert!(!sent.kept("0"), "fenced, or stored and forgotten: before part {at}");
            assert!(sent.kept("2"));
            assert_eq!(sent.pipeline.settings.health.invalidations(), 2);
            let found = |value: &'static str| Some(Ok(Some(Bytes::from(value))));
            assert_eq!(sent.answers(), [found("a"), Some(Ok(None)), found("c")]);
        }
    }
}

#[test]
fn answered_fetches_are_counted_also_when_what_follows_is_no_reply() {
    for (tail, left) in [("$1\r\nc\r\n:60000\r\n", 0), ("!\r\n", 1)] {
        let mut sent = sent_in(3, Coherence::Coherent, &[]);
        let bytes = [&PARTS[..4].concat(), tail].concat();
        assert_eq!(sent.feed(bytes.as_bytes(), &[usize::MAX]).is_err(), left > 0);
        let health = &sent.pipeline.settings.health;
        assert_eq!((health.admission().in_flight(), health.seconds().count), (left, 3 - left as u64));
    }
}

/// Notes how many fetches are counted when it is woken.
struct Counted(Arc<ConnectionSettings>, AtomicU64);
impl Wake for Counted {
    fn wake(self: Arc<Counted>) {
        self.1.store(self.0.health.seconds().count, Relaxed);
    }
}

#[test]
fn whoever_has_the_last_answer_finds_all_answers_counted() {
    let mut sent = sent_in(3, Coherence::Coherent, &[]);
    let waker = Arc::new(Counted(sent.pipeline.settings.clone(), AtomicU64::new(0)));
    let mut last = sent.waits.pop().expect("three");
    assert!(std::pin::Pin::new(&mut last).poll(&mut Context::from_waker(&waker.clone().into())).is_pending());
    assert_eq!(sent.feed(PARTS.concat().as_bytes(), &[usize::MAX]), Ok(()));
    assert_eq!(waker.1.load(Relaxed), 3);
}

#[test]
fn values_go_in_a_transaction_unless_changes_are_announced() {
    let get = "*2\r\n$3\r\nGET\r\n$1\r\n0\r\n*2\r\n$4\r\nPTTL\r\n$1\r\n0\r\n";
    let in_transaction = format!("*1\r\n$5\r\nMULTI\r\n{get}*1\r\n$4\r\nEXEC\r\n");
    for (coherence, expected) in
        [(Coherence::Coherent, get), (Coherence::Ttl, &in_transaction), (Coherence::Off, &in_transaction)]
    {
        let sent = sent_in(1, coherence, &[]);
        assert_eq!(sent.out.to_vec(), expected.as_bytes(), "{coherence:?}");
    }
}

/// The lifetime is that of the value behind the change. The copy must not have it.
#[test]
fn a_lifetime_after_an_announcement_is_not_that_of_the_value_before_it() {
    let mut sent = sent_in(1, Coherence::Coherent, &[]);
    let bytes = ["$1\r\na\r\n", &invalidate(&["0"]), ":86400000\r\n"].concat();
    assert_eq!(sent.feed(bytes.as_bytes(), &[usize::MAX]), Ok(()));
    assert!(!sent.kept("0"));
    assert_eq!(sent.answers(), [Some(Ok(Some(Bytes::from("a"))))]);
}

#[test]
fn short_values_are_taken_at_once_and_all_others_step_by_step() {
    for (input, taken) in [
        ("$1\r\na\r\n:-1\r\n", true),
        ("$0\r\n\r\n:0\r\n+next", true),
        ("$1\r\na\r\n:-1\r", false),
        ("$1\r\na\r\n>2\r\n", false),
        ("$1\r\nab\r\n:1\r\n", false),
        ("$-1\r\n:-2\r\n", false),
        ("$\r\n:1\r\n", false),
        ("$1\r\na\r\n:\r\n", false),
        ("$1\r\na\r\n:1x\r\n", false),
        ("$1\r\na\r\n:1234567890123456\r\n", false),
        ("$99999999999999999999\r\n", false),
        ("_\r\n:-2\r\n", false),
    ] {
        let mut sent = sent_in(1, Coherence::Coherent, &[]);
        let mut bytes = BytesMut::from(input);
        assert_eq!(sent.pipeline.take_fetch(&mut bytes, clock::now()), taken, "{input:?}");
        assert_eq!(bytes.is_empty(), taken && !input.ends_with("next"), "{input:?}");
    }
    // A buffer for it would be larger than max-value allows.
    let mut sent = sent_in(1, Coherence::Coherent, &[]);
    let settings = Arc::get_mut(&mut sent.pipeline.settings).expect("nobody else has them");
    settings.limits.max_value = 1;
    assert!(!sent.pipeline.take_fetch(&mut BytesMut::from("$2\r\nab\r\n:-1\r\n"), clock::now()));
}

#[test]
fn only_what_is_announced_is_kept() {
    let replies = PARTS.concat();
    let in_transaction = [TRANSACTION, &replies].concat();
    for (coherence, prefixes, kept) in [
        (Coherence::Coherent, &[][..], [true, true]),
        (Coherence::Coherent, &["1", "2"], [false, true]),
        (Coherence::Ttl, &[], [true, true]),
        (Coherence::Off, &[], [false, false]),
    ] {
        let mut sent = sent_in(3, coherence, prefixes);
        let replies = if coherence == Coherence::Coherent { &replies } else { &in_transaction };
        assert_eq!(sent.feed(replies.as_bytes(), &[usize::MAX]), Ok(()));
        assert_eq!(["0", "2"].map(|key| sent.kept(key)), kept, "{coherence:?} {prefixes:?}");
    }
    // The server refused to track.
    let mut sent = sent_in(3, Coherence::Coherent, &[]);
    sent.pipeline.scope = None;
    assert_eq!(sent.feed(replies.as_bytes(), &[usize::MAX]), Ok(()));
    assert_eq!(["0", "2"].map(|key| sent.kept(key)), [false, false]);
}

#[test]
fn a_flush_is_announced_without_keys_and_other_messages_mean_nothing() {
    let mut sent = sent_in(3, Coherence::Coherent, &[]);
    let after = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n2\r\n>1\r\n+x\r\n";
    assert_eq!(sent.feed([&PARTS.concat(), after].concat().as_bytes(), &[3]), Ok(()));
    assert!(sent.kept("0") && sent.kept("2"));
    assert_eq!(sent.feed(b">2\r\n$10\r\ninvalidate\r\n_\r\n", &[4]), Ok(()));
    assert!(!sent.kept("0") && !sent.kept("2"));
}

#[test]
fn an_announcement_that_is_not_understood_ends_the_connection() {
    for wrong in [
        ">2\r\n$10\r\ninvalidate\r\n:1\r\n",
        ">2\r\n$10\r\ninvalidate\r\n*1\r\n:1\r\n",
        ">1\r\n$10\r\ninvalidate\r\n",
        ">2\r\n$10\r\ninvalidate\r\n$99999999999\r\n",
        ">99999999999\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\n0\r\n$-9\r\n",
    ] {
        let mut sent = sent_in(3, Coherence::Coherent, &[]);
        assert_eq!(sent.feed(PARTS.concat().as_bytes(), &[usize::MAX]), Ok(()));
        assert_eq!(sent.feed(wrong.as_bytes(), &[usize::MAX]), Err(Malformed), "{wrong:?}");
    }
}

proptest! {
    #[test]
    fn replies_mean_the_same_in_any_pieces(
        gets in prop::collection::vec(get(), 1..6),
        sizes in prop::collection::vec(prop_oneof![1..10usize, 1000..70_000usize], 1..6),
        // `None`: changes are announced.
        in_transaction: Option<bool>,
    ) {
        let mut bytes = Vec::new();
        if in_transaction == Some(true) {
            bytes.extend(b"+OK\r\n");
            bytes.extend(QUEUED.repeat(gets.len() * 2));
            bytes.extend(format!("*{}\r\n", gets.len() * 2).bytes());
        } else if in_transaction.is_some() {
            bytes.extend(b"-NOPERM no MULTI\r\n");
        }
        for get in &gets {
            get.write(&mut bytes);
            bytes.extend(b":-1\r\n");
        }
        if in_transaction == Some(false) {
            bytes.extend(b"-ERR EXEC without MULTI\r\n");
        }
        let coherence = if in_transaction.is_some() { Coherence::Ttl } else { Coherence::Coherent };
        let mut sent = sent_in(gets.len(), coherence, &[]);
        prop_assert_eq!(sent.feed(&bytes, &sizes), Ok(()));
        prop_assert!(!sent.pipeline.has_in_flight());
        prop_assert_eq!(sent.pipeline.settings.health.in_flight(), 0);
        let expected: Vec<_> = gets.iter().map(|get| Some(get.expected())).collect();
        prop_assert_eq!(sent.answers(), expected);
    }

    /// Commands that the server would not queue blame their own keys; the others go again.
    #[test]
    fn a_transaction_that_is_called_off_blames_the_guilty(
        guilty in prop::collection::vec((any::<bool>(), any::<bool>()), 1..6),
        size in 1..50usize,
    ) {
        let mut bytes = b"+OK\r\n".to_vec();
        for (get, pttl) in &guilty {
            for refused in [get, pttl] {
                bytes.extend(if *refused { b"-NOPERM x\r\n" } else { QUEUED });
            }
        }
        bytes.extend(b"-EXECABORT discarded\r\n");
        let mut sent = sent(guilty.len());
        prop_assert_eq!(sent.feed(&bytes, &[size]), Ok(()));
        prop_assert!(!sent.pipeline.has_in_flight());
        let any = guilty.iter().any(|(get, pttl)| *get || *pttl);
        let innocent = guilty.iter().filter(|(get, pttl)| !*get && !*pttl).count();
        prop_assert_eq!(sent.queue.len(), if any { innocent } else { 0 });
        let queue = std::mem::take(&mut sent.queue);
        let refused = |text: &str| Some(Err(SourceError::Refused(text.into())));
        let expected: Vec<_> = guilty.iter().map(|(get, pttl)| match (any, *get || *pttl) {
            (false, _) => refused("EXECABORT discarded"),
            (true, true) => refused("NOPERM x"),
            (true, false) => None,
        }).collect();
        prop_assert_eq!(sent.answers(), expected);
        drop(queue);
    }

    /// Whatever comes, nothing panics and no fetch is forgotten: it is answered, or is still in flight when the connection ends.
    #[test]
    fn nonsense_loses_no_fetch(
        parts in prop::collection::vec(
            prop_oneof![
                prop::sample::select(vec![
                    "+OK\r\n", "+QUEUED\r\n", "*4\r\n", "$1\r\nv\r\n", "$-1\r\n", ":-1\r\n", ":12\r\n", "-ERR x\r\n",
                    "$99999\r\n", "$100001\r\n", "$-9\r\n", "_\r\n", ">1\r\n+x\r\n", "\r\n", "$", "x", "+\r",
                ]).prop_map(|text| text.as_bytes().to_vec()),
                prop::collection::vec(any::<u8>(), 0..20),
            ],
            0..30,
        ),
        valid in any::<bool>(),
        size in 1..50usize,
    ) {
        let mut bytes = Vec::new();
        if valid {
            bytes.extend(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n");
        }
        bytes.extend(parts.concat());
        let mut sent = sent(2);
        // Malformed or not.
        let _ = sent.feed(&bytes, &[size]);
        let health = sent.pipeline.settings.health.clone();
        let Sent { pipeline, mut queue, waits, cache: _cache, .. } = sent;
        pipeline.lost(&"gone".into(), Instant::now(), &mut queue);
        for request in queue {
            if let QueuedRequest::Fetch(queued) = request {
                queued.finish(Ok(None), clock::now(), &health);
            }
        }
        prop_assert_eq!(health.in_flight(), 0);
        for wait in waits {
            let ended = pin!(wait).poll(&mut Context::from_waker(Waker::noop())).is_ready();
            prop_assert!(ended);
        }
    }
}
