//! Request texts with places for the key and the value.

/// A text with holes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(Vec<u8>),
    Key,
    Value,
}

pub(super) fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((at, piece, length)) = [("{key}", Piece::Key), ("{value}", Piece::Value)]
        .into_iter()
        .filter_map(|(name, piece)| Some((rest.find(name)?, piece, name.len())))
        .min_by_key(|&(at, ..)| at)
    {
        if at > 0 {
            pieces.push(Piece::Text(rest[..at].into()));
        }
        pieces.push(piece);
        rest = &rest[at + length..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.into()));
    }
    pieces
}

pub(super) fn fill(pieces: &[Piece], key: &[u8], value: &[u8], write_key: fn(&[u8], &mut Vec<u8>), out: &mut Vec<u8>) {
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text),
            Piece::Key => write_key(key, out),
            Piece::Value => out.extend_from_slice(value),
        }
    }
}

pub(super) fn verbatim(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(bytes);
}

pub(super) fn number(number: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
