//! A fetch: what `read` hands over to a source, and what the source's answer does to the memory tier.
use super::{
    copy_metadata::{FreshUntil, Validators},
    fetch_result::{FetchAnswer, FetchedReply, FetchedValue, KeyLife},
    fill_policy::FillPolicy,
    reply_name::ReplyName,
    source_error::SourceError,
};
use crate::config::Coherence;
use larder_engine::{Attributes, Fill, Lead, Millis, Outcome};
use std::sync::Arc;

/// A fetch in flight: the lead of the flight, and how its result is stored. Dropping it unfinished releases the waiters.
#[derive(Debug)]
pub struct Fetch {
    lead: Lead,
    policy: Arc<FillPolicy>,
    vouched: bool,
}
impl Fetch {
    /// The fetch for this lead.
    pub fn new(lead: Lead, policy: Arc<FillPolicy>) -> Fetch {
        Fetch { lead, policy, vouched: false }
    }
    /// See [`Lead::sent_through`].
    pub fn sent_through(&self, queue: u32) {
        self.lead.sent_through(queue);
    }
    /// The source will announce the next change of the key after its answer.
    pub fn vouch(&mut self) {
        self.vouched = true;
    }
    /// Whether the result may be stored.
    fn keep(&self) -> bool {
        match self.policy.coherence {
            Coherence::Coherent => self.vouched,
            Coherence::Ttl => true,
            Coherence::Off => false,
        }
    }
    /// The key to fetch.
    pub fn key(&self) -> &[u8] {
        self.lead.key()
    }
    /// Ends the flight with the source's answer. A fetch of a whole reply ends here only with an error; otherwise see [`Fetch::finish_reply`].
    pub fn finish(self, answer: Result<Option<FetchedValue>, SourceError>, now: Millis) {
        // An error from the source itself is an answer, too: the client has learnt the type of the value.
        let said = !answer.as_ref().is_err_and(SourceError::is_unavailable);
        if self.policy.coherence != Coherence::Ttl && said {
            self.lead.overtake();
        }
        let answered = answer.is_ok();
        let (outcome, fill) = match answer {
            Ok(Some(found)) => {
                // Expired in transit: waiting clients get the value, later ones fetch again.
                let fill = match found.expiry {
                    Some(at) if at <= now => Fill::Skip,
                    own => Fill::Store(self.policy.cap(self.key(), own, now), Attributes::NONE),
                };
                (Outcome::Value(found.value), fill)
            }
            Ok(None) => {
                let absence = self.policy.absence(self.key(), now);
                (Outcome::Absent, absence.map_or(Fill::Skip, |at| Fill::Store(at, Attributes::NONE)))
            }
            Err(error) => {
                let stale = self.policy.serves_stale_of(self.key()) && error.is_unavailable();
                let outcome = match stale.then(|| self.lead.last_known(now)).flatten() {
                    Some(Some(value)) => Outcome::Value(value),
                    Some(None) => Outcome::Absent,
                    None => Outcome::Failed(error.to_outcome()),
                };
                (outcome, Fill::Skip)
            }
        };
        let fill = if self.keep() { fill } else { Fill::Skip };
        if answered && fill == Fill::Skip && self.policy.serves_stale_of(self.key()) {
            // After this answer, no client may get an older copy.
            self.lead.forget();
        }
        self.lead.finish(outcome, fill, now);
    }

    /// What to ask the source with, so that it need not send a value that is held already. The held value is then kept for
    /// [`FetchAnswer::NotModified`], even if the tier forgets it meanwhile.
    pub fn validators(&mut self) -> Option<Validators> {
        None
    }

    /// Whether nobody waits for the answer: the fetch renews a copy that is being served.
    pub fn is_background(&self) -> bool {
        false
    }

    /// Ends the flight with the answer of a source that says more about a key than its value; otherwise like [`finish`](Fetch::finish).
    pub fn finish_copy(self, answer: Result<FetchAnswer, SourceError>, now: Millis) {
        let kept = |fresh| match fresh {
            FreshUntil::Policy => None,
            FreshUntil::At(at) => Some(at),
            FreshUntil::NotKept => Some(now),
        };
        let answer = answer.map(|answer| match answer {
            FetchAnswer::Copy { value, fresh, .. } => Some(FetchedValue { value, expiry: kept(fresh) }),
            FetchAnswer::Absent { .. } | FetchAnswer::NotModified { .. } => None,
        });
        self.finish(answer, now);
    }

    /// The command whose whole reply is fetched; `None` if the value of the key is.
    pub fn reply_name(&self) -> Option<ReplyName<'_>> {
        ReplyName::read(self.lead.name())
    }

    /// Ends the fetch of a whole reply with the reply, which may be an error.
    pub fn finish_reply(self, found: FetchedReply, now: Millis) {
        if self.policy.coherence != Coherence::Ttl {
            self.lead.overtake();
        }
        let len = found.reply.len() + self.lead.name().len();
        let fill = match found.key {
            _ if found.is_error() || len > self.policy.max_reply || !self.keep() => Fill::Skip,
            KeyLife::Until(at) if at <= now => Fill::Skip,
            KeyLife::Until(at) => Fill::Store(self.policy.cap(self.key(), Some(at), now), Attributes::NONE),
            KeyLife::Unbounded => Fill::Store(self.policy.cap(self.key(), None, now), Attributes::NONE),
            // A reply about a missing key is remembered like the absence of the key.
            KeyLife::Absent => {
                self.policy.absence(self.key(), now).map_or(Fill::Skip, |at| Fill::Store(at, Attributes::NONE))
            }
        };
        if fill == Fill::Skip && self.policy.serves_stale_of(self.key()) {
            self.lead.forget();
        }
        self.lead.finish(Outcome::Value(found.reply), fill, now);
    }
}
