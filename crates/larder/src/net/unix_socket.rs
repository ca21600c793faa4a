//! Listening on a Unix socket: the file of a process that ended is replaced, that of a running one
//! is not.
use super::listeners::BACKLOG;
use larder_config::{Address, UnixSocket};
use socket2::{Domain, SockAddr, Socket, Type};
use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown},
        net::UnixListener,
    },
    path::Path,
    sync::Arc,
};

/// The file of a listening socket. Removes it when dropped, unless another process has put its own
/// there.
#[derive(Debug)]
pub(super) struct SocketFile {
    /// Without mode and group.
    pub(super) address: Address,
    /// Device and inode.
    id: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let Some(path) = self.address.path() else { return };
        if file_id(path).is_ok_and(|id| id == self.id) {
            // A folder that is gone or read-only now: the next start replaces the file.
            let _ = fs::remove_file(path);
        }
    }
}

fn file_id(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| id_of(&file))
}

fn id_of(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Makes the socket, one process at a time: another one that starts now would take a socket that does
/// not listen yet for a stale one.
pub(super) fn listen(of: &UnixSocket) -> io::Result<(UnixListener, SocketFile)> {
    let mut name = of.path.clone().into_os_string();
    name.push(".lock");
    loop {
        let lock = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&name)?;
        lock.lock()?;
        // The process that had the lock has removed its file.
        if file_id(name.as_ref()).ok() != Some(id_of(&lock.metadata()?)) {
            continue;
        }
        let made = make(of);
        // If it stays, the next start locks it.
        let _ = fs::remove_file(&name);
        return made;
    }
}

/// Makes the socket. The mode and the group are set before it listens, so that no other user can
/// connect before that.
fn make(of: &UnixSocket) -> io::Result<(UnixListener, SocketFile)> {
    let path = &*of.path;
    let group = of.group.as_deref().map(group_id).transpose()?;
    let address = SockAddr::unix(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    match socket.bind(&address) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            remove_stale(path, &address)?;
            socket.bind(&address)?;
        }
        other => other?,
    }
    let bare = Address::Unix(Arc::new(of.clone())).without_options();
    let file = SocketFile { address: bare, id: file_id(path)? };
    if let Some(group) = group {
        chown(path, None, Some(group)).map_err(|error| with(&error, "cannot set the group of the socket"))?;
    }
    let mode = of.mode.unwrap_or(if group.is_some() { 0o660 } else { 0o600 });
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok((std::os::fd::OwnedFd::from(socket).into(), file))
}

/// Removes a socket on which no process listens.
fn remove_stale(path: &Path, address: &SockAddr) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(io::Error::other("the file exists and is not a socket; choose another path, or remove it"));
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A process that hangs with a full backlog lives: the attempt would wait for it.
    probe.set_nonblocking(true)?;
    let is_stale = probe.connect(address).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    match is_stale {
        true => fs::remove_file(path),
        false => Err(io::Error::other("another process listens on this socket")),
    }
}

/// The number of a group of this machine.
fn group_id(name: &str) -> io::Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let groups = fs::read_to_string("/etc/group").map_err(|error| with(&error, "cannot read /etc/group"))?;
    let found = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    found.ok_or_else(|| io::Error::other(format!("/etc/group has no group `{name}`; write its number")))
}

fn with(error: &io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::Barrier, thread};

    #[test]
    fn of_processes_that_start_at_once_on_a_stale_file_one_listens() {
        const STARTS: usize = 8;
        let dir = tempfile::tempdir().unwrap();
        let of = UnixSocket { path: dir.path().join("s"), mode: None, group: None };
        for _ in 0..100 {
            drop(UnixListener::bind(&of.path).unwrap());
            let (begin, end) = (Barrier::new(STARTS), Barrier::new(STARTS));
            let start = || {
                begin.wait();
                let made = listen(&of);
                end.wait();
                made.map(|(_, file)| assert_eq!(file_id(&of.path).unwrap(), file.id)).is_ok()
            };
            let listening = thread::scope(|scope| {
                let starts: Vec<_> = (0..STARTS).map(|_| scope.spawn(start)).collect();
                starts.into_iter().map(|start| usize::from(start.join().unwrap())).sum::<usize>()
            });
            assert_eq!(listening, 1);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "no file stays");
        }
    }
}
