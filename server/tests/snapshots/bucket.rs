//! A snapshot in S3-like storage: moto, which `make tools` installs.
use super::*;
use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, ChildStdin, Stdio},
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
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.deps/python-s3/bin/python");
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
        use std::io::Write as _;
        writeln!(self.input).unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let mut words = line.split_whitespace();
        let uploads = words.next().unwrap().parse().unwrap();
        (uploads, words.map(str::to_owned).collect())
    }

    fn settings(&self) -> [String; 4] {
        [
            "--snapshot-file=s3://bucket/folder/snapshot".to_owned(),
            format!("--snapshot-s3-endpoint={}", self.url),
            format!("--snapshot-s3-credentials={}", self.credentials.display()),
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
fn errors_of_a_bucket_say_which_setting_is_wrong() {
    let storage = Storage::start();
    let settings = storage.settings();
    let with = |args: &[&str]| {
        let settings: Vec<&str> = settings[..2].iter().map(String::as_str).collect();
        refused(&[&settings[..], &["--restore"], args].concat())
    };
    let said = with(&["--snapshot-s3-credentials=/nowhere"]);
    assert!(said.contains("s3://bucket/folder/snapshot: snapshot-s3-credentials: /nowhere"), "{said}");
    let credentials = &settings[2];
    let said = with(&[credentials, "--snapshot-file=s3://other/snapshot"]);
    assert!(said.contains("no such bucket (snapshot-file)"), "{said}");
    let said = with(&[credentials, "--snapshot-s3-ca=/nowhere"]);
    assert!(said.contains("snapshot-s3-ca: ") && said.contains("/nowhere"), "{said}");
    let said = refused(&["--snapshot-file=s3://bucket"]);
    assert!(said.contains("snapshot-file: `s3://bucket` names no object: write s3://BUCKET/KEY"), "{said}");
    let said = refused(&["--snapshot-file=/tmp/file", credentials]);
    assert!(said.contains("snapshot-s3-credentials: has no meaning unless snapshot-file is s3://"), "{said}");
}
