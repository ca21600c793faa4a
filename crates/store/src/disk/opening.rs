//! Opens and closes what is in a store's directory: lock, checks for damage, fjall, and the note of
//! a clean end.
use super::{
    damage::{self, Depth, Report},
    dir::Dir,
    journal,
    settings::StoreSettings,
    tree::Tree,
};
use std::path::Path;

/// Locks and checks the directory, and opens what is in it.
pub(super) fn open(dir: &Path, settings: &StoreSettings) -> Result<(Dir, Tree), String> {
    let dir = Dir::lock(dir)?;
    // fjall would pass over some damage in silence, and does not name the file where it sees it.
    let report = damage::check(dir.path(), Depth::Opening, &mut |_| {});
    let interrupted = report.interrupted.clone();
    refuse(report)?;
    if let Some((journal, end)) = interrupted {
        journal::cut(&journal, end).map_err(|error| format!("disk store: {}: {error}", journal.display()))?;
    }
    damage::note_opened(dir.path()).map_err(|error| format!("disk store {}: {error}", dir.path().display()))?;
    let tree = Tree::open(&dir, settings)
        .map_err(|error| refuse(damage::check(dir.path(), Depth::All, &mut |_| {})).err().unwrap_or(error))?;
    Ok((dir, tree))
}
/// Syncs, and notes that all that was written is there. The error is why it takes no more writes.
pub(super) fn close(tree: &Tree, dir: &Dir) -> Option<String> {
    match tree.sync_all().map(|()| damage::note_closed(dir.path())) {
        Err(error) => return Some(error),
        Ok(Err(error)) => tracing::warn!("disk store {}: {error}", dir.path().display()),
        Ok(Ok(())) => {}
    }
    None
}

fn refuse(Report { problems, notes, .. }: Report) -> Result<(), String> {
    notes.iter().for_each(|note| tracing::warn!("disk store: {note}"));
    match problems.is_empty() {
        true => Ok(()),
        false => Err(format!("disk store: damaged: {}", problems.join("; "))),
    }
}
