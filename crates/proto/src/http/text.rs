//! Small pieces of text that heads are made of: decimal numbers, the date, the head of an HTTP/1.1
//! response.
use larder_engine::Millis;
use std::{
    io::Write,
    time::{Duration, UNIX_EPOCH},
};

/// Something that bytes can be appended to.
pub trait Sink {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);
    /// Appends a number in decimal.
    fn put_number(&mut self, number: u64) {
        self.put(itoa::Buffer::new().format(number).as_bytes());
    }
}
impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
impl Sink for crate::output::Output {
    fn put(&mut self, bytes: &[u8]) {
        crate::output::Output::put(self, bytes);
    }
}

/// The `Date` header's value (RFC 9110 section 5.6.7), formatted once a second.
#[derive(Debug)]
pub struct Date {
    second: u64,
    text: [u8; Date::LEN],
}
impl Date {
    /// `Sun, 06 Nov 1994 08:49:37 GMT`
    pub const LEN: usize = 29;

    /// The text for `now`.
    pub fn at(&mut self, now: Millis) -> &[u8; Date::LEN] {
        if self.second != now / 1000 {
            *self = Date::of(now / 1000);
        }
        &self.text
    }

    fn of(second: u64) -> Date {
        let mut text = [b' '; Date::LEN];
        // IMF-fixdate has four digits for the year; the cap keeps the formatter within them.
        let moment = UNIX_EPOCH + Duration::from_secs(second.min(LAST_SECOND));
        write!(&mut text[..], "{}", httpdate::HttpDate::from(moment)).expect("IMF-fixdate has a fixed length");
        Date { second, text }
    }
}
impl Default for Date {
    fn default() -> Self {
        Date::of(0)
    }
}

/// 9999-12-31 23:59:59
const LAST_SECOND: u64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_follows_the_clock_by_seconds() {
        let mut date = Date::default();
        assert_eq!(date.at(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date.at(784_111_777_999), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date.at(784_111_778_000), b"Sun, 06 Nov 1994 08:49:38 GMT");
        assert_eq!(date.at(Millis::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn numbers() {
        let mut out = Vec::new();
        out.put_number(0);
        out.put(b" ");
        out.put_number(u64::MAX);
        assert_eq!(out, b"0 18446744073709551615");
    }
}
