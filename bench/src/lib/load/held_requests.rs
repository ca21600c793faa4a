//! Written requests of one connection that the modelled delay holds back.
use std::collections::VecDeque;

/// The requests' bytes, and when each is due to be sent and how many bytes it has; in order.
#[derive(Default)]
pub(super) struct HeldRequests {
    bytes: Vec<u8>,
    until: VecDeque<(u64, usize)>,
}

impl HeldRequests {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.until.len()
    }

    /// Takes the bytes of `output` from `begin` on, and holds them until `until`.
    pub(super) fn hold(&mut self, until: u64, begin: usize, output: &mut Vec<u8>) {
        let request = output.drain(begin..);
        self.until.push_back((until, request.len()));
        self.bytes.extend(request);
    }

    /// Gives those back to `output` whose time has come; says how many.
    pub(super) fn release(&mut self, now: u64, output: &mut Vec<u8>) -> usize {
        let mut released = 0;
        while let Some(&(until, bytes)) = self.until.front()
            && until <= now
        {
            self.until.pop_front();
            output.extend(self.bytes.drain(..bytes));
            released += 1;
        }
        released
    }
}

#[test]
fn requests_go_in_order_when_their_time_has_come() {
    let (mut held, mut output) = (HeldRequests::default(), b"sent".to_vec());
    for (until, request) in [(10, b"one"), (20, b"two")] {
        let begin = output.len();
        output.extend_from_slice(request);
        held.hold(until, begin, &mut output);
    }
    assert_eq!((held.len(), output.as_slice()), (2, b"sent".as_slice()));
    assert_eq!((held.release(9, &mut output), held.release(10, &mut output), held.len()), (0, 1, 1));
    assert_eq!((held.release(20, &mut output), output.as_slice()), (1, b"sentonetwo".as_slice()));
}
