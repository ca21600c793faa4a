//! Doubly linked lists through numbered slots.

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// A slot's neighbours in its list.
#[derive(Debug, Clone, Copy)]
struct Neighbours {
    older: u32,
    newer: u32,
}

/// The neighbours of all slots. A slot is in one list at most.
#[derive(Debug, Default)]
pub(super) struct Links(Vec<Neighbours>);

/// One list, from its oldest slot to its newest.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    pub(super) oldest: u32,
    newest: u32,
    pub(super) len: usize,
}

impl List {
    pub(super) const EMPTY: List = List { oldest: NONE, newest: NONE, len: 0 };
}

impl Links {
    /// Another slot, in no list.
    pub(super) fn add(&mut self) -> u32 {
        self.0.push(Neighbours { older: NONE, newer: NONE });
        (self.0.len() - 1) as u32
    }

    /// The slot that came into the list after this one, or [`NONE`].
    pub(super) fn newer(&self, slot: u32) -> u32 {
        self.0[slot as usize].newer
    }

    /// Makes a slot the newest of a list.
    pub(super) fn push(&mut self, list: &mut List, slot: u32) {
        self.0[slot as usize] = Neighbours { older: list.newest, newer: NONE };
        match list.newest {
            NONE => list.oldest = slot,
            before => self.0[before as usize].newer = slot,
        }
        list.newest = slot;
        list.len += 1;
    }

    /// Takes a slot out of its list.
    pub(super) fn take(&mut self, list: &mut List, slot: u32) {
        let Neighbours { older, newer } = self.0[slot as usize];
        match older {
            NONE => list.oldest = newer,
            older => self.0[older as usize].newer = newer,
        }
        match newer {
            NONE => list.newest = older,
            newer => self.0[newer as usize].older = older,
        }
        list.len -= 1;
    }
}
