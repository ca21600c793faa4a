//! Asks a name server for SRV records (RFC 1035, RFC 2782): over UDP, and over TCP if the answer is
//! too long for that.
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE, rdata::RData};
use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::timeout,
};

/// How often a server is asked, and how long each time.
const ATTEMPTS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest answer over UDP without an extension of the protocol.
const LONGEST_DATAGRAM: usize = 512;
/// Nodes that a name may have.
const MOST: usize = 4096;

/// Where a record says that the service is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SrvTarget {
    /// Without a dot at the end.
    pub(super) host: String,
    /// Not 0.
    pub(super) port: u16,
}

/// The first server that a file such as `/etc/resolv.conf` names.
pub(super) fn name_server(file: &Path) -> Result<SocketAddr, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let servers = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver")?.split_whitespace().next());
    let mut servers = servers.filter_map(|server| server.parse::<IpAddr>().ok());
    let server = servers.next().ok_or_else(|| {
        format!(
            "{} names no server that can be asked for SRV records: write dns+srv:NAME@SERVER in peers",
            file.display()
        )
    })?;
    Ok(SocketAddr::new(server, 53))
}

/// The targets of a name's records.
///
/// # Errors
/// The server does not answer, or has none; a text for people.
pub(super) async fn targets(server: SocketAddr, name: &str) -> Result<Vec<SrvTarget>, String> {
    let mut reason = "no answer".to_owned();
    for _ in 0..ATTEMPTS {
        let id = fastrand::u16(..);
        let query = query(id, name)?;
        match timeout(PATIENCE, over_udp(server, &query)).await {
            Err(_) => reason = "no answer in time".to_owned(),
            Ok(Err(error)) => reason = error.to_string(),
            Ok(Ok(answer)) => match read(&answer, id) {
                Ok(Answer::Targets(targets)) => return Ok(targets),
                Ok(Answer::Longer) => match timeout(PATIENCE, over_tcp(server, &query)).await {
                    Err(_) => reason = "no answer over TCP in time".to_owned(),
                    Ok(Err(error)) => reason = format!("over TCP: {error}"),
                    Ok(Ok(answer)) => match read(&answer, id)? {
                        Answer::Targets(targets) => return Ok(targets),
                        Answer::Longer => return Err("the answer over TCP is cut off".to_owned()),
                    },
                },
                Err(refused) => return Err(refused),
            },
        }
    }
    Err(reason)
}

fn query(id: u16, name: &str) -> Result<Vec<u8>, String> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name).map_err(|error| error.to_string())?;
    packet.questions.push(Question::new(name, QTYPE::TYPE(TYPE::SRV), QCLASS::CLASS(CLASS::IN), false));
    packet.build_bytes_vec().map_err(|error| error.to_string())
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Targets(Vec<SrvTarget>),
    /// It does not fit a datagram.
    Longer,
}

fn read(answer: &[u8], id: u16) -> Result<Answer, String> {
    let packet = Packet::parse(answer).map_err(|error| format!("not an answer: {error}"))?;
    if packet.id() != id {
        return Err("the answer to another question".to_owned());
    }
    if packet.has_flags(PacketFlag::TRUNCATION) {
        return Ok(Answer::Longer);
    }
    match packet.rcode() {
        RCODE::NoError => {}
        RCODE::NameError => return Err("there is no such name".to_owned()),
        other => return Err(format!("the name server answers {other:?}")),
    }
    let targets: Vec<SrvTarget> = packet
        .answers
        .iter()
        .filter_map(|record| match &record.rdata {
            RData::SRV(srv) => {
                let host = srv.target.to_string().trim_end_matches('.').to_ascii_lowercase();
                // A single dot: the service is not there (RFC 2782).
                (!host.is_empty() && srv.port > 0).then_some(SrvTarget { host, port: srv.port })
            }
            _ => None,
        })
        .take(MOST)
        .collect();
    if targets.is_empty() { Err("no SRV records".to_owned()) } else { Ok(Answer::Targets(targets)) }
}

async fn over_udp(server: SocketAddr, query: &[u8]) -> std::io::Result<Vec<u8>> {
    let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    // Datagrams of others are not received.
    socket.connect(server).await?;
    socket.send(query).await?;
    let mut answer = vec![0; LONGEST_DATAGRAM];
    loop {
        let len = socket.recv(&mut answer).await?;
        if answer.get(..2) == query.get(..2) {
            answer.truncate(len);
            return Ok(answer);
        }
    }
}

async fn over_tcp(server: SocketAddr, query: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let len = u16::try_from(query.len()).unwrap_or(u16::MAX).to_be_bytes();
    stream.write_all(&[&len[..], query].concat()).await?;
    let len = stream.read_u16().await?;
    let mut answer = vec![0; len.into()];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use simple_dns::{ResourceRecord, rdata::SRV};

    fn answer(id: u16, records: &[(&str, u16)], change: impl FnOnce(&mut Packet<'_>)) -> Vec<u8> {
        let mut packet = Packet::new_reply(id);
        for (target, port) in records {
            let srv = SRV { priority: 0, weight: 0, port: *port, target: Name::new_unchecked(target) };
            packet.answers.push(ResourceRecord::new(
                Name::new_unchecked("_http._tcp.a"),
                CLASS::IN,
                5,
                RData::SRV(srv),
            ));
        }
        change(&mut packet);
        packet.build_bytes_vec_compressed().expect("a packet")
    }
    fn target(host: &str, port: u16) -> SrvTarget {
        SrvTarget { host: host.to_owned(), port }
    }

    #[test]
    fn an_answer_has_targets_or_a_reason() {
        let two = answer(7, &[("larder-0.Peers.a", 8080), ("larder-1.peers.a", 8081)], |_| ());
        let expected = vec![target("larder-0.peers.a", 8080), target("larder-1.peers.a", 8081)];
        assert_eq!(read(&two, 7), Ok(Answer::Targets(expected)));
        assert_eq!(read(&two, 8), Err("the answer to another question".to_owned()));
        assert_eq!(read(&answer(7, &[], |_| ()), 7), Err("no SRV records".to_owned()));
        let cut = answer(7, &[], |packet| packet.set_flags(PacketFlag::TRUNCATION));
        assert_eq!(read(&cut, 7), Ok(Answer::Longer));
        let none = answer(7, &[], |packet| *packet.rcode_mut() = RCODE::NameError);
        assert_eq!(read(&none, 7), Err("there is no such name".to_owned()));
    }

    #[test]
    fn the_first_server_of_the_file_is_asked() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("resolv.conf");
        fs::write(
            &file,
            "# nameserver 1.1.1.1\nsearch a.b\nnameserver fe80::1%eth0\n nameserver\t10.0.0.1\nnameserver 10.0.0.2\n",
        )
        .expect("written");
        assert_eq!(name_server(&file), Ok("10.0.0.1:53".parse().expect("an address")));
        fs::write(&file, "search a.b\n").expect("written");
        assert!(name_server(&file).expect_err("none").contains("write dns+srv:NAME@SERVER in peers"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), at in 0..600usize, to in any::<u8>()) {
            let _ = read(&bytes, 7);
            let mut changed = answer(7, &[("a.b", 1), ("c.b", 2)], |_| ());
            let len = changed.len();
            changed[at % len] = to;
            let _ = read(&changed, 7);
        }
    }
}
