//! A storage that lies: what it says of an object, of an upload and of an error is bounded, checked, or
//! an error that names the object. It leads to no other host.
use super::*;
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread::spawn,
};

/// What the storage does with a request; false: it answers as it should.
type Lie = fn(&str, &mut TcpStream, &Storage) -> bool;

/// A storage without objects that takes all uploads, and its lie.
struct Storage {
    port: u16,
    lie: Mutex<Lie>,
    /// Connections to another host, at which the storage points.
    elsewhere: u16,
    led: AtomicUsize,
}

impl Storage {
    fn start() -> Arc<Storage> {
        let (here, there) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let storage = Arc::new(Storage {
            port: here.local_addr().unwrap().port(),
            lie: Mutex::new(|_, _, _| false),
            elsewhere: there.local_addr().unwrap().port(),
            led: AtomicUsize::new(0),
        });
        let all = storage.clone();
        spawn(move || {
            for stream in here.incoming().map_while(Result::ok) {
                let storage = all.clone();
                // The other side may be gone at any time.
                spawn(move || storage.answer(stream));
            }
        });
        let led = storage.clone();
        spawn(move || {
            for _stream in there.incoming().map_while(Result::ok) {
                led.led.fetch_add(1, Relaxed);
            }
        });
        storage
    }

    fn settings(&self, dir: &TempDir) -> [String; 2] {
        let credentials = dir.path().join(format!("credentials-{}", self.port));
        fs::write(&credentials, "[default]\naws_access_key_id = id\naws_secret_access_key = secret\n").unwrap();
        [
            format!(
                "--snapshot-file=s3://bucket/folder/snapshot?endpoint=http://127.0.0.1:{}&credentials={}",
                self.port,
                credentials.display()
            ),
            "--snapshot-compression=none".to_owned(),
        ]
    }

    /// One request; then the connection is closed.
    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut input = BufReader::new(stream.try_clone()?);
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let begin = head.len();
            if input.read_line(&mut head)? == 0 {
                return Ok(());
            }
            match head[begin..].trim_end().to_ascii_lowercase() {
                line if line.is_empty() => break,
                line => length = line.strip_prefix("content-length: ").map_or(length, |length| length.parse().unwrap()),
            }
        }
        std::io::copy(&mut input.by_ref().take(length), &mut std::io::sink())?;
        let lie = *self.lie.lock().unwrap();
        if lie(&head, &mut stream, self) {
            return Ok(());
        }
        let tag = "etag: \"e\"\r\n";
        match head.split(' ').next().unwrap() {
            _ if head.contains("x-amz-copy-source") => {
                said(&mut stream, 404, "", "<Error><Code>NoSuchKey</Code></Error>")
            }
            "GET" | "HEAD" => said(&mut stream, 404, "", ""),
            "POST" if head.contains("uploadId=") => said(&mut stream, 200, tag, COMPLETED),
            "POST" => said(&mut stream, 200, "", BEGUN),
            "PUT" => said(&mut stream, 200, tag, ""),
            _ => said(&mut stream, 204, "", ""),
        };
        Ok(())
    }
}

const BEGUN: &str = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
const COMPLETED: &str = "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>";
const FAILED: &str = "<Error><Code>AccessDenied</Code><Message>not today</Message></Error>";
const MODIFIED: &str = "last-modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n";

fn said(stream: &mut TcpStream, status: u16, fields: &str, body: &str) -> bool {
    let head = format!("HTTP/1.1 {status} x\r\n{fields}content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
    true
}
/// A head and the start of a body, which has no end: as long as it is read, up to 4 GiB.
fn endless(stream: &mut TcpStream, answer: &str) -> bool {
    let (head, begin) = answer.split_once("\r\n\r\n").map_or((answer, None), |(head, begin)| (head, Some(begin)));
    let part = |content: &str| match head.contains("chunked") {
        true => format!("{:x}\r\n{content}\r\n", content.len()),
        false => content.to_owned(),
    };
    let mut bytes = head.to_owned();
    if let Some(begin) = begin {
        bytes += "\r\n\r\n";
        bytes += &if begin.is_empty() { String::new() } else { part(begin) };
    }
    let _ = stream.write_all(bytes.as_bytes());
    let part = part(&" ".repeat(1 << 16));
    for _ in 0..1 << 16 {
        if stream.write_all(part.as_bytes()).is_err() {
            break;
        }
    }
    true
}
fn redirected(stream: &mut TcpStream, storage: &Storage, status: u16) -> bool {
    said(stream, status, &format!("location: http://127.0.0.1:{}/bucket/folder/snapshot\r\n", storage.elsewhere), "")
}

fn is_get(head: &str) -> bool {
    head.starts_with("GET ")
}
fn is_begin(head: &str) -> bool {
    head.starts_with("POST ") && !head.contains("uploadId=")
}
fn is_part(head: &str) -> bool {
    head.starts_with("PUT ") && head.contains("partNumber=")
}
fn is_end(head: &str) -> bool {
    head.starts_with("POST ") && head.contains("uploadId=")
}

#[test]
fn a_restore_from_a_storage_that_lies_ends_with_an_error() {
    let lies: [(&str, Lie, &str); 11] = [
        (
            "an object of 2^60 bytes",
            |head, stream, _| {
                is_get(head)
                    && endless(stream, &format!("HTTP/1.1 200 x\r\n{MODIFIED}content-length: {}\r\n\r\n", 1u64 << 60))
            },
            "the object has 1152921504606846976 bytes",
        ),
        (
            "more than was announced",
            |head, stream, _| {
                is_get(head)
                    && endless(
                        stream,
                        &format!(
                            "HTTP/1.1 200 x\r\n{MODIFIED}content-length: 100\r\ntransfer-encoding: chunked\r\n\r\n"
                        ),
                    )
            },
            "sends more than the 100 bytes",
        ),
        (
            "no length",
            |head, stream, _| {
                is_get(head)
                    && endless(stream, &format!("HTTP/1.1 200 x\r\n{MODIFIED}transfer-encoding: chunked\r\n\r\n"))
            },
            "Content-Length",
        ),
        (
            "a length that is no number",
            |head, stream, _| is_get(head) && said(stream, 200, &format!("{MODIFIED}content-length: -1\r\n"), ""),
            "s3://bucket/folder/snapshot",
        ),
        (
            "less than was announced",
            |head, stream, _| {
                is_get(head) && {
                    let _ = stream
                        .write_all(format!("HTTP/1.1 200 x\r\n{MODIFIED}content-length: 100\r\n\r\nless").as_bytes());
                    true
                }
            },
            "s3://bucket/folder/snapshot",
        ),
        (
            "an error with the status of an object",
            |head, stream, _| is_get(head) && said(stream, 200, MODIFIED, FAILED),
            "s3://bucket/folder/snapshot",
        ),
        (
            "a part that was not asked for",
            |head, stream, _| {
                is_get(head) && said(stream, 206, &format!("{MODIFIED}content-range: bytes 5-9/1000\r\n"), "12345")
            },
            "s3://bucket/folder/snapshot",
        ),
        (
            "moved",
            |head, stream, storage| is_get(head) && redirected(stream, storage, 301),
            "s3://bucket/folder/snapshot",
        ),
        (
            "moved for now",
            |head, stream, storage| is_get(head) && redirected(stream, storage, 307),
            "s3://bucket/folder/snapshot",
        ),
        (
            "an endless error",
            |head, stream, _| {
                is_get(head) && endless(stream, "HTTP/1.1 403 x\r\ntransfer-encoding: chunked\r\n\r\n<Error>")
            },
            "more than 1048576 bytes",
        ),
        (
            "an endless head",
            |head, stream, _| is_get(head) && endless(stream, "HTTP/1.1 200 x\r\nx: "),
            "s3://bucket/folder/snapshot",
        ),
    ];
    let dir = tempfile::tempdir().unwrap();
    // Each has 20 s, in which some of them are tried again.
    std::thread::scope(|scope| {
        for (what, lie, expected) in lies {
            let storage = Storage::start();
            *storage.lie.lock().unwrap() = lie;
            let settings = storage.settings(&dir);
            scope.spawn(move || {
                // No more memory than that.
                let said = refused_within(512 << 20, &settings.each_ref().map(String::as_str));
                assert!(said.contains("s3://bucket/folder/snapshot") && said.contains(expected), "{what}: {said}");
                assert_eq!(storage.led.load(Relaxed), 0, "{what}: another host is asked");
            });
        }
    });
}

/// What Larder says that cannot restore with this much memory to allocate.
fn refused_within(bytes: u64, args: &[&str]) -> String {
    let output = Command::new("prlimit")
        .arg(format!("--data={bytes}"))
        .arg(binary())
        .args([
            "serve",
            "--http=127.0.0.1:0",
            "--redis=off",
            "--admin=off",
            "--restore",
            "--max-memory=32MiB",
            "--threads=1",
        ])
        .args(args)
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "it starts: {said}");
    assert!(!said.contains("panicked") && !said.contains("memory allocation"), "{said}");
    said
}

#[test]
fn an_upload_to_a_storage_that_lies_is_no_snapshot() {
    let lies: [(&str, Lie); 9] = [
        ("an upload without a number", |head, stream, _| {
            is_begin(head) && said(stream, 200, "", "<InitiateMultipartUploadResult/>")
        }),
        ("an error with the status of a begun upload", |head, stream, _| {
            is_begin(head) && said(stream, 200, "", FAILED)
        }),
        ("an endless begun upload", |head, stream, _| {
            is_begin(head)
                && endless(
                    stream,
                    "HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n<InitiateMultipartUploadResult>",
                )
        }),
        ("a part without an ETag", |head, stream, _| is_part(head) && said(stream, 200, "", "")),
        ("parts are moved", |head, stream, storage| is_part(head) && redirected(stream, storage, 307)),
        ("an endless error", |head, stream, _| {
            is_part(head) && endless(stream, "HTTP/1.1 403 x\r\ntransfer-encoding: chunked\r\n\r\n<Error>")
        }),
        ("an error with the status of a completed upload", |head, stream, _| {
            is_end(head) && said(stream, 200, "", FAILED)
        }),
        ("an endless completed upload", |head, stream, _| {
            is_end(head)
                && endless(
                    stream,
                    "HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n<CompleteMultipartUploadResult>",
                )
        }),
        ("a completed upload that is nothing", |head, stream, _| is_end(head) && said(stream, 200, "", "")),
    ];
    let dir = tempfile::tempdir().unwrap();
    let storage = Storage::start();
    let settings = storage.settings(&dir);
    let larder = Larder::start(&settings.each_ref().map(String::as_str));
    let mut client = larder.client();
    fill(&mut client, 1);
    assert_eq!(ask(&mut client, "SAVE"), Reply::ok());
    let before = larder.peak();
    for (what, lie) in lies {
        *storage.lie.lock().unwrap() = lie;
        let error = ask(&mut client, "SAVE");
        assert!(error.error().contains("s3://bucket/folder/snapshot"), "{what}: {error:?}");
        assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "err", "{what}");
        let grown = larder.peak() - before;
        assert!(grown < 64 << 20, "{what}: {grown} bytes more");
    }
    assert_eq!(storage.led.load(Relaxed), 0, "another host is asked");
    *storage.lie.lock().unwrap() = |_, _, _| false;
    assert_eq!(ask(&mut client, "SAVE"), Reply::ok());
}
