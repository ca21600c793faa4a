//! The ready line: how whoever started the process learns where it listens.
use crate::app::Bound;
use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Write as _},
    net::SocketAddr,
};

/// Says on standard output that the process listens: one JSON object, or lines for a human if that is a terminal.
/// Nobody may be reading: a closed standard output is no reason to stop.
pub(super) fn announce(bound: &Bound) {
    let mut out = io::stdout().lock();
    let text = if out.is_terminal() { for_humans(bound) } else { json(bound, std::process::id()) };
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

// Socket addresses need no JSON escapes, so neither does the line.
fn json(bound: &Bound, pid: u32) -> String {
    let admin = match bound.admin {
        Some(address) => format!("\"{address}\""),
        None => "null".to_owned(),
    };
    format!(
        "{{\"ready\":true,\"http\":[{}],\"redis\":[{}],\"admin\":{admin},\"pid\":{pid}}}\n",
        quoted(&bound.http),
        quoted(&bound.redis),
    )
}

fn quoted(addresses: &[SocketAddr]) -> String {
    let mut list = String::new();
    for address in addresses {
        let comma = if list.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(list, "{comma}\"{address}\"");
    }
    list
}

fn for_humans(bound: &Bound) -> String {
    let mut text = String::from("larder is ready\n");
    for address in &bound.http {
        let _ = writeln!(text, "  http   http://{address}/");
    }
    for address in &bound.redis {
        let _ = writeln!(text, "  redis  redis://{address}/");
    }
    if let Some(address) = bound.admin {
        let _ = writeln!(text, "  admin  http://{address}/");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound() -> Bound {
        Bound {
            http: vec![([127, 0, 0, 1], 8080).into(), (std::net::Ipv6Addr::LOCALHOST, 80).into()],
            redis: vec![],
            admin: Some(([127, 0, 0, 1], 8081).into()),
        }
    }

    #[test]
    fn the_line_is_as_documented() {
        assert_eq!(
            json(&bound(), 7),
            "{\"ready\":true,\"http\":[\"127.0.0.1:8080\",\"[::1]:80\"],\"redis\":[],\"admin\":\"127.0.0.1:8081\",\"pid\":7}\n"
        );
    }

    #[test]
    fn no_admin_listener_is_null() {
        let bound = Bound { admin: None, ..bound() };
        assert!(json(&bound, 7).contains("\"admin\":null,"));
    }
}
