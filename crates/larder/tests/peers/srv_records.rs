//! Nodes that are found by SRV records, which a name server of the test gives.
use super::{
    common::{Port, wait_until},
    larder::Larder,
};
use simple_dns::{
    CLASS, Name, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE,
    rdata::{RData, SRV},
};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, UdpSocket},
    sync::{Arc, Mutex},
    thread::spawn,
};

/// The records of every name: hosts and ports. `None`: there is no such name.
type Records = Arc<Mutex<Option<Vec<(String, u16)>>>>;

/// Answers over UDP with at most two records, and with all over TCP.
struct NameServer {
    address: SocketAddr,
    records: Records,
}

impl NameServer {
    fn start(records: &[(&str, u16)]) -> NameServer {
        let server = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            let address = udp.local_addr().unwrap();
            // The same number may be taken there.
            let Ok(tcp) = TcpListener::bind(address) else { continue };
            let server = NameServer { address, records: Records::default() };
            let (of_udp, of_tcp) = (server.records.clone(), server.records.clone());
            spawn(move || {
                let mut query = [0; 512];
                while let Ok((len, from)) = udp.recv_from(&mut query) {
                    udp.send_to(&answer(&query[..len], &of_udp, 2), from).unwrap();
                }
            });
            spawn(move || {
                for mut stream in tcp.incoming().map_while(Result::ok) {
                    let mut len = [0; 2];
                    stream.read_exact(&mut len).unwrap();
                    let mut query = vec![0; u16::from_be_bytes(len).into()];
                    stream.read_exact(&mut query).unwrap();
                    let answer = answer(&query, &of_tcp, usize::MAX);
                    stream.write_all(&u16::try_from(answer.len()).unwrap().to_be_bytes()).unwrap();
                    stream.write_all(&answer).unwrap();
                }
            });
            break server;
        };
        server.set(Some(records));
        server
    }
    fn set(&self, records: Option<&[(&str, u16)]>) {
        let owned = |records: &[(&str, u16)]| records.iter().map(|(host, port)| (host.to_string(), *port)).collect();
        *self.records.lock().unwrap() = records.map(owned);
    }
}

fn answer(query: &[u8], records: &Records, fit: usize) -> Vec<u8> {
    let query = Packet::parse(query).unwrap();
    assert_eq!(query.questions[0].qtype, QTYPE::TYPE(TYPE::SRV));
    let mut answer = Packet::new_reply(query.id());
    let records = records.lock().unwrap();
    match &*records {
        None => *answer.rcode_mut() = RCODE::NameError,
        Some(records) if records.len() > fit => answer.set_flags(PacketFlag::TRUNCATION),
        Some(records) => {
            for (host, port) in records {
                let srv = SRV { priority: 0, weight: 0, port: *port, target: Name::new_unchecked(host) };
                let name = query.questions[0].qname.clone();
                answer.answers.push(ResourceRecord::new(name, CLASS::IN, 1, RData::SRV(srv)));
            }
        }
    }
    answer.build_bytes_vec().unwrap()
}

fn names(node: &Larder) -> Vec<String> {
    let peers: serde_json::Value = serde_json::from_str(&node.get("/v1/peers")).unwrap();
    peers["peers"].as_array().unwrap().iter().map(|peer| peer["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn nodes_are_the_targets_of_srv_records_by_name_or_by_address() {
    let server = NameServer::start(&[("larder-0.peers.test", 81), ("larder-1.peers.test", 82)]);
    let dns = server.address.to_string();
    let options = ["--peers", &format!("dns+srv:_http._tcp.peers.test@{dns}"), "--peers-refresh", "100ms"];
    let node = Larder::with_http_on(0, &[&options[..], &["--peer-self", "larder-0.peers.test:81"]].concat());
    let two = ["larder-0.peers.test:81", "larder-1.peers.test:82"];
    let three = ["larder-0.peers.test:81", "larder-1.peers.test:82", "larder-2.peers.test:83"];
    assert_eq!(names(&node), two, "known before the first request");
    // More than fits a datagram.
    server.set(Some(&[("larder-1.peers.test", 82), ("larder-2.peers.test", 83), ("LARDER-0.peers.test", 81)]));
    wait_until("the third node to be found", || names(&node) == three);
    // Nothing shows that it has been looked up, so this waits for some look-ups.
    server.set(None);
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(names(&node), three, "without an answer all stay");
    server.set(Some(&[("larder-1.peers.test", 82)]));
    wait_until("two nodes to be left", || names(&node) == two);

    // A node that is named by its address looks the targets up.
    let port = Port::free();
    server.set(Some(&[("localhost", port.number), ("localhost", 83)]));
    let node = Larder::with_http_on(port.number, &options);
    let mut expected = [format!("127.0.0.1:{}", port.number), "127.0.0.1:83".to_owned()];
    expected.sort();
    wait_until("both to be found", || {
        let mut names = names(&node);
        names.sort();
        names == expected
    });
}
