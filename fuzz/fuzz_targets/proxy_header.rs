//! A header of the PROXY protocol: no panic, a length within the input, and the same answer however it is cut.
#![no_main]
use larder_proto::proxy_header::{LONGEST, ProxyHeader, begins_header, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8], usize)| {
    let (which, rest, cut) = input;
    let mark: &[u8] = [&b""[..], b"PROXY ", b"PROXY TCP4 ", b"\r\n\r\n\0\r\nQUIT\n\x21"][usize::from(which % 4)];
    let bytes = [mark, rest].concat();
    let whole = parse(&bytes);
    let part = parse(&bytes[..cut.min(bytes.len())]);
    match part {
        // More bytes may decide it.
        Ok(ProxyHeader::Partial) => {}
        // More bytes change nothing.
        decided => assert_eq!(decided, whole),
    }
    match whole {
        Ok(ProxyHeader::Complete { len, client }) => {
            assert!(begins_header(&bytes) && len <= bytes.len() && len <= LONGEST);
            assert_eq!(parse(&bytes[..len]), Ok(ProxyHeader::Complete { len, client }));
            assert_eq!(parse(&bytes[..len - 1]), Ok(ProxyHeader::Partial));
        }
        Ok(ProxyHeader::Partial) => assert!(bytes.len() < LONGEST),
        Ok(ProxyHeader::Absent) => assert!(!begins_header(&bytes)),
        Err(_) => assert!(begins_header(&bytes)),
    }
});
