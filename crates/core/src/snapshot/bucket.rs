//! A snapshot in S3-like storage (`snapshot-file = "s3://bucket/key"`).
//!
//! A save uploads parts while it goes on and completes the upload at its end: until then the old
//! object is there, and after it the new one. A load first copies the object to a file without a
//! name, as it is read more than once.
use super::{bucket_credentials::credentials_of, bucket_http::Connector};
use larder_config::BucketSettings;
use object_store::{
    BackoffConfig, Error, MultipartUpload, ObjectStoreExt as _, PutPayload, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder},
    path::Path as ObjectPath,
};
use std::{
    fs::{self, File, OpenOptions},
    hash::{BuildHasher as _, RandomState},
    io::{self, Seek as _, Write},
    os::unix::fs::OpenOptionsExt as _,
    time::Duration,
};
use tokio::runtime::{Builder, Runtime};

/// Bytes of a part. A save holds one.
const PART: usize = 8 << 20;
/// Parts of an upload, at most (S3's limit is 10,000).
const MAX_PARTS: u64 = 9_000;
/// A request that failed is sent again for this long.
const RETRY: Duration = Duration::from_secs(20);

/// The storage, for one save or one load. Its calls block, so it belongs to a thread of its own.
pub(super) struct Bucket {
    runtime: Runtime,
    store: AmazonS3,
    key: ObjectPath,
    /// `s3://bucket/key`, for errors.
    name: String,
}

impl Bucket {
    /// Reads the credentials. Nothing is asked yet.
    ///
    /// # Errors
    /// A text that names the setting or the variable at fault.
    pub(super) fn open(settings: &BucketSettings) -> io::Result<Bucket> {
        let name = settings.to_string();
        let wrong = |error: String| io::Error::other(format!("{name}: {error}"));
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(&settings.bucket)
            .with_http_connector(Connector::new(settings.ca.as_deref()).map_err(wrong)?)
            .with_retry(RetryConfig { backoff: BackoffConfig::default(), max_retries: 10, retry_timeout: RETRY });
        if let Some(endpoint) = &settings.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(region) = &settings.region {
            builder = builder.with_region(region);
        }
        if let Some(file) = &settings.credentials {
            let credentials = credentials_of(file).map_err(wrong)?;
            builder = builder.with_access_key_id(credentials.id).with_secret_access_key(credentials.secret);
            if let Some(token) = credentials.token {
                builder = builder.with_token(token);
            }
        }
        let store = builder.build().map_err(|error| wrong(said(&error)))?;
        let key = ObjectPath::parse(&settings.key).map_err(|error| wrong(error.to_string()))?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Bucket { runtime, store, key, name })
    }

    fn failed(&self, error: &Error) -> io::Error {
        let text = said(error);
        let kind = match error {
            // Without the bucket, the snapshot is missing as well, but saying so would hide the mistake.
            Error::NotFound { .. } if !text.contains("NoSuchBucket") => io::ErrorKind::NotFound,
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, format!("{}: {text}", self.name))
    }

    /// The bytes of the object, if it is there.
    pub(super) fn len(&self) -> io::Result<Option<u64>> {
        match self.runtime.block_on(self.store.head(&self.key)) {
            Ok(object) => Ok(Some(object.size)),
            Err(error) => match self.failed(&error) {
                error if error.kind() == io::ErrorKind::NotFound => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Copies the object to a file in the directory for temporary files, under a name that no other
    /// program knows.
    pub(super) fn download(&self) -> io::Result<File> {
        let mut file = nameless_file()?;
        self.runtime.block_on(async {
            let got = self.store.get(&self.key).await.map_err(|error| self.failed(&error))?;
            let size = got.meta.size;
            let wrong = |what: String| Err(io::Error::other(format!("{}: {what}", self.name)));
            let room = room_for(&file)?;
            if size > room {
                let dir = std::env::temp_dir();
                return wrong(format!("the object has {size} bytes, {} (TMPDIR) has room for {room}", dir.display()));
            }
            let mut parts = got.into_stream();
            let mut came = 0;
            while let Some(part) = next(&mut parts).await {
                let part = part.map_err(|error| self.failed(&error))?;
                came += part.len() as u64;
                if came > size {
                    return wrong(format!("the storage sends more than the {size} bytes that it announced"));
                }
                file.write_all(&part)?;
            }
            if came < size {
                return wrong(format!("the storage has sent {came} of the {size} bytes that it announced"));
            }
            file.rewind()?;
            Ok(file)
        })
    }

    /// Begins an upload of about this many bytes, or fewer. Nothing of it is seen before it is
    /// completed.
    pub(super) fn upload(&self, about: u64) -> Upload<'_> {
        let part = PART.max(usize::try_from(about / MAX_PARTS).unwrap_or(PART));
        Upload { bucket: self, upload: None, part, buffer: Vec::new() }
    }

    /// Copies the object, if it is there, to one with this added to its name.
    pub(super) fn keep(&self, suffix: &str) -> io::Result<()> {
        let kept = ObjectPath::from(format!("{}{suffix}", self.key));
        match self.runtime.block_on(self.store.copy(&self.key, &kept)) {
            Ok(()) => Ok(()),
            Err(error) => match self.failed(&error) {
                error if error.kind() == io::ErrorKind::NotFound => Ok(()),
                error => Err(error),
            },
        }
    }
}

/// What `object_store` says, and what to do about it.
fn said(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    let hint = match error {
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            "; look at the rights of the credentials (credentials= of snapshot-file, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"
        }
        // The address where machines of Amazon's cloud find credentials.
        _ if text.contains("169.254.169.254") => {
            "; there are no credentials: set credentials= of snapshot-file, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        }
        _ if text.contains("NoSuchBucket") => "; there is no such bucket (snapshot-file)",
        // No answer, or not the whole of it.
        _ if text.contains("HTTP error") || text.contains("Connection refused") => {
            "; is the storage there (endpoint= of snapshot-file)?"
        }
        _ => "",
    };
    readable(text) + hint
}

/// A storage's error document, which is XML, as `code: message`.
fn readable(text: String) -> String {
    let inside = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0)
    };
    match (text.split_once("<"), inside("Code"), inside("Message"), text.rsplit_once(">")) {
        (Some((before, _)), Some(code), Some(message), Some((_, after))) => format!("{before}{code}: {message}{after}"),
        _ => text,
    }
}

async fn next<S: futures_core::Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    std::future::poll_fn(|cx| std::pin::Pin::new(&mut *stream).poll_next(cx)).await
}

/// A file that is gone when it is closed.
fn nameless_file() -> io::Result<File> {
    let random = RandomState::new().hash_one(0);
    let path = std::env::temp_dir().join(format!("larder-restore-{}-{random:x}", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
    let file = file.map_err(|error| io::Error::new(error.kind(), format!("{} (TMPDIR): {error}", path.display())))?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// Bytes that the file may take: the disk that it is on is not filled whole.
fn room_for(file: &File) -> io::Result<u64> {
    let disk = rustix::fs::fstatvfs(file)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    Ok(free - free / 10)
}

/// An upload under way. It is called off when it is dropped.
pub(super) struct Upload<'b> {
    bucket: &'b Bucket,
    /// None before the first part is full.
    upload: Option<Box<dyn MultipartUpload>>,
    part: usize,
    buffer: Vec<u8>,
}

impl Upload<'_> {
    /// Takes the place of the object. After an error that one is as before.
    pub(super) fn complete(mut self) -> io::Result<()> {
        let last = PutPayload::from(std::mem::take(&mut self.buffer));
        let bucket = self.bucket;
        let Some(upload) = &mut self.upload else {
            let put = bucket.runtime.block_on(bucket.store.put(&bucket.key, last));
            return put.map(drop).map_err(|error| bucket.failed(&error));
        };
        let completed = bucket.runtime.block_on(async {
            if last.content_length() > 0 {
                upload.put_part(last).await?;
            }
            upload.complete().await
        });
        completed.map_err(|error| bucket.failed(&error))?;
        self.upload = None;
        Ok(())
    }

    fn send_part(&mut self) -> io::Result<()> {
        let bucket = self.bucket;
        let part = PutPayload::from(std::mem::replace(&mut self.buffer, Vec::with_capacity(self.part)));
        let sent = bucket.runtime.block_on(async {
            let upload = match &mut self.upload {
                Some(upload) => upload,
                none => none.insert(bucket.store.put_multipart(&bucket.key).await?),
            };
            upload.put_part(part).await
        });
        sent.map_err(|error| bucket.failed(&error))
    }
}

impl Write for Upload<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.part - self.buffer.len();
        let taken = bytes.len().min(room);
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() == self.part {
            self.send_part()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Upload<'_> {
    fn drop(&mut self) {
        if let Some(mut upload) = self.upload.take() {
            // What the storage does not hear of, its rules for incomplete uploads remove.
            let _ = self.bucket.runtime.block_on(upload.abort());
        }
    }
}
