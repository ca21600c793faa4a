//! One thread's requests: drawn, and written as the target's protocol wants them.
use super::{
    keys::{Draw, Names},
    ops::{DrawnOperation, Mix, Verb},
    values::ValueMaker,
    wire::{Expect, Wire},
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
    /// The keys of a request that reads several.
    batch: Vec<Vec<u8>>,
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
            batch: Vec::new(),
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
        let Generator { wire, key, rng, batch, names, draw, scratch, values, .. } = self;
        let number = usize::from(op.verb);
        let value = match &self.verbs[number].0 {
            verb @ (Verb::Mget(most) | Verb::Scan(most)) => {
                let is_scan = matches!(verb, Verb::Scan(_));
                let count = if is_scan { rng.u32(1..=*most) } else { *most };
                batch.resize_with(count as usize, Vec::new);
                for (at, key) in (0..).zip(batch.iter_mut()) {
                    key.clear();
                    let next = if is_scan || at == 0 { op.key + at } else { draw.key(rng) };
                    names.write(next, key);
                }
                wire.many(batch, scratch, out);
                return count;
            }
            Verb::Get | Verb::ReadModifyWrite | Verb::Del => &[],
            Verb::Set | Verb::Insert | Verb::Raw(_) => match op.size {
                Some(size) => values.of_size(size as usize, rng),
                None => values.sample(rng),
            },
        };
        key.clear();
        names.write(op.key, key);
        wire.one(number, key, value, scratch, out);
        1
    }

    /// Appends the second request of an operation that has two.
    pub(crate) fn write_second(&mut self, op: DrawnOperation, out: &mut Vec<u8>) {
        self.key.clear();
        self.names.write(op.key, &mut self.key);
        self.wire.write(&self.key, self.values.sample(&mut self.rng), &mut self.scratch, out);
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
