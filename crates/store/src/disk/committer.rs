//! The thread that writes: takes all that waits, writes it as one batch with one sync, and answers
//! every caller.
use super::{commit_replies::answer, pressure::Brake, settings::Durability, shared::Shared, stats::Counts};

pub(super) fn run(shared: &Shared) {
    let died = Died(shared);
    let sync = shared.settings.durability == Durability::Always;
    let mut brake = Brake::default();
    let mut ops = Vec::new();
    while shared.writes.wait() {
        let mut writer = shared.writer.lock();
        // Only now: a core that is the writer must find here what is ahead of its own write.
        shared.writes.take(&mut ops);
        let bytes = ops.iter().map(|op| op.bytes).sum();
        let held = brake.slow(shared, bytes);
        if !held.is_zero() {
            Counts::add(&shared.counts.stalls, 1);
            Counts::add(&shared.counts.stalled_micros, held.as_micros() as u64);
        }
        shared.counts.add_batch(ops.len(), bytes, sync);
        let written = writer.commit(shared.to_write(), ops.iter().map(|op| &op.change), sync);
        drop(writer);
        answer(ops.drain(..).map(|op| (op.reply, written.clone())));
        shared.writes.release(bytes);
    }
    std::mem::forget(died);
}

/// The committer has panicked: no caller would get an answer.
struct Died<'a>(&'a Shared);
impl Drop for Died<'_> {
    fn drop(&mut self) {
        self.0.poison.set(self.0.dir.path(), "the thread that writes has ended");
        self.0.writes.drop_all();
    }
}
