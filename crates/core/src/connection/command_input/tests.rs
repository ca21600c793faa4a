use super::*;
use proptest::prelude::*;
use std::pin::Pin;
use tokio::io::ReadBuf;

/// A socket that has received these pieces, one for each read.
struct Pieces(std::collections::VecDeque<Vec<u8>>);

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(mut piece) = self.0.pop_front() else {
            return Poll::Pending;
        };
        let rest = piece.split_off(piece.len().min(buf.remaining()));
        buf.put_slice(&piece);
        if !rest.is_empty() {
            self.0.push_front(rest);
        }
        Poll::Ready(Ok(()))
    }
}

/// Bytes of memory, lent ones included.
fn capacity(input: &CommandInput) -> usize {
    input.data.occupied() + input.held.capacity()
}

fn poll(input: &mut CommandInput, from: &mut Pieces, more: usize, pool: &BufferPool) -> Option<usize> {
    let mut cx = Context::from_waker(std::task::Waker::noop());
    match input.poll_read(from, more, pool, &mut cx) {
        Poll::Ready(read) => Some(read.expect("pieces do not fail")),
        Poll::Pending => {
            input.rest(pool);
            None
        }
    }
}

proptest! {
    /// Whatever is read, consumed and left for later, the bytes come out in order and none twice.
    #[test]
    fn gives_the_bytes_in_order(
        sizes in proptest::collection::vec(1usize..20_000, 1..30),
        taken in proptest::collection::vec(0usize..30_000, 1..30),
        rests in any::<u64>(),
    ) {
        let total = sizes.iter().sum::<usize>();
        let all: Vec<u8> = (0..total).map(|i| (i % 251) as u8).collect();
        let mut rest = &all[..];
        let pieces = sizes.iter().map(|size| rest.split_off(..*size).expect("so long").to_vec());
        let mut from = Pieces(pieces.collect());
        let (pool, mut input) = (BufferPool::default(), CommandInput::default());
        let mut out = Vec::new();
        let mut taken = taken.into_iter().cycle();
        for turn in 0.. {
            if poll(&mut input, &mut from, 1, &pool).is_none() {
                // What is left may rest in a buffer of its own; a read is due before it is looked at again.
                from.0.push_back(Vec::new());
                poll(&mut input, &mut from, 1, &pool);
                out.extend_from_slice(input.unread());
                break;
            }
            let take = taken.next().expect("cycles").min(input.unread().len());
            out.extend_from_slice(&input.unread()[..take]);
            input.consume(take);
            if rests >> (turn % 64) & 1 == 1 {
                input.rest(&pool);
            }
        }
        prop_assert_eq!(out, all);
    }
}

#[test]
fn an_idle_connection_holds_no_buffer() {
    let (pool, mut input) = (BufferPool::default(), CommandInput::default());
    let mut from = Pieces([vec![b'x'; 10_000]].into());
    assert_eq!(poll(&mut input, &mut from, 1, &pool), Some(10_000));
    assert!(capacity(&input) >= READ);
    input.consume(10_000);
    input.rest(&pool);
    assert_eq!(capacity(&input), 0);
}

#[test]
fn a_short_partial_command_holds_about_its_length() {
    let (pool, mut input) = (BufferPool::default(), CommandInput::default());
    let mut from = Pieces([vec![b'x'; 100]].into());
    poll(&mut input, &mut from, 1, &pool);
    assert_eq!(poll(&mut input, &mut from, 1, &pool), None);
    assert!(capacity(&input) < 512, "{}", capacity(&input));
}

#[test]
fn the_buffer_follows_what_arrives_not_what_is_announced() {
    let (pool, mut input) = (BufferPool::default(), CommandInput::default());
    let mut from = Pieces([vec![b'x'; 10]].into());
    poll(&mut input, &mut from, 500 << 20, &pool);
    assert!(capacity(&input) <= READ, "{}", capacity(&input));
    // A value of 20 MiB in pieces of 64 KiB: never much more than twice what has come, nor than what is
    // to come.
    let total = 20 << 20;
    from.0 = vec![vec![b'x'; READ]; total / READ].into();
    let mut have = 10;
    while let Some(read) = poll(&mut input, &mut from, total + 10 - have, &pool) {
        have += read;
        assert!(capacity(&input) <= 2 * have + 2 * READ, "{} for {have}", capacity(&input));
        assert!(capacity(&input) <= total + 2 * READ);
    }
    assert_eq!(input.unread().len(), total + 10);
    // Nor is it kept.
    input.consume(total + 10);
    input.rest(&pool);
    assert!(pool.take_input().capacity() <= 2 * READ);
}

/// A command of many short arguments, of which each is announced alone.
#[test]
fn short_arguments_move_the_buffer_seldom() {
    let (pool, mut input) = (BufferPool::default(), CommandInput::default());
    let (mut moves, mut before) = (0, 0);
    for _ in 0..(16 << 20) / 4096 {
        input.feed(&[b'x'; 4096], &pool);
        moves += usize::from(input.data.capacity() != before);
        before = input.data.capacity();
    }
    assert_eq!(input.unread().len(), 16 << 20);
    assert!(moves < 20, "{moves}");
}
