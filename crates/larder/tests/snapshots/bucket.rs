//! A snapshot in S3-like storage: moto, which `make tools` installs.
use super::*;
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, ChildStdin, Stdio},
    sync::{Arc, Mutex},
    thread::spawn,
};

/// Prints its port when it listens, and ends with its input.
const SERVER: &str = "
import boto3, logging, sys
from moto.server import ThreadedMotoServer
logging.getLogger('werkzeug').setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)
server.start()
url = 'http://%s:%s' % server.get_host_and_port()
keys = dict(aws_access_key_id='id', aws_secret_access_key='secret', region_name='us-east-1')
client = boto3.client('s3', endpoint_url=url, **keys)
client.create_bucket(Bucket='bucket')
print(url, flush=True)
for line in sys.stdin:
    objects = client.list_objects_v2(Bucket='bucket').get('Contents', [])
    uploads = client.list_multipart_uploads(Bucket='bucket').get('Uploads', [])
    print(len(uploads), *sorted('%s:%d' % (o['Key'], o['Size']) for o in objects), flush=True)
";

/// The storage, with an empty bucket.
struct Storage {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
    url: String,
    /// A key pair, for Larder.
    credentials: PathBuf,
    _dir: TempDir,
}

impl Storage {
    fn start() -> Storage {
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/python-s3/bin/python");
        assert!(python.exists(), "moto is missing: type `make tools`");
        let mut child = Command::new(python)
            .args(["-c", SERVER])
            .env_remove("AWS_PROFILE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut url = String::new();
        output.read_line(&mut url).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let credentials = dir.path().join("credentials");
        fs::write(&credentials, "[default]\naws_access_key_id = id\naws_secret_access_key = secret\n").unwrap();
        let input = child.stdin.take().unwrap();
        Storage { child, input, output, url: url.trim().to_owned(), credentials, _dir: dir }
    }

    /// The number of uploads that are not completed, and the objects as `KEY:BYTES`.
    fn holds(&mut self) -> (usize, Vec<String>) {
        writeln!(self.input).unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let mut words = line.split_whitespace();
        let uploads = words.next().unwrap().parse().unwrap();
        (uploads, words.map(str::to_owned).collect())
    }

    fn settings(&self) -> [String; 2] {
        self.settings_at(&self.url)
    }

    fn settings_at(&self, endpoint: &str) -> [String; 2] {
        let credentials = self.credentials.display();
        [
            format!("--snapshot-file=s3://bucket/folder/snapshot?endpoint={endpoint}&credentials={credentials}"),
            // More than one part.
            "--snapshot-compression=none".to_owned(),
        ]
    }

    fn larder(&self, args: &[&str]) -> Larder {
        let settings = self.settings();
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        Larder::start(&[&settings[..], args].concat())
    }

    fn restored(&self) -> Larder {
        let larder = self.larder(&["--restore"]);
        wait_until_loaded(&larder);
        larder
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        // Already dead is as good.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

#[test]
#[ignore = "make test-clients"]
fn a_snapshot_in_a_bucket_is_written_in_parts_and_restored() {
    let mut storage = Storage::start();
    // There is none yet.
    let larder = storage.restored();
    let mut client = larder.client();
    assert_eq!(ask(&mut client, "SET key small"), Reply::ok());
    assert_eq!(ask(&mut client, "SAVE"), Reply::ok());
    let (uploads, objects) = storage.holds();
    assert!(uploads == 0 && objects.len() == 1 && objects[0].starts_with("folder/snapshot:"), "{objects:?}");
    fill(&mut client, 3);
    terminate(larder);
    let (uploads, objects) = storage.holds();
    let bytes: usize = objects[0].split_once(':').unwrap().1.parse().unwrap();
    assert!(uploads == 0 && bytes > 9 << 20, "{objects:?}: one part and the begin of another");

    let larder = storage.restored();
    assert_eq!(rounds(&mut larder.client()), [3]);
    assert_eq!(ask(&mut larder.client(), "GET key"), Reply::bulk("small"));
    terminate(larder);
    // What is not loaded is kept.
    let larder = storage.larder(&[]);
    assert_eq!(ask(&mut larder.client(), "SAVE"), Reply::ok());
    assert_eq!(larder.metric("larder_snapshot_last_entries"), 0.0);
    let (_, objects) = storage.holds();
    assert_eq!(objects.len(), 2, "{objects:?}");
    assert!(objects.contains(&format!("folder/snapshot.old:{bytes}")), "{objects:?}");
}

#[test]
#[ignore = "make test-clients"]
fn a_kill_during_an_upload_leaves_the_old_object() {
    let mut storage = Storage::start();
    let larder = storage.larder(&[]);
    fill(&mut larder.client(), 0);
    let begun = Instant::now();
    assert_eq!(ask(&mut larder.client(), "SAVE"), Reply::ok());
    let whole = begun.elapsed();
    drop(larder);
    let (mut held, mut old) = (0, 0);
    for round in 1..=5 {
        let mut larder = storage.restored();
        let mut client = larder.client();
        // A request to complete the upload, sent before the kill, may have been carried out since.
        let now = rounds(&mut client);
        assert!(now == [held] || now == [round - 1], "{now:?}, not {held} or {}: the snapshot is whole", round - 1);
        held = now[0];
        fill(&mut client, round);
        assert!(matches!(ask(&mut client, "BGSAVE"), Reply::Simple(_)));
        std::thread::sleep(whole.mul_f64(0.2 + fastrand::f64()));
        larder.signal(Signal::KILL);
        larder.wait();
        let found = rounds(&mut storage.restored().client());
        assert!(found == [held] || found == [round], "{found:?}, not {held} or {round}");
        old += usize::from(found == [held]);
        held = found[0];
    }
    println!("{old} kills of 5 left the old object; uploads that were left: {}", storage.holds().0);
}

#[test]
#[ignore = "make test-clients"]
fn errors_of_a_bucket_say_which_setting_is_wrong() {
    let storage = Storage::start();
    let with = |object: &str| refused(&["--restore", &format!("--snapshot-file=s3://{object}")]);
    let (url, credentials) = (&storage.url, storage.credentials.display());
    let said = with(&format!("bucket/folder/snapshot?endpoint={url}&credentials=/nowhere"));
    assert!(said.contains("s3://bucket/folder/snapshot: snapshot-file: credentials=/nowhere"), "{said}");
    let said = with(&format!("other/snapshot?endpoint={url}&credentials={credentials}"));
    assert!(said.contains("no such bucket (snapshot-file)"), "{said}");
    assert!(said.contains("NoSuchBucket: The specified bucket does not exist; ") && !said.contains('<'), "{said}");
    // No server listens there.
    let said = with(&format!("bucket/folder/snapshot?endpoint=http://127.0.0.1:1&credentials={credentials}"));
    assert!(
        said.contains("Connection refused") && said.contains("; is the storage there (endpoint= of snapshot-file)?"),
        "{said}"
    );
    let said = with(&format!("bucket/folder/snapshot?endpoint={url}&credentials={credentials}&ca=/nowhere"));
    assert!(said.contains("snapshot-file: ca=: ") && said.contains("/nowhere"), "{said}");
    let said = refused(&["--snapshot-file=s3://bucket"]);
    assert!(said.contains("snapshot-file: `s3://bucket` names no object: write s3://BUCKET/KEY"), "{said}");
    let said = refused(&["--snapshot-file=s3://bucket/key?file=x"]);
    assert!(said.contains("snapshot-file: unknown parameter `file`: s3:// takes endpoint,"), "{said}");
}

/// What a proxy before the storage does with a request: passes it on (0), answers with this status,
/// or ends the connection (1).
type Verdict = Box<dyn FnMut(&str) -> u16 + Send>;

/// A proxy before the storage. Its address.
fn proxy(storage: &Storage, verdict: Arc<Mutex<Verdict>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, behind) = (listener.local_addr().unwrap(), storage.url.trim_start_matches("http://").to_owned());
    spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (verdict, behind) = (verdict.clone(), behind.clone());
            // The other side may be gone at any time.
            spawn(move || pass(stream, &behind, &verdict));
        }
    });
    format!("http://{address}")
}

/// One request of a connection; then it is closed.
fn pass(mut stream: TcpStream, behind: &str, verdict: &Mutex<Verdict>) -> std::io::Result<()> {
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
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    let request = head.lines().next().unwrap_or_default().to_owned();
    let verdict = (verdict.lock().unwrap())(&request);
    match verdict {
        0 => {
            let mut onward = TcpStream::connect(behind)?;
            let (first, rest) = head.split_once("\r\n").unwrap();
            onward.write_all(format!("{first}\r\nconnection: close\r\n{rest}").as_bytes())?;
            onward.write_all(&body)?;
            std::io::copy(&mut onward, &mut stream).map(drop)
        }
        1 => Ok(()),
        status => {
            let body = "<Error><Code>ByTheTest</Code><Message>not today</Message></Error>";
            let len = body.len();
            write!(stream, "HTTP/1.1 {status} x\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n{body}")
        }
    }
}

#[test]
#[ignore = "make test-clients"]
fn a_bucket_that_fails_costs_neither_the_old_object_nor_memory() {
    let mut storage = Storage::start();
    let verdict: Arc<Mutex<Verdict>> = Arc::new(Mutex::new(Box::new(|_| 0)));
    let settings = storage.settings_at(&proxy(&storage, verdict.clone()));
    let larder = Larder::start(&[&settings[0], &settings[1]]);
    let mut client = larder.client();
    assert_eq!(ask(&mut client, "SET key small"), Reply::ok());
    assert_eq!(ask(&mut client, "SAVE"), Reply::ok());
    let (_, old) = storage.holds();
    fill(&mut client, 1);
    let is_part = |request: &str| request.starts_with("PUT ") && request.contains("partNumber=");
    let is_begin = |request: &str| request.starts_with("POST ") && request.contains("?uploads");
    let is_end = |request: &str| request.starts_with("POST ") && request.contains("uploadId=");
    let mut after = Vec::new();
    let mut failing: Vec<(&str, Verdict)> = vec![
        ("no upload is begun", Box::new(move |request| if is_begin(request) { 403 } else { 0 })),
        ("no part is taken", Box::new(move |request| if is_part(request) { 403 } else { 0 })),
        (
            "the second part is not taken",
            Box::new(move |request| if is_part(request) && request.contains("partNumber=2") { 403 } else { 0 }),
        ),
        ("the upload is not completed", Box::new(move |request| if is_end(request) { 403 } else { 0 })),
    ];
    for _ in 0..5 {
        failing.push(("again", Box::new(move |request| if is_part(request) { 403 } else { 0 })));
        failing.push(("again", Box::new(move |request| if is_end(request) { 403 } else { 0 })));
    }
    for (what, with) in failing {
        *verdict.lock().unwrap() = with;
        let error = ask(&mut client, "SAVE");
        let error = error.error();
        assert!(error.contains("s3://bucket/folder/snapshot") && error.contains("not today"), "{what}: {error}");
        assert!(error.contains("credentials= of snapshot-file"), "{what}: {error}");
        assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "err");
        assert_eq!(storage.holds(), (0, old.clone()), "{what}: the old object stays, and the upload is called off");
        after.push(larder.anonymous());
    }
    // The allocator may keep what was under way at once, up to three parts of some 9 MiB. Five attempts
    // that each left a part behind would be 45 MiB.
    assert!(*after.last().unwrap() < after[0] + (36 << 20), "memory after each attempt: {after:?}");
    // What fails once is tried again.
    let mut failures = vec![500, 1, 503, 1];
    *verdict.lock().unwrap() = Box::new(move |request| if is_begin(request) { 0 } else { failures.pop().unwrap_or(0) });
    assert_eq!(ask(&mut client, "SAVE"), Reply::ok());
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "ok");
    let (uploads, new) = storage.holds();
    assert!(uploads == 0 && new.len() == 1 && new != old, "{uploads} {new:?}");
    // The storage stays out of order for longer than it is tried.
    *verdict.lock().unwrap() = Box::new(|_| 503);
    let begun = Instant::now();
    let error = ask(&mut client, "SAVE");
    assert!(error.error().contains("s3://bucket/folder/snapshot") && error.error().contains("503"), "{error:?}");
    println!("503 to all: given up after {:.1?}", begun.elapsed());
    *verdict.lock().unwrap() = Box::new(|_| 0);
    assert_eq!(storage.holds().1, new);
    assert_eq!(ask(&mut client, "GET key"), Reply::bulk("small"), "it serves");
}
