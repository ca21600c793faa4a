//! A thread for each mirror: what it copies takes no time of the workers.
use larder_core::app::App;
use larder_source::run_mirror;
use std::{io, sync::Arc, thread, time::Instant};
use tokio::{
    runtime::{Builder, LocalOptions},
    sync::mpsc,
    time::timeout_at,
};

/// The threads that run; no sender is left once all have ended.
pub(super) struct MirrorThreads(mpsc::Receiver<()>);

/// Begins to copy.
pub(super) fn start(app: &Arc<App>) -> io::Result<MirrorThreads> {
    let (alive, ended) = mpsc::channel(1);
    for group in app.groups.iter().filter(|group| group.mirror().is_some()) {
        let (app, number, alive) = (app.clone(), group.number, alive.clone());
        thread::Builder::new().name(format!("mirror-{number}")).spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
            let group = app.groups.at(number);
            if let Ok(runtime) = runtime {
                runtime.block_on(run_mirror(&group.settings.name, group.sources()));
            }
            drop(alive);
        })?;
    }
    Ok(MirrorThreads(ended))
}

/// Copies the changes that wait, until then. All writers must have ended.
pub(super) async fn finish(app: &App, mut threads: MirrorThreads, until: Instant) {
    let mirrors = || app.groups.iter().filter_map(|group| Some((&group.settings.name, group.mirror()?.1)));
    mirrors().for_each(|(_, mirror)| mirror.end());
    let _ = timeout_at(until.into(), threads.0.recv()).await;
    for (group, mirror) in mirrors() {
        let left_out = mirror.snapshot().left_out;
        match mirror.is_in_step() {
            true => tracing::info!(group, left_out, "the mirror has all changes"),
            false => tracing::warn!(group, left_out, "the mirror lacks changes: do not use it as the source"),
        }
    }
}
