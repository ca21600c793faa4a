//! Decodes messages of `pgoutput`, version 1: committed transactions, in the order of their commits.
//! Nothing is copied; a tuple is checked whole before its columns are read.

/// One message of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message<'m> {
    /// A transaction begins. `xid` is that of the top-level transaction.
    Begin { xid: u32 },
    /// The transaction ends; the stream has passed `end`. `time` is when it was committed, by the
    /// database's clock, in microseconds since 2000.
    Commit { end: u64, time: i64 },
    /// What a relation looks like from now on.
    Relation(Relation<'m>),
    /// A row was inserted, updated or deleted. `old` has the columns of the replica identity, the
    /// others as NULL. An update has it only if one of these columns changed, or with identity FULL.
    Row { relation: u32, old: Option<Tuple<'m>>, new: Option<Tuple<'m>> },
    /// All rows of these relations were deleted.
    Truncate(Oids<'m>),
    /// An origin, a type, a logical message, or a kind that version 1 does not have.
    Other,
}

/// A relation and its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Relation<'m> {
    pub(super) oid: u32,
    pub(super) schema: &'m [u8],
    pub(super) name: &'m [u8],
    columns: Items<'m>,
}
impl<'m> Relation<'m> {
    /// The names of the columns, in the order of tuples.
    pub(super) fn columns(&self) -> impl Iterator<Item = &'m [u8]> + use<'m> {
        let mut reader = Reader(self.columns.bytes);
        (0..self.columns.count).map_while(move |_| reader.column_name())
    }
}

/// Values of a row's columns, as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tuple<'m>(Items<'m>);
impl<'m> Tuple<'m> {
    /// The columns, in the order of the relation's.
    pub(super) fn columns(&self) -> impl Iterator<Item = Column<'m>> + use<'m> {
        let mut reader = Reader(self.0.bytes);
        (0..self.0.count).map_while(move |_| reader.column())
    }
}

/// One value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column<'m> {
    Null,
    /// A large value that the update left as it was; it is not sent.
    Unchanged,
    Text(&'m [u8]),
}

/// Identifiers of relations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Oids<'m>(&'m [u8]);
impl<'m> Oids<'m> {
    /// The identifiers.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + use<'m> {
        self.0.as_chunks().0.iter().map(|oid| u32::from_be_bytes(*oid))
    }
}

/// Items that were checked when the message was decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Items<'m> {
    count: usize,
    bytes: &'m [u8],
}

/// Decodes one message; `None` if it is malformed.
pub(super) fn decode(message: &[u8]) -> Option<Message<'_>> {
    let mut reader = Reader(message);
    let decoded = match reader.u8()? {
        b'B' => {
            reader.take(16)?;
            Message::Begin { xid: reader.u32()? }
        }
        b'C' => {
            reader.take(9)?;
            Message::Commit { end: reader.u64()?, time: reader.u64()?.cast_signed() }
        }
        b'R' => {
            let (oid, schema, name) = (reader.u32()?, reader.text()?, reader.text()?);
            reader.take(1)?;
            let columns = reader.items(|reader| reader.column_name().map(drop))?;
            Message::Relation(Relation { oid, schema, name, columns })
        }
        b'I' => Message::Row { relation: reader.u32()?, old: None, new: Some(reader.tuple(b"N")?) },
        b'U' => {
            let relation = reader.u32()?;
            let old = match reader.0.first()? {
                b'N' => None,
                _ => Some(reader.tuple(b"KO")?),
            };
            Message::Row { relation, old, new: Some(reader.tuple(b"N")?) }
        }
        b'D' => Message::Row { relation: reader.u32()?, old: Some(reader.tuple(b"KO")?), new: None },
        b'T' => {
            let count = reader.u32()? as usize;
            reader.take(1)?;
            Message::Truncate(Oids(reader.take(count.checked_mul(4)?)?))
        }
        _ => return Some(Message::Other),
    };
    reader.0.is_empty().then_some(decoded)
}

/// The rest of a message. Each method gives `None` where it is too short.
struct Reader<'m>(&'m [u8]);
impl<'m> Reader<'m> {
    fn take(&mut self, len: usize) -> Option<&'m [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }
    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }
    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }
    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }
    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
    /// A text that ends with a zero byte.
    fn text(&mut self) -> Option<&'m [u8]> {
        let len = self.0.iter().position(|byte| *byte == 0)?;
        let text = self.take(len)?;
        self.take(1)?;
        Some(text)
    }
    fn items(&mut self, skip: impl Fn(&mut Reader<'m>) -> Option<()>) -> Option<Items<'m>> {
        let count = usize::from(self.u16()?);
        let bytes = self.0;
        (0..count).try_for_each(|_| skip(self))?;
        Some(Items { count, bytes: &bytes[..bytes.len() - self.0.len()] })
    }
    /// The description of a column: flags, name, type and its modifier.
    fn column_name(&mut self) -> Option<&'m [u8]> {
        self.take(1)?;
        let name = self.text()?;
        self.take(8)?;
        Some(name)
    }
    fn tuple(&mut self, kinds: &[u8]) -> Option<Tuple<'m>> {
        if !kinds.contains(&self.u8()?) {
            return None;
        }
        self.items(|reader| reader.column().map(drop)).map(Tuple)
    }
    fn column(&mut self) -> Option<Column<'m>> {
        Some(match self.u8()? {
            b'n' => Column::Null,
            b'u' => Column::Unchanged,
            b't' => {
                let len = self.u32()? as usize;
                Column::Text(self.take(len)?)
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Columns as they are sent.
    fn tuple(columns: &[Option<&[u8]>]) -> Vec<u8> {
        let mut bytes = (columns.len() as u16).to_be_bytes().to_vec();
        for column in columns {
            match column {
                None => bytes.push(b'n'),
                Some(text) => {
                    bytes.push(b't');
                    bytes.extend((text.len() as u32).to_be_bytes());
                    bytes.extend(*text);
                }
            }
        }
        bytes
    }
    fn texts(tuple: Option<Tuple<'_>>) -> Vec<Option<Vec<u8>>> {
        let text = |column| match column {
            Column::Text(text) => Some(text.to_vec()),
            Column::Null | Column::Unchanged => None,
        };
        tuple.map(|tuple| tuple.columns().map(text).collect()).unwrap_or_default()
    }

    /// As PostgreSQL 15 has sent it.
    #[test]
    fn messages_of_a_server() {
        let relation =
            b"R\0\0\x40\0public\0users\0d\0\x02\x01id\0\0\0\0\x14\xff\xff\xff\xff\0name\0\0\0\0\x19\xff\xff\xff\xff";
        let Some(Message::Relation(found)) = decode(relation) else { panic!("a relation") };
        assert_eq!((found.oid, found.schema, found.name), (0x4000, &b"public"[..], &b"users"[..]));
        assert_eq!(found.columns().collect::<Vec<_>>(), [&b"id"[..], b"name"]);
        let begin = [&b"B"[..], &[0; 16], &7u32.to_be_bytes()].concat();
        assert_eq!(decode(&begin), Some(Message::Begin { xid: 7 }));
        let commit = [&b"C"[..], &[0; 9], &9u64.to_be_bytes(), &(-1i64).to_be_bytes()].concat();
        assert_eq!(decode(&commit), Some(Message::Commit { end: 9, time: -1 }));
        let Some(Message::Truncate(oids)) = decode(b"T\0\0\0\x02\0\0\0\0\x05\0\0\0\x06") else { panic!("a truncate") };
        assert_eq!(oids.iter().collect::<Vec<_>>(), [5, 6]);
        assert_eq!(decode(b"T\xff\xff\xff\xff\0\0\0\0\x05"), None, "a count past the end");
        assert_eq!(decode(b"Y whatever"), Some(Message::Other));
        assert_eq!(decode(b""), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(kind in "[BCRIUDTYOM]", rest: Vec<u8>) {
            let bytes = [kind.as_bytes(), &rest].concat();
            match decode(&bytes) {
                Some(Message::Relation(relation)) => prop_assert!(relation.columns().count() <= bytes.len()),
                Some(Message::Row { old, new, .. }) => {
                    prop_assert!(old.iter().chain(&new).all(|tuple| tuple.columns().count() <= bytes.len()));
                }
                Some(Message::Truncate(oids)) => prop_assert!(oids.iter().count() <= bytes.len()),
                _ => {}
            }
        }

        #[test]
        fn rows_are_read_as_they_were_written(
            old in proptest::option::of(proptest::collection::vec(proptest::option::of(any::<Vec<u8>>()), 0..8)),
            new in proptest::collection::vec(proptest::option::of(any::<Vec<u8>>()), 0..8),
            relation: u32, cut: proptest::sample::Index,
        ) {
            let bytes = |row: &[Option<Vec<u8>>]| tuple(&row.iter().map(Option::as_deref).collect::<Vec<_>>());
            let mut message = [&b"U"[..], &relation.to_be_bytes()].concat();
            if let Some(old) = &old {
                message.extend([b"K", &bytes(old)[..]].concat());
            }
            message.extend([b"N", &bytes(&new)[..]].concat());
            let Some(Message::Row { relation: found, old: before, new: after }) = decode(&message) else { panic!("a row") };
            prop_assert_eq!(found, relation);
            prop_assert_eq!(texts(before), old.unwrap_or_default());
            prop_assert_eq!(texts(after), new);
            prop_assert_eq!(decode(&message[..cut.index(message.len())]), None, "cut");
        }
    }
}
