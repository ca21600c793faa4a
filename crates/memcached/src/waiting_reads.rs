//! Reads that wait for the source, in the order of their commands.
use crate::{
    entry_view::{EntryView, version_of},
    reads, replies,
};
use larder_core::{app::Worker, read::Group};
use larder_engine::{Value, Wait};
use larder_proto::{
    memcached::{Meta, MetaCommand, MetaFlags},
    output::Output,
};
use larder_source::ClientMark;
use larder_store::clock;
use std::{collections::VecDeque, time::Instant};

/// A key whose value is being fetched, and the output between it and the next one.
pub(crate) struct WaitingRead {
    pub(crate) wait: Wait,
    pub(crate) form: Form,
    pub(crate) after: Output,
    /// How much of `after` belongs to the same command; `None`: all of it, and what follows.
    pub(crate) command_ends: Option<usize>,
    /// For the slow log, if there is one.
    pub(crate) since: Option<Instant>,
}

/// How the value is written.
pub(crate) enum Form {
    Get {
        with_version: bool,
    },
    /// The tokens of the command: its key as it was sent, and its flags.
    Meta {
        key: Box<[u8]>,
        flags: Box<[u8]>,
    },
}

impl Form {
    pub(crate) fn of_meta(meta: &Meta<'_>) -> Form {
        Form::Meta { key: meta.key.into(), flags: meta.flags.text().into() }
    }
    fn owned(&self) -> usize {
        match self {
            Form::Get { .. } => 0,
            Form::Meta { key, flags } => key.len() + flags.len(),
        }
    }
}

impl WaitingRead {
    /// Bytes of memory that it occupies besides itself. Fetched values are accounted for elsewhere.
    pub(crate) fn owned(&self) -> usize {
        self.after.owned() + self.form.owned()
    }

    /// Writes the value, once the flight has ended. The error line if it failed.
    pub(crate) fn write(
        &self,
        worker: &Worker,
        outcome: larder_engine::Outcome,
        out: &mut Output,
    ) -> Result<(), String> {
        let value = Group::ended(outcome).map_err(|error| replies::source_error(&error))?;
        let mark = self.wait.metadata().map(|metadata| ClientMark::read(&metadata)).unwrap_or_default();
        let key = self.wait.key();
        if value.is_none() {
            worker.counters.memcached_get_misses.add(1);
        }
        match (&self.form, value) {
            (Form::Get { .. }, None) => {}
            (Form::Get { with_version }, Some(value)) => {
                let version = with_version.then(|| version_of(&value, mark.flags));
                replies::value(out, key, mark.flags, version, &Value::Inline(&value));
            }
            (Form::Meta { key: sent, flags }, value) => {
                // It was parsed once without an error.
                let flags = MetaFlags::parse(flags).unwrap_or_default();
                let meta = Meta { command: MetaCommand::Get, key: sent, flags };
                let Some(value) = value else {
                    reads::meta_miss(out, &meta);
                    return Ok(());
                };
                let now = clock::now();
                let group = worker.groups.default();
                let expiry = group.cache.tier().peek(group.cache.key(key), now, |entry| entry.expiry()).flatten();
                let view = EntryView::at_source(&value, mark, expiry);
                reads::meta_hit(out, &meta, &view, &Value::Inline(&value), (false, false), now);
            }
        }
        Ok(())
    }
}

/// Where replies go: the output, or behind the last read that waits.
pub(crate) struct Replies<'c> {
    pub(crate) out: &'c mut Output,
    pub(crate) queue: &'c mut VecDeque<WaitingRead>,
    /// Bytes in the `after` outputs of the queue.
    pub(crate) held: &'c mut usize,
    /// Those of the last one that `held` has already.
    counted: usize,
    /// Reads in the queue when the command began.
    already: usize,
}

impl<'c> Replies<'c> {
    pub(crate) fn new(out: &'c mut Output, queue: &'c mut VecDeque<WaitingRead>, held: &'c mut usize) -> Replies<'c> {
        let counted = queue.back().map_or(0, |last| last.after.len());
        let already = queue.len();
        Replies { out, queue, held, counted, already }
    }

    #[inline]
    pub(crate) fn output(&mut self) -> &mut Output {
        match self.queue.back_mut() {
            None => self.out,
            Some(last) => &mut last.after,
        }
    }

    /// About the bytes of memory that the replies take.
    pub(crate) fn owned(&self) -> usize {
        let last = self.queue.back().map_or(0, |last| last.after.owned());
        self.out.owned() + self.queue.len() * size_of::<WaitingRead>() + *self.held + last
    }

    /// The next reply waits.
    pub(crate) fn wait(&mut self, wait: Wait, form: Form, since: Option<Instant>) {
        self.count();
        self.queue.push_back(WaitingRead { wait, form, after: Output::default(), command_ends: None, since });
        self.counted = 0;
    }

    fn count(&mut self) {
        if let Some(last) = self.queue.back() {
            *self.held += last.after.len() - self.counted;
            self.counted = last.after.len();
        }
    }

    /// The command is answered as far as nothing waits.
    #[inline]
    pub(crate) fn end(&mut self) {
        if !self.queue.is_empty() {
            self.count();
            if self.queue.len() > self.already
                && let Some(last) = self.queue.back_mut()
            {
                last.command_ends = Some(last.after.len());
            }
        }
    }
}
