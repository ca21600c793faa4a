//! A fetch: what `read` hands over to a source, and what the source's answer does to the memory tier.
use super::{
    fetch_result::{FetchedReply, FetchedValue, KeyLife},
    fill_policy::Policy,
    reply_name::ReplyName,
    source_error::SourceError,
};
use crate::config::Coherence;
use larder_engine::{Expiry, Fill, Lead, Millis, Outcome};

/// A fetch on its way: the flight's lead and how its result is stored. Dropped unfinished, it releases the waiters.
#[derive(Debug)]
pub struct Fetch {
    lead: Lead,
    policy: Policy,
    vouched: bool,
}
impl Fetch {
    /// The fetch that this lead has promised.
    pub fn new(lead: Lead, policy: Policy) -> Fetch {
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
    /// May its result be stored?
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
    /// Ends the flight with what the source said at `now`. For a fetch of a reply only with an error; else see [`Fetch::finish_reply`].
    pub fn finish(self, answer: Result<Option<FetchedValue>, SourceError>, now: Millis) {
        // An error of the source's own is an answer, too: the client has seen what kind of value there is.
        let said = !answer.as_ref().is_err_and(SourceError::is_unavailable);
        if self.policy.coherence != Coherence::Ttl && said {
            self.lead.overtake();
        }
        let answered = answer.is_ok();
        let (outcome, fill) = match answer {
            Ok(Some(found)) => {
                // Expired on the way: the clients that wait may have it, the next one asks again.
                let fill = match found.expiry {
                    Some(at) if at <= now => Fill::Skip,
                    own => Fill::Store(self.policy.cap(own, now)),
                };
                (Outcome::Value(found.value), fill)
            }
            Ok(None) => {
                let fill = match self.policy.negative_ttl {
                    Some(ttl) if ttl > 0 => Fill::Store(Expiry::At(now.saturating_add(ttl))),
                    _ => Fill::Skip,
                };
                (Outcome::Absent, fill)
            }
            Err(error) => {
                let stale = self.policy.serves_stale() && error.is_unavailable();
                let outcome = match stale.then(|| self.lead.last_known(now)).flatten() {
                    Some(Some(value)) => Outcome::Value(value),
                    Some(None) => Outcome::Absent,
                    None => Outcome::Failed(error.to_outcome()),
                };
                (outcome, Fill::Skip)
            }
        };
        let fill = if self.keep() { fill } else { Fill::Skip };
        if answered && fill == Fill::Skip && self.policy.serves_stale() {
            // A copy that is out of date must not be given to a client that has seen this.
            self.lead.forget();
        }
        self.lead.finish(outcome, fill, now);
    }

    /// The command whose whole reply is to be fetched; `None`: the value of the key is.
    pub fn reply_name(&self) -> Option<ReplyName<'_>> {
        ReplyName::read(self.lead.name())
    }

    /// [`finish`](Fetch::finish) for a fetch of a reply that has come, be it an error.
    pub fn finish_reply(self, found: FetchedReply, now: Millis) {
        if self.policy.coherence != Coherence::Ttl {
            self.lead.overtake();
        }
        let len = found.reply.len() + self.lead.name().len();
        let fill = match found.key {
            _ if found.is_error() || len > self.policy.max_reply || !self.keep() => Fill::Skip,
            KeyLife::Until(at) if at <= now => Fill::Skip,
            KeyLife::Until(at) => Fill::Store(self.policy.cap(Some(at), now)),
            KeyLife::Unbounded => Fill::Store(self.policy.cap(None, now)),
            // What is said of a key that is not there is remembered as its absence would be.
            KeyLife::Absent => match self.policy.negative_ttl {
                Some(ttl) if ttl > 0 => Fill::Store(Expiry::At(now.saturating_add(ttl))),
                _ => Fill::Skip,
            },
        };
        if fill == Fill::Skip && self.policy.serves_stale() {
            self.lead.forget();
        }
        self.lead.finish(Outcome::Value(found.reply), fill, now);
    }
}
