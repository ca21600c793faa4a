//! Why the process did not start, or ended other than by draining.
use larder_config::Address;
use std::io;

/// Why the server did not start, or ended other than by draining.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An address could not be listened on.
    #[error("cannot listen on {address} (--{setting}): {error}{}", other_address(.error, .setting, .address))]
    Bind {
        /// The setting that names the address.
        setting: &'static str,
        address: Address,
        /// What the system said.
        error: io::Error,
    },
    /// A source could not be set up (as opposed to: is not reachable at the moment, which is waited
    /// for).
    #[error("cannot use the source of group `{group}`: {reason}")]
    Source {
        group: String,
        /// Why.
        reason: String,
    },
    #[error(
        "cannot restore the snapshot: {reason}; start without --restore{}",
        if *.is_damage { ", or load what is before the damage with --restore salvage" } else { "" }
    )]
    Snapshot {
        /// Which file, and why.
        reason: String,
        /// A part of it is damaged.
        is_damage: bool,
    },
    /// A file of the TLS settings cannot be used.
    #[error("{0}")]
    Tls(String),
    /// The users file cannot be used.
    #[error("{0}")]
    Users(String),
    /// A worker cannot be kept on a core.
    #[error("cannot keep threads on cores (pin): {0}")]
    Pin(io::Error),
    /// The other nodes cannot be looked for.
    #[error("cannot look for peers: {0}")]
    Discovery(String),
    /// The process should be a replica and cannot be one.
    #[error("cannot be a replica (setting `replica-of`): {0}")]
    Replica(&'static str),
    /// The system refused threads, signal handlers, polling.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
    /// The process may open too few files.
    #[error(
        "the limit on open files (ulimit -n) is {limit}; Larder needs at least {least}, and one for each connection"
    )]
    OpenFiles {
        /// The limit, raised as far as is allowed.
        limit: u64,
        /// The least that is of use.
        least: u64,
    },
    /// A worker ended on its own: a bug, and the process must not go on with a core missing.
    #[error("worker {0} ended unexpectedly")]
    WorkerLost(usize),
    /// The last snapshot could not be written.
    #[error("the snapshot at the end was not written: {0}; the last one is as it was")]
    LastSnapshot(String),
    /// A second signal arrived during the drain; exit with 128 plus its number.
    #[error("ended at once by a second signal ({0})")]
    SecondSignal(i32),
}

impl RunError {
    /// The exit code of a process that ends so: 1, or 128 and the signal's number as shells have
    /// it.
    pub fn exit_code(&self) -> u8 {
        match self {
            RunError::SecondSignal(number) => u8::try_from(*number).map_or(1, |number| number.saturating_add(128)),
            _ => 1,
        }
    }
}

/// What to do about an address that another process has, or that Larder may not have.
fn other_address(error: &io::Error, setting: &str, address: &Address) -> String {
    if let Some(path) = address.path() {
        return match error.kind() {
            io::ErrorKind::NotFound => format!("; create the folder of {}", path.display()),
            io::ErrorKind::PermissionDenied => "; this user may not create or change the file there".to_owned(),
            _ => String::new(),
        };
    }
    match error.kind() {
        io::ErrorKind::AddrInUse => format!("; choose another address with --{setting} ADDR, or --{setting} off"),
        io::ErrorKind::AddrNotAvailable => {
            format!("; this machine does not have the address: choose one of its own with --{setting} ADDR")
        }
        io::ErrorKind::PermissionDenied => {
            format!("; ports below 1024 need root or CAP_NET_BIND_SERVICE: choose a higher one with --{setting} ADDR")
        }
        _ => String::new(),
    }
}
