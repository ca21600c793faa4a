//! A fetch: what `read` hands over to a source, and what the source's answer does to the memory
//! tier.
use super::{
    client_mark::ClientMark,
    copy_metadata::{CopyMetadata, CopyMetadataView, FreshUntil, Validators},
    fetch_result::{FetchAnswer, FetchedReply, KeyLife},
    fill_policy::FillPolicy,
    reply_name::ReplyName,
    request_trace::RequestTrace,
    source_error::SourceError,
};
use bytes::Bytes;
use larder_base::{
    buffers::{BufferCharge, BufferKind, Buffers},
    telemetry::{Span, SpanKind},
};
use larder_config::{Coherence, RefreshAhead};
use larder_engine::{Attributes, Expiry, Fill, Lead, Millis, Outcome, Wait};
use larder_store::{StoredValue, ValueKind, clock};
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

/// After an answer that may not be kept, readers of its key do not share fetches for this time, ms.
const NOT_SHARED: u64 = 1_000;
/// After a failed fetch, a key with a usable stale copy is not fetched again for this long, ms: each
/// read of a hot key would ask a source that is down.
const RETRY_AFTER: u64 = 1_000;

/// Characters of a key in a span.
const LONGEST_KEY: usize = 128;

/// A fetch in flight: the lead of the flight, and how its result is stored. Dropping it unfinished
/// releases the waiters.
#[derive(Debug)]
pub struct Fetch {
    lead: Lead,
    policy: Arc<FillPolicy>,
    started: Instant,
    vouched: bool,
    /// When it began, if its duration is kept with the copy.
    begun: Option<Millis>,
    /// The copy that the source was asked about. Boxed: it is seldom there, and a fetch is moved
    /// several times.
    held: Option<Box<(Bytes, CopyMetadata)>>,
    /// The answer is for those who wait alone: it changes nothing in the tier.
    passes_tier: bool,
    /// The answer is compared with a copy.
    compares: bool,
    /// The answer is not worth a copy.
    is_not_kept: bool,
    /// The longest life of a copy, ms, whatever the policy says.
    longest_life: Option<u64>,
    /// Injected delay before the fetch, ms.
    held_back: u32,
    /// Of the request that it was begun for.
    trace: Option<Arc<RequestTrace>>,
    /// Of a long key. Boxed, like `held`.
    charge: Option<Box<BufferCharge>>,
}

#[expect(clippy::large_enum_variant, reason = "a box would be an allocation for each fetch")]
enum Ending {
    /// A value, or an absence; with its end if it may be kept, and with what is kept besides.
    Answer(Option<Bytes>, Option<Expiry>, CopyMetadata),
    Failed(SourceError),
}

impl Fetch {
    /// The fetch for this lead.
    pub fn new(lead: Lead, policy: Arc<FillPolicy>) -> Fetch {
        Fetch::begun_at(Instant::now(), lead, policy)
    }
    /// Like `new`. It begins together with those of this batch: one reading of the clock for all.
    pub fn in_batch(batch: &[Fetch], lead: Lead, policy: Arc<FillPolicy>) -> Fetch {
        Fetch::begun_at(batch.last().map_or_else(Instant::now, |fetch| fetch.started), lead, policy)
    }
    fn begun_at(started: Instant, lead: Lead, policy: Arc<FillPolicy>) -> Fetch {
        let times = policy.of(lead.key()).refresh_ahead == Some(RefreshAhead::XFetch);
        Fetch {
            begun: times.then(clock::now),
            lead,
            policy,
            started,
            vouched: false,
            held: None,
            passes_tier: false,
            compares: false,
            is_not_kept: false,
            longest_life: None,
            held_back: 0,
            trace: None,
            charge: None,
        }
    }
    /// A fetch whose answer is not kept.
    pub fn past_the_tier(lead: Lead, policy: Arc<FillPolicy>) -> Fetch {
        Fetch { passes_tier: true, ..Fetch::new(lead, policy) }
    }
    /// A fetch whose answer is compared with a copy, which no request waits for.
    pub fn to_compare(lead: Lead, policy: Arc<FillPolicy>) -> Fetch {
        Fetch { compares: true, ..Fetch::past_the_tier(lead, policy) }
    }
    /// Bytes of its key and of the name of the reply that it asks for.
    pub fn size(&self) -> usize {
        self.lead.key().len() + self.lead.name().len()
    }
    /// Counts its key until it ends. False: there is no room for it.
    pub fn charge(&mut self, buffers: &Arc<Buffers>) -> bool {
        // The flight's copy, and the command to the source.
        let bytes = 2 * self.size();
        self.charge.get_or_insert_with(|| Box::new(buffers.charge(BufferKind::Relayed))).try_resize(bytes)
    }
    /// See [`Lead::sent_through`].
    pub fn sent_through(&self, queue: u32) {
        self.lead.sent_through(queue);
    }
    /// The source will announce the next change of the key after its answer.
    pub fn vouch(&mut self) {
        self.vouched = true;
    }
    /// The answer is not worth a copy. Readers go on to share fetches of the key.
    pub fn not_kept(&mut self) {
        self.is_not_kept = true;
    }
    /// A copy lives no longer than this, ms, whatever the policy says.
    pub fn live_at_most(&mut self, longest: u64) {
        self.longest_life = Some(longest);
    }
    /// Delays the fetch for this long before it goes to the source: an injected fault.
    pub(super) fn hold_back(&mut self, delay: Duration) {
        self.held_back = u32::try_from(delay.as_millis()).unwrap_or(u32::MAX);
    }
    /// What an ordered fault adds to the time that its source takes. It is measured like that time.
    pub(super) fn held_back(&self) -> Duration {
        Duration::from_millis(self.held_back.into())
    }
    /// It was begun for this request.
    pub fn follow(&mut self, trace: Arc<RequestTrace>) {
        trace.begins_fetch(self.started);
        self.trace = Some(trace);
    }
    /// Notes that it is sent to the source.
    pub fn note_sent(&self) {
        if let Some(trace) = self.trace.as_ref().filter(|trace| trace.is_logged || trace.span.is_some()) {
            trace.sends_fetch(self.started.elapsed());
        }
    }
    /// The request that it was begun for, if something is known about that.
    pub fn trace(&self) -> Option<&Arc<RequestTrace>> {
        self.trace.as_ref()
    }
    /// Whether only the source itself may be asked: see [`Lead::is_direct`].
    pub fn is_direct(&self) -> bool {
        self.lead.is_direct()
    }
    /// Resolves when the fetch ends.
    pub fn wait(&self) -> Wait {
        self.lead.wait()
    }
    /// Whether the result may be stored.
    fn keep(&self) -> bool {
        if self.passes_tier || self.is_not_kept || self.policy.denies(self.key()) {
            return false;
        }
        match self.policy.coherence {
            Coherence::Coherent => self.vouched,
            Coherence::Ttl => true,
            Coherence::Off => false,
        }
    }
    pub fn key(&self) -> &[u8] {
        self.lead.key()
    }
    /// How long it may take, from a source whose own deadline is `general`.
    pub fn timeout(&self, general: Duration) -> Duration {
        self.policy.source_timeout(self.key(), general)
    }
    /// Whether no request waits for the answer: the fetch renews a copy that is being served.
    pub fn is_background(&self) -> bool {
        self.compares || self.lead.renews()
    }
    /// What to ask the source with, so that it need not send a value that is held already. The
    /// fetch keeps that value for [`FetchAnswer::NotModified`], even if the tier forgets it
    /// meanwhile.
    pub fn validators(&mut self) -> Option<Validators> {
        let (value, metadata) = self.lead.held(clock::now(), |entry| {
            let said = CopyMetadataView::read(entry.metadata());
            (said.etag.is_some() || said.last_modified.is_some()).then(|| {
                let tags = entry.tags().map(Box::from).collect();
                (entry.value.to_bytes(), CopyMetadata { tags, ..said.to_owned() })
            })
        })??;
        let validators = Validators {
            etag: metadata.etag.clone(),
            last_modified: metadata.last_modified.clone(),
            cache_control: metadata.cache_control.clone(),
            cdn_cache_control: metadata.cdn_cache_control.clone(),
            expires: metadata.expires.clone(),
        };
        self.held = Some(Box::new((value, metadata)));
        Some(validators)
    }

    /// Ends the flight with the source's answer. A fetch of a whole reply ends here only with an
    /// error; otherwise see [`Fetch::finish_reply`].
    pub fn finish(self, answer: Result<Option<StoredValue>, SourceError>, now: Millis) {
        self.finish_at(answer, now, Instant::now());
    }

    /// As [`finish`](Fetch::finish), with the moment of the answer on the clock that measures
    /// durations.
    pub fn finish_at(self, answer: Result<Option<StoredValue>, SourceError>, now: Millis, at: Instant) {
        let ending = match answer {
            Ok(Some(StoredValue { value, expiry: own, kind })) => {
                // Expired in transit: waiting clients get the value, later ones fetch again.
                let end = own.is_none_or(|at| at > now).then(|| self.policy.cap(self.key(), own, now));
                let gone_at = end.and_then(|end| self.policy.gone_at(end, own, now));
                let is_document = kind == ValueKind::Document;
                let client = match kind {
                    ValueKind::Flagged(flags) => ClientMark::of_flags(flags),
                    ValueKind::String | ValueKind::Document => ClientMark::default(),
                };
                Ending::Answer(
                    Some(value),
                    end,
                    CopyMetadata { gone_at, is_document, client, ..CopyMetadata::default() },
                )
            }
            Ok(None) => Ending::Answer(None, self.policy.absence(self.key(), now), CopyMetadata::default()),
            Err(error) => Ending::Failed(error),
        };
        self.end_at(ending, now, at);
    }

    /// Ends the flight with the answer of a source that says more about a key than its value;
    /// otherwise like [`finish`](Fetch::finish).
    pub fn finish_copy(mut self, answer: Result<FetchAnswer, SourceError>, now: Millis) {
        let ending = match answer {
            Ok(FetchAnswer::Copy { value, fresh, metadata }) => self.copy(value, fresh, metadata, now),
            Ok(FetchAnswer::Absent { fresh }) => {
                let longest = self.policy.of(self.key()).negative_ttl;
                let end = match fresh {
                    FreshUntil::Policy => self.policy.absence(self.key(), now),
                    FreshUntil::At(at) => Some(Expiry::FreshUntil(bounded(at, longest, now))),
                    FreshUntil::NotKept => None,
                };
                Ending::Answer(None, end, CopyMetadata::default())
            }
            Ok(FetchAnswer::NotModified { fresh, metadata }) => match self.held.take().map(|held| *held) {
                Some((value, held)) => self.copy(value, fresh, metadata.over(held), now),
                None => Ending::Failed(SourceError::Unavailable(
                    "the origin says 304 to a request without validators".into(),
                )),
            },
            Err(error) => Ending::Failed(error),
        };
        self.end(ending, now);
    }

    /// A value with what its source says about it.
    fn copy(&self, value: Bytes, fresh: FreshUntil, mut metadata: CopyMetadata, now: Millis) -> Ending {
        metadata.is_not_kept = fresh == FreshUntil::NotKept;
        let last = self.policy.of(self.key()).ttl.map(|ttl| now.saturating_add(ttl));
        if let (FreshUntil::At(at), Some(last)) = (fresh, last)
            && last < at
        {
            metadata.bound_max_age(last, now);
        }
        Ending::Answer(Some(value), self.end_of_copy(fresh, now), metadata)
    }

    /// Until when a copy is fresh; `None`: it may not be kept.
    fn end_of_copy(&self, fresh: FreshUntil, now: Millis) -> Option<Expiry> {
        match fresh {
            FreshUntil::Policy => Some(self.policy.cap(self.key(), None, now)),
            FreshUntil::At(at) => Some(Expiry::FreshUntil(bounded(at, self.policy.of(self.key()).ttl, now))),
            FreshUntil::NotKept => {
                self.lead.stop_sharing(now + NOT_SHARED, now);
                None
            }
        }
    }

    fn end(self, ending: Ending, now: Millis) {
        self.end_at(ending, now, Instant::now());
    }

    fn end_at(self, ending: Ending, now: Millis, at: Instant) {
        let took = at.saturating_duration_since(self.started);
        self.policy.key_counts.note_fetch(self.key(), took, now);
        let has_failed = matches!(ending, Ending::Failed(_));
        match &self.trace {
            Some(trace) => trace.ends_fetch(took, has_failed),
            None if self.policy.tracer.is_on() => self.trace_alone(took, has_failed),
            None => {}
        }
        if let Ending::Failed(error) = &ending {
            let key = String::from_utf8_lossy(self.key());
            tracing::debug!(%key, %error, micros = took.as_micros() as u64, "fetch failed");
        }
        match ending {
            Ending::Answer(value, end, mut metadata) => {
                let overtakes = self.policy.coherence != Coherence::Ttl;
                metadata.fetch_duration = self.begun.map(|begun| now.saturating_sub(begun));
                let end = end.filter(|_| self.keep()).map(|end| self.shortened(end, now));
                if end.is_none() {
                    if overtakes {
                        self.lead.overtake();
                    }
                    self.forget_older();
                }
                let encoded = Bytes::from(metadata.encode());
                if !encoded.is_empty() {
                    // Those who wait find it with the copy, unless there is none.
                    self.lead.describe(encoded.clone());
                }
                let tags: Vec<&[u8]> = metadata.tags.iter().map(|tag| &**tag).collect();
                let attributes = match value {
                    Some(_) => Attributes { tags: &tags, metadata: &encoded },
                    None => Attributes::NONE,
                };
                let outcome = value.map_or(Outcome::Absent, Outcome::Value);
                match end {
                    Some(end) if overtakes => self.lead.overtake_and_finish(outcome, Fill::Store(end, attributes), now),
                    end => self.lead.finish(outcome, end.map_or(Fill::Skip, |end| Fill::Store(end, attributes)), now),
                };
            }
            Ending::Failed(error) if error.is_unavailable() => {
                let may_serve = !self.passes_tier && self.policy.serves(self.key());
                let known = may_serve.then(|| self.lead.last_known(now)).flatten();
                // In mode `coherent` the source is asked again at once: no copy is served any more when it has
                // answered.
                if known.is_some() && self.policy.coherence == Coherence::Ttl {
                    self.lead.hold_off(now + RETRY_AFTER, now);
                }
                let outcome = match known {
                    Some(Some(value)) => Outcome::Value(value),
                    Some(None) => Outcome::Absent,
                    None => Outcome::Failed(error.to_outcome()),
                };
                self.lead.finish(outcome, Fill::Skip, now);
            }
            Ending::Failed(error) => {
                // An error from the source itself is an answer, too: the client has learnt the type of the value.
                if self.policy.coherence != Coherence::Ttl {
                    self.lead.overtake();
                }
                self.forget_older();
                self.lead.finish(Outcome::Failed(error.to_outcome()), Fill::Skip, now);
            }
        }
    }

    /// The span of a fetch that no HTTP request began: a trace of its own, for a share of them.
    #[cold]
    fn trace_alone(&self, took: Duration, has_failed: bool) {
        let tracer = &self.policy.tracer;
        let Some(ids) = tracer.sample(None) else { return };
        let key = String::from_utf8_lossy(self.key());
        tracer.add(Span {
            trace: ids.trace,
            id: ids.request,
            parent: None,
            kind: SpanKind::Client,
            name: "fetch".into(),
            begun: SystemTime::now() - took,
            took,
            has_failed,
            texts: vec![("larder.key", key.chars().take(LONGEST_KEY).collect())],
            numbers: Vec::new(),
        });
    }

    fn shortened(&self, end: Expiry, now: Millis) -> Expiry {
        let Some(longest) = self.longest_life else { return end };
        let last = now.saturating_add(longest);
        match end {
            Expiry::At(at) => Expiry::At(at.min(last)),
            Expiry::FreshUntil(at) => Expiry::FreshUntil(at.min(last)),
            Expiry::FreshFor(ttl) => Expiry::FreshFor(ttl.min(longest)),
            Expiry::Never | Expiry::Default | Expiry::Keep => Expiry::FreshFor(longest),
        }
    }

    /// After an answer that is not stored, no client may get an older copy.
    fn forget_older(&self) {
        if self.passes_tier {
            return;
        }
        let may_be_held = self.lead.has_fallback() || self.lead.renews();
        if may_be_held || self.policy.coherence == Coherence::Coherent && self.policy.serves_stale() {
            self.lead.forget();
        }
    }

    /// The command whose whole reply is fetched; `None` if the value of the key is.
    pub fn reply_name(&self) -> Option<ReplyName<'_>> {
        ReplyName::read(self.lead.name())
    }

    /// Ends the fetch of a whole reply with the reply, which may be an error.
    pub fn finish_reply(self, found: FetchedReply, now: Millis) {
        let len = found.reply.len() + self.lead.name().len();
        let end = match found.key {
            _ if found.is_error() || len > self.policy.max_reply => None,
            KeyLife::Until(at) if at <= now => None,
            KeyLife::Until(at) => Some(self.policy.cap(self.key(), Some(at), now)),
            KeyLife::Unbounded => Some(self.policy.cap(self.key(), None, now)),
            // A reply about a missing key is remembered like the absence of the key.
            KeyLife::Absent => self.policy.absence(self.key(), now),
        };
        self.end(Ending::Answer(Some(found.reply), end, CopyMetadata::default()), now);
    }
}

/// A moment, but not later than the longest lifetime allows.
fn bounded(at: Millis, longest: Option<u64>, now: Millis) -> Millis {
    at.min(longest.map_or(Millis::MAX, |longest| now.saturating_add(longest)))
}
