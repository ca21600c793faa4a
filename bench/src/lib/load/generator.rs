//! One thread's requests: drawn, and written as the target's protocol wants them.
use super::{
    keys::{Draw, Names},
    ops::{DrawnOperation, Mix, Verb},
    values::ValueMaker,
    wire::{Expect, KeyBatch, Wire},
};
use fastrand::Rng;

/// Draws operations and writes requests.
pub(crate) struct Generator {
    mix: Mix,
    verbs: Vec<(Verb, Expect)>,
    names: Names,
    draw: Draw,
    values: ValueMaker,
    wire: Wire,
    rng: Rng,
    key: Vec<u8>,
    batch: KeyBatch,
    scratch: Vec<u8>,
}

impl Generator {
    /// A generator; `seed` makes it repeat itself.
    pub(crate) fn new(mix: Mix, names: Names, draw: Draw, values: ValueMaker, wire: Wire, seed: u64) -> Generator {
        let verbs = mix.verbs().map(|verb| (verb.clone(), Wire::expect(verb))).collect();
        Generator {
            mix,
            verbs,
            names,
            draw,
            values,
            wire,
            rng: Rng::with_seed(seed),
            key: Vec::new(),
            batch: KeyBatch::default(),
            scratch: Vec::new(),
        }
    }

    /// The next operation.
    pub(crate) fn draw(&mut self) -> DrawnOperation {
        let verb = self.mix.draw(&mut self.rng);
        let key = match self.verbs[verb].0 {
            Verb::Insert => self.draw.new_key(),
            _ => self.draw.key(&mut self.rng),
        };
        DrawnOperation { verb: verb as u16, key, size: None }
    }

    /// Appends the operation's request; says how many keys it reads.
    pub(crate) fn write(&mut self, op: DrawnOperation, out: &mut Vec<u8>) -> u32 {
        let Generator { wire, key, rng, batch, names, draw, scratch, .. } = self;
        key.clear();
        names.write(op.key, key);
        match &self.verbs[usize::from(op.verb)].0 {
            Verb::Get | Verb::ReadModifyWrite => wire.get(key, out),
            Verb::Set | Verb::Insert => match op.size {
                Some(size) => wire.set(key, self.values.of_size(size as usize, rng), out),
                None => wire.set(key, self.values.sample(rng), out),
            },
            Verb::Del => wire.del(key, out),
            Verb::Mget(count) => {
                batch.clear();
                batch.push(|out| out.extend_from_slice(key));
                for _ in 1..*count {
                    let number = draw.key(rng);
                    batch.push(|out| names.write(number, out));
                }
                wire.mget(batch, scratch, out);
                return *count;
            }
            Verb::Scan(most) => {
                let count = rng.u32(1..=*most);
                batch.clear();
                for number in op.key..op.key + u64::from(count) {
                    batch.push(|out| names.write(number, out));
                }
                wire.mget(batch, scratch, out);
                return count;
            }
            Verb::Raw(_) => wire.raw(usize::from(op.verb), key, self.values.sample(rng), scratch, out),
        }
        1
    }

    /// Appends the second request of an operation that has two.
    pub(crate) fn write_second(&mut self, op: DrawnOperation, out: &mut Vec<u8>) {
        self.key.clear();
        self.names.write(op.key, &mut self.key);
        self.wire.set(&self.key, self.values.sample(&mut self.rng), out);
    }

    /// Has the operation a second request, to be sent when the first is answered?
    pub(crate) fn has_second(&self, op: DrawnOperation) -> bool {
        self.verbs[usize::from(op.verb)].0 == Verb::ReadModifyWrite
    }

    /// How the reply to an operation's first or second request is read.
    pub(crate) fn expect(&self, op: DrawnOperation, second: bool) -> Expect {
        if second { Expect::Plain } else { self.verbs[usize::from(op.verb)].1 }
    }

    /// The protocol.
    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }
}
