//! A group's source and its mirror, which may trade places while clients read and write.
use super::{Mirror, paired_redis::PairedRedis};
use crate::{
    fetch::Fetch,
    fill_policy::FillPolicy,
    invalidation::{InvalidationScope, Invalidations},
    local_future::LocalFuture,
    source_error::SourceError,
    source_setup::SourceSetup,
    source_trait::{Source, SourceKind},
    value_stream::ValueStream,
};
use larder_engine::Millis;
use std::{rc::Rc, sync::Arc, time::Duration};

/// What all cores share of a group's source, and of its mirror if it has one.
pub struct SourcePair {
    /// The source at the start.
    first: SourceSetup,
    /// The mirror at the start, and what the changes for the mirror share.
    second: Option<(SourceSetup, Arc<Mirror>)>,
    /// Cores open both, because the two may trade places.
    is_swappable: bool,
}

impl SourcePair {
    /// A source without a mirror.
    pub fn alone(source: SourceSetup) -> SourcePair {
        SourcePair { first: source, second: None, is_swappable: false }
    }

    /// A source and its mirror. Those that are `is_swappable` are two stores, or two Redis servers.
    pub fn mirrored(source: SourceSetup, mirror: SourceSetup, is_swappable: bool) -> SourcePair {
        SourcePair { first: source, second: Some((mirror, Arc::default())), is_swappable }
    }

    /// What is the source now.
    pub fn source(&self) -> &SourceSetup {
        match &self.second {
            Some((second, mirror)) if mirror.is_swapped() => second,
            _ => &self.first,
        }
    }

    /// What is the mirror now, and what the changes for it share; `None`: nothing is mirrored.
    pub fn mirror(&self) -> Option<(&SourceSetup, &Arc<Mirror>)> {
        let (second, mirror) = self.second.as_ref().filter(|(_, mirror)| !mirror.is_dropped())?;
        Some((if mirror.is_swapped() { &self.first } else { second }, mirror))
    }

    /// Where changes are noted, also once nothing is mirrored.
    pub fn changes(&self) -> Option<&Arc<Mirror>> {
        self.second.as_ref().map(|(_, mirror)| mirror)
    }

    /// Whether the two have traded places since the start.
    pub fn is_swapped(&self) -> bool {
        self.changes().is_some_and(|mirror| mirror.is_swapped())
    }

    /// One core's source; see [`SourceSetup::open`].
    pub fn open(&self, scope: Option<InvalidationScope>, keeps_replies: bool) -> Rc<dyn Source> {
        match &self.second {
            Some((second, mirror)) if self.is_swappable => {
                let scope_of = |is_second| {
                    let to = |to| Arc::new(WhileSource { to, mirror: mirror.clone(), is_second });
                    scope.clone().map(|scope| InvalidationScope { to: to(scope.to), ..scope })
                };
                let sources = [(&self.first, false), (second, true)]
                    .map(|(setup, is_second)| setup.open(scope_of(is_second), keeps_replies));
                let are_redis = sources.iter().all(|source| source.as_redis().is_some());
                let redis = are_redis.then(|| PairedRedis::new(sources.clone(), mirror.clone()));
                Rc::new(PairedSource { sources, redis, mirror: mirror.clone() })
            }
            _ => self.first.open(scope, keeps_replies),
        }
    }

    /// The source at the start, and its mirror.
    pub(super) fn at_start(&self) -> Option<[&SourceSetup; 2]> {
        self.second.as_ref().map(|(second, _)| [&self.first, second])
    }
}

/// One core's source and mirror: each call goes to what is the source at that moment.
struct PairedSource {
    sources: [Rc<dyn Source>; 2],
    /// Both are Redis servers. Writers to stores hold key locks instead.
    redis: Option<PairedRedis>,
    mirror: Arc<Mirror>,
}

impl PairedSource {
    #[inline]
    fn now(&self) -> &dyn Source {
        &*self.sources[usize::from(self.mirror.is_swapped())]
    }

    /// Makes a write that is noted before the two may trade places.
    fn write<'a, R: 'a>(
        &'a self,
        key: &'a [u8],
        write: impl FnOnce(&'a dyn Source) -> LocalFuture<'a, Result<R, SourceError>> + 'a,
    ) -> LocalFuture<'a, Result<R, SourceError>> {
        if self.redis.is_none() {
            return write(self.now());
        }
        Box::pin(async move {
            let _gate = self.mirror.enter().await;
            let answer = write(self.now()).await;
            if matches!(answer, Ok(_) | Err(SourceError::Lost(_))) {
                self.mirror.note(key);
            }
            answer
        })
    }
}

impl Source for PairedSource {
    fn kind(&self) -> SourceKind<'_> {
        match &self.redis {
            Some(redis) => SourceKind::Redis(redis),
            None => self.now().kind(),
        }
    }
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        self.now().fetch(batch);
    }
    fn stream<'a>(
        &'a self,
        key: &'a [u8],
        policy: &FillPolicy,
    ) -> Option<LocalFuture<'a, Result<Option<ValueStream>, SourceError>>> {
        self.now().stream(key, policy)
    }
    fn put<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        expiry: Option<Millis>,
    ) -> LocalFuture<'a, Result<bool, SourceError>> {
        self.write(key, move |source| source.put(key, value, expiry))
    }
    fn delete<'a>(&'a self, key: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
        self.write(key, move |source| source.delete(key))
    }
    fn expire<'a>(&'a self, key: &'a [u8], expiry: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        self.write(key, move |source| source.expire(key, expiry))
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        self.now().ping()
    }
}

/// Hears of changes at one of the two, while that is the source.
struct WhileSource {
    to: Arc<dyn Invalidations>,
    mirror: Arc<Mirror>,
    is_second: bool,
}

impl WhileSource {
    fn is_source(&self) -> bool {
        self.mirror.is_swapped() == self.is_second
    }
}

impl Invalidations for WhileSource {
    fn key(&self, key: &[u8]) {
        if self.is_source() {
            self.to.key(key);
        }
    }
    fn all(&self) {
        if self.is_source() {
            self.to.all();
        }
    }
    fn prefix(&self, prefix: &[u8]) {
        if self.is_source() {
            self.to.prefix(prefix);
        }
    }
    fn lost(&self) -> bool {
        self.is_source() && self.to.lost()
    }
    fn patience(&self) -> Duration {
        self.to.patience()
    }
    fn are_wanted(&self) -> bool {
        self.is_source() && self.to.are_wanted()
    }
}
