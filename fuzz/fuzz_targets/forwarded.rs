//! `X-Forwarded-For` and `Forwarded`: no panic, and what stands before the entry of a trusted proxy changes nothing.
#![no_main]
use larder_proto::http::forwarded::{ForwardedSyntax, client_of};
use libfuzzer_sys::fuzz_target;
use std::net::IpAddr;

fn is_trusted(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 10)
}

fuzz_target!(|fields: Vec<&[u8]>| {
    for (syntax, appended) in [
        (ForwardedSyntax::XForwardedFor, &b"192.0.2.1"[..]),
        (ForwardedSyntax::Forwarded, b"for=192.0.2.1"),
    ] {
        let found = client_of(syntax, fields.iter().copied(), is_trusted);
        if let Some(found) = found {
            assert_eq!(found.ip, found.ip.to_canonical());
            let again: IpAddr = found.ip.to_string().parse().expect("an address");
            assert_eq!(found.ip, again);
        }
        let all = fields.iter().copied().chain([appended]);
        let client = client_of(syntax, all, is_trusted).expect("the proxy has named it");
        assert_eq!(client.to_string(), "192.0.2.1");
    }
});
