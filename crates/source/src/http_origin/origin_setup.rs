//! From the URL of an origin to its source.
use super::{origin_settings::OriginSettings, origin_source::OriginSource};
use crate::{
    invalidation::InvalidationScope, source_factory::SourceFactory, source_health::SourceHealth,
    source_limits::SourceLimits, source_trait::Source,
};
use larder_base::buffers::Buffers;
use larder_config::OriginUrl;
use std::{rc::Rc, sync::Arc};

/// The shared part of the source.
pub(crate) struct OriginSetup(Arc<OriginSettings>);
impl OriginSetup {
    /// Reads the files that the URL names; connects to nothing yet.
    ///
    /// # Errors
    /// A text that names the file or host at fault.
    pub(crate) fn new(
        url: &OriginUrl,
        limits: SourceLimits,
        health: SourceHealth,
        buffers: Arc<Buffers>,
    ) -> Result<OriginSetup, String> {
        Ok(OriginSetup(Arc::new(OriginSettings::new(url, limits, health, buffers)?)))
    }
}
impl SourceFactory for OriginSetup {
    fn health(&self) -> &Arc<SourceHealth> {
        &self.0.health
    }
    fn open(&self, _scope: Option<InvalidationScope>, _keeps_replies: bool) -> Rc<dyn Source> {
        Rc::new(OriginSource::new(self.0.clone()))
    }
}
