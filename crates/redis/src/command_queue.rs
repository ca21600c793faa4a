//! Commands that MULTI or a pipeline collects to run later.
use super::command::Command;
use larder_proto::resp::Args;
use std::ops::Range;

#[derive(Debug, Default)]
pub(super) struct OpenTransaction {
    pub(super) queue: CommandQueue,
    /// A command could not be queued, so EXEC will refuse.
    pub(super) spoiled: bool,
}
impl OpenTransaction {
    /// Marks the transaction: a command could not be queued, so EXEC will refuse.
    pub(super) fn spoil(&mut self) {
        self.spoiled = true;
        // None of the commands will run.
        self.queue = CommandQueue::default();
    }
}

/// Commands to run later, with their arguments.
#[derive(Debug, Default)]
pub(super) struct CommandQueue {
    bytes: Vec<u8>,
    parts: Vec<Range<u32>>,
    commands: Vec<(&'static Command, Range<usize>)>,
}
impl CommandQueue {
    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + self.parts.len() * size_of::<Range<u32>>()
    }
    pub(super) fn owned(&self) -> usize {
        self.bytes.capacity()
            + self.parts.capacity() * size_of::<Range<u32>>()
            + self.commands.capacity() * size_of::<(&Command, Range<usize>)>()
    }
    pub(super) fn push(&mut self, command: &'static Command, args: Args<'_>) {
        let first = self.parts.len();
        for part in args.from(0) {
            let start = self.bytes.len() as u32;
            self.bytes.extend_from_slice(part);
            self.parts.push(start..self.bytes.len() as u32);
        }
        self.commands.push((command, first..self.parts.len()));
    }
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&'static Command, Args<'_>)> + Clone {
        self.commands.iter().map(|(command, parts)| (*command, Args::new(&self.bytes, &self.parts[parts.clone()])))
    }
}
