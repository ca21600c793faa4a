//! How often keys were read lately: a count-min sketch with ageing, as in TinyLFU (Einziger,
//! Friedman and Manes, ACM Transactions on Storage 2017).

const ROWS: usize = 4;
const MOST: u8 = 15;

#[derive(Debug)]
pub(super) struct Sketch {
    rows: [Vec<u8>; ROWS],
    added: usize,
    period: usize,
}

impl Sketch {
    /// For so many keys: 16 counters for each, halved after ten reads for each.
    pub(super) fn new(entries: usize) -> Sketch {
        let width = entries.next_power_of_two().max(16) * 16 / ROWS;
        Sketch { rows: std::array::from_fn(|_| vec![0; width]), added: 0, period: entries.max(1) * 10 }
    }

    fn places(&self, key: u64) -> [usize; ROWS] {
        const SEEDS: [u64; ROWS] =
            [0xc3a5_c85c_97cb_3127, 0xb492_b66f_be98_f273, 0x9ae1_6a3b_2f90_404f, 0xcbf2_9ce4_8422_2325];
        let mask = self.rows[0].len() - 1;
        SEEDS.map(|seed| {
            let mixed = (key ^ key >> 32).wrapping_add(seed).wrapping_mul(seed);
            (mixed ^ mixed >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> 24 & mask
        })
    }

    pub(super) fn frequency(&self, key: u64) -> u8 {
        let counters = self.rows.iter().zip(self.places(key)).map(|(row, place)| row[place]);
        counters.min().unwrap_or(0)
    }

    pub(super) fn add(&mut self, key: u64) {
        let places = self.places(key);
        let mut has_added = false;
        for (row, place) in self.rows.iter_mut().zip(places) {
            has_added |= row[place] < MOST;
            row[place] = (row[place] + 1).min(MOST);
        }
        self.added += usize::from(has_added);
        if self.added >= self.period {
            self.added /= 2;
            self.rows.iter_mut().flatten().for_each(|counter| *counter /= 2);
        }
    }
}
