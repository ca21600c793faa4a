//! Values that are not strings: their extent, so that what follows them can be read.
use super::{format::RdbError, input::Input};
use std::io::Read;

const STREAM_ID: u64 = 16;
const MILLISECONDS: u64 = 8;

/// The name of a type, by the byte before its key; `None`: it is unknown, and so is its extent.
pub(super) fn type_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        0 => "string",
        1 | 10 | 14 | 18 => "list",
        2 | 11 | 20 => "set",
        3 | 5 | 12 | 17 => "sorted set",
        4 | 9 | 13 | 16 | 22..=25 => "hash",
        15 | 19 | 21 | 26 => "stream",
        7 => "module value",
        _ => return None,
    })
}

/// Skips the value of a type that [`type_name`] knows.
pub(super) fn value<R: Read>(input: &mut Input<R>, kind: u8) -> Result<(), RdbError> {
    match kind {
        // A string, or a structure that is stored as one.
        0 | 9..=13 | 16 | 17 | 20 | 23 => input.skip_string(),
        // With the end of the field that ends first.
        25 => {
            input.skip(MILLISECONDS)?;
            input.skip_string()
        }
        // Lists and sets of strings, or of structures that are stored as such.
        1 | 2 | 14 => each(input, Input::skip_string),
        // Each with the kind of its structure.
        18 => each(input, |input| {
            input.length()?;
            input.skip_string()
        }),
        4 => each(input, |input| {
            input.skip_string()?;
            input.skip_string()
        }),
        // The end of a field is a number that is added to the earliest, which comes first.
        22 | 24 => {
            if kind == 24 {
                input.skip(MILLISECONDS)?;
            }
            each(input, |input| {
                input.length()?;
                input.skip_string()?;
                input.skip_string()
            })
        }
        // Scores as text behind one byte of length; 253 and above are not numbers.
        3 => each(input, |input| {
            input.skip_string()?;
            let len = input.byte()?;
            if len < 253 { input.skip(len.into()) } else { Ok(()) }
        }),
        5 => each(input, |input| {
            input.skip_string()?;
            input.skip(8)
        }),
        15 | 19 | 21 | 26 => stream(input, kind),
        7 => {
            input.length()?;
            module_fields(input)
        }
        _ => Err(input.damaged("a value of an unknown type")),
    }
}

fn each<R: Read>(
    input: &mut Input<R>,
    mut skip: impl FnMut(&mut Input<R>) -> Result<(), RdbError>,
) -> Result<(), RdbError> {
    // Each takes a byte at least, so the file ends a loop that has no end.
    for _ in 0..input.length()? {
        skip(input)?;
    }
    Ok(())
}

fn lengths<R: Read>(input: &mut Input<R>, count: usize) -> Result<(), RdbError> {
    (0..count).try_for_each(|_| input.length().map(drop))
}

/// Nodes of entries, what is known of the whole, and groups of consumers with what each has not
/// acknowledged.
fn stream<R: Read>(input: &mut Input<R>, kind: u8) -> Result<(), RdbError> {
    let (has_first, has_active, has_producers) = (kind >= 19, kind >= 21, kind >= 26);
    each(input, |input| {
        input.skip_string()?;
        input.skip_string()
    })?;
    // Length and last ID; then first ID, largest deleted ID, entries added.
    lengths(input, if has_first { 8 } else { 3 })?;
    each(input, |input| {
        input.skip_string()?;
        // The last ID that was delivered; then the entries read.
        lengths(input, if has_first { 3 } else { 2 })?;
        each(input, |input| {
            input.skip(STREAM_ID + MILLISECONDS)?;
            input.length().map(drop)
        })?;
        each(input, |input| {
            input.skip_string()?;
            input.skip(if has_active { 2 * MILLISECONDS } else { MILLISECONDS })?;
            each(input, |input| input.skip(STREAM_ID))
        })
    })?;
    if has_producers {
        lengths(input, 2)?;
        each(input, |input| {
            input.skip_string()?;
            each(input, |input| {
                input.skip_string()?;
                lengths(input, 2)
            })
        })?;
        lengths(input, 2)?;
    }
    Ok(())
}

/// What a module has written: numbers, floats and strings, each behind a number that says which, up
/// to a 0.
fn module_fields<R: Read>(input: &mut Input<R>) -> Result<(), RdbError> {
    loop {
        match input.length()? {
            0 => return Ok(()),
            1 | 2 => input.length().map(drop)?,
            3 => input.skip(4)?,
            4 => input.skip(8)?,
            5 => input.skip_string()?,
            _ => return Err(input.damaged("a field of a module of an unknown type")),
        }
    }
}

/// What a module keeps beside its keys: its number, when to load it (a field), fields.
pub(super) fn module_data<R: Read>(input: &mut Input<R>) -> Result<(), RdbError> {
    input.length()?;
    module_fields(input)
}

/// What modules keep with a key: for each a number of 4 bytes, fields.
pub(super) fn key_metadata<R: Read>(input: &mut Input<R>) -> Result<(), RdbError> {
    each(input, |input| {
        input.skip(4)?;
        module_fields(input)
    })
}
