//! What the floors answer, to clients that look at it.
use super::*;
use crate::lib::blocking_clients::{HttpClient, RedisReply, RespClient};
use std::{io::Read, net::TcpStream, time::Duration};

const TIMEOUT: Duration = Duration::from_secs(10);

/// A floor in a thread of this process, which it ends with.
fn floor(serve: impl FnOnce(TcpListener) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || serve(listener));
    address
}

fn redis() -> SocketAddr {
    floor(|listener| {
        let reply = [b"$64\r\n", &FLOOR_VALUE[..], b"\r\n"].concat();
        Canned::new(&reply, Requests::OfBytes(GET_BYTES)).serve(&listener).expect("serves");
    })
}

#[test]
fn each_request_has_its_reply() {
    let mut client = RespClient::connect(redis(), TIMEOUT).expect("connect");
    for pipeline in [1, 16, 1000] {
        for number in 0..pipeline {
            client.queue(&[b"GET", format!("key:{number:012}").as_bytes()]);
        }
        client.flush().expect("send");
        for _ in 0..pipeline {
            assert_eq!(client.reply().expect("a reply"), RedisReply::Bulk(Some(FLOOR_VALUE.into())));
        }
    }
    // A part is not answered: 46 bytes have one reply, with 26 more there is another.
    for command in [&[&b"GET"[..], b"key:000000000042", b"more"][..], &[b"the rest of them"]] {
        client.queue(command);
        client.flush().expect("send");
        client.reply().expect("one reply");
    }
}

#[test]
fn requests_and_replies_in_pieces_are_whole_in_the_end() {
    let mut stream = TcpStream::connect(redis()).expect("connect");
    stream.set_read_timeout(Some(TIMEOUT)).expect("set");
    // More replies than sockets hold: the floor has to wait for its client, in the middle of a reply.
    const REQUESTS: usize = 300_000;
    let mut writer = stream.try_clone().expect("clone");
    std::thread::spawn(move || {
        let mut left = REQUESTS * GET_BYTES;
        while left > 0 {
            let piece = left.min(10_007);
            writer.write_all(&vec![b'x'; piece]).expect("send");
            left -= piece;
        }
    });
    // It is blocked by now, or will be: no client reads.
    std::thread::sleep(Duration::from_millis(50));
    let reply = [b"$64\r\n", &FLOOR_VALUE[..], b"\r\n"].concat();
    let mut read = vec![0; reply.len()];
    for number in 0..REQUESTS {
        stream.read_exact(&mut read).expect("a reply");
        assert!(read == reply, "reply {number}");
    }
}

#[test]
fn http_floors_answer() {
    let canned = floor(|listener| {
        let reply = [b"HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n", &FLOOR_VALUE[..]].concat();
        Canned::new(&reply, Requests::Reads).serve(&listener).expect("serves");
    });
    let hyper = floor(|listener| bare_hyper::serve(listener).expect("serves"));
    for address in [canned, hyper] {
        let mut client = HttpClient::connect(address, TIMEOUT).expect("connect");
        for _ in 0..3 {
            let answer = client.get("/v1/kv/key").expect("an answer");
            assert_eq!((answer.status, &answer.body[..]), (200, &FLOOR_VALUE[..]));
        }
    }
    // A request of the item API has its key in the body.
    let mut stream = TcpStream::connect(canned).expect("connect");
    stream.set_read_timeout(Some(TIMEOUT)).expect("set");
    stream.write_all(b"GET /item HTTP/1.1\r\nContent-Length: 11\r\n\r\n{\"key\":\"k\"}").expect("send");
    let mut status = [0; 15];
    stream.read_exact(&mut status).expect("a reply");
    assert_eq!(&status, b"HTTP/1.1 200 OK");
}

#[test]
fn a_proxy_gives_each_client_its_replies() {
    let server = redis();
    let proxy = floor(move |listener| Proxy::connect(server).expect("connects").serve(&listener).expect("serves"));
    let mut clients = [0; 3].map(|_| RespClient::connect(proxy, TIMEOUT).expect("connect"));
    for pipeline in [1, 16, 3000] {
        for (client, more) in clients.iter_mut().zip(0..) {
            for number in 0..pipeline + more {
                client.queue(&[b"GET", format!("key:{number:012}").as_bytes()]);
            }
            client.flush().expect("send");
        }
        for (client, more) in clients.iter_mut().zip(0..) {
            for _ in 0..pipeline + more {
                assert_eq!(client.reply().expect("a reply"), RedisReply::Bulk(Some(FLOOR_VALUE.into())));
            }
        }
    }
    // A client that leaves does not take the replies of others.
    let [mut leaving, mut staying, _] = clients;
    leaving.queue(&[b"GET", b"key:000000000042"]);
    leaving.flush().expect("send");
    drop(leaving);
    for _ in 0..2 {
        staying.queue(&[b"GET", b"key:000000000042"]);
        staying.flush().expect("send");
        assert_eq!(staying.reply().expect("a reply"), RedisReply::Bulk(Some(FLOOR_VALUE.into())));
    }
}
