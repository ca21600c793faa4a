//! A server as a child process: started, waited for, measured, stopped when dropped.
use crate::lib::machine::{self, MeasuredProcess};
use anyhow::{Context, bail, ensure};
use rustix::{
    io::Errno,
    net,
    process::{Pid, Signal, kill_process},
};
use std::{
    env,
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr},
    os::fd::OwnedFd,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How long a server may take to answer after its start, or to go after being asked to.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is asked meanwhile.
pub(super) const POLL: Duration = Duration::from_millis(5);

/// Where a server is to listen.
pub(crate) struct Port {
    pub(crate) address: SocketAddr,
    _bound: Option<OwnedFd>,
}

impl Port {
    /// For a server that chooses one itself.
    pub(super) fn unknown() -> Port {
        Port { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), _bound: None }
    }

    /// A certain port; an error if another process listens on it.
    ///
    /// No other server is given it while this value lives: it is bound here without being listened
    /// on. Who names it and says SO_REUSEADDR, as servers do, can listen on it all the same (ip(7),
    /// socket(7)).
    pub(crate) fn fixed(number: u16) -> anyhow::Result<Port> {
        let bound = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None)?;
        net::sockopt::set_socket_reuseaddr(&bound, true)?;
        net::bind(&bound, &SocketAddr::from((Ipv4Addr::LOCALHOST, number))).context("cannot bind a port")?;
        Ok(Port { address: net::getsockname(&bound)?.try_into()?, _bound: Some(bound) })
    }
}

/// A port for servers that cannot choose one themselves and say which.
pub(crate) fn free_port() -> anyhow::Result<Port> {
    Port::fixed(0)
}

/// A running server.
pub(crate) struct ServerProcess {
    /// Its name in results.
    pub(crate) name: &'static str,
    /// Where it speaks its own protocol.
    pub(crate) address: SocketAddr,
    /// Where it speaks HTTP.
    pub(crate) http: Option<SocketAddr>,
    /// Where it speaks memcached's protocol besides its own.
    pub(crate) memcached: Option<SocketAddr>,
    child: Child,
    command: Command,
    core: Option<usize>,
    folder: TempDir,
    /// It is asked to end (SIGTERM) instead of being killed.
    asked: bool,
    _port: Port,
}

impl ServerProcess {
    /// Starts a program on `core`; its output goes to files in `folder`.
    pub(super) fn start(
        name: &'static str,
        asked: bool,
        folder: TempDir,
        core: Option<usize>,
        program: &Path,
        arguments: &[String],
        port: Port,
    ) -> anyhow::Result<ServerProcess> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", if asked { "TERM" } else { "KILL" }, "--"]).arg(program).args(arguments);
        command.current_dir(folder.path()).stdin(Stdio::null());
        // The environment's settings of Larder are not those of the measurement; names that it does not
        // know would end it.
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LARDER_")) {
            command.env_remove(name);
        }
        command.stdout(File::create(folder.path().join("stdout"))?);
        command.stderr(File::create(folder.path().join("stderr"))?);
        let child =
            machine::spawn_on(core, &mut command).with_context(|| format!("cannot start {}", program.display()))?;
        let address = port.address;
        Ok(ServerProcess {
            name,
            address,
            http: None,
            memcached: None,
            child,
            command,
            core,
            folder,
            asked,
            _port: port,
        })
    }

    /// Asks until `probe` finds the server ready; an early end or too long a silence is an error
    /// that shows what the server wrote.
    pub(super) fn wait_until(&mut self, mut probe: impl FnMut(&Path) -> Option<()>) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while probe(self.folder.path()).is_none() {
            let ended = self.child.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let written = ["stdout", "stderr"].map(|file| self.file(file).unwrap_or_default()).concat();
                match ended {
                    Some(status) => bail!("{} ended at its start with {status}: {written}", self.name),
                    None => bail!("{} does not answer after {PATIENCE:?}: {written}", self.name),
                }
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// The process, for its memory and CPU time.
    pub(crate) fn process(&self) -> MeasuredProcess {
        MeasuredProcess::Id(self.child.id())
    }

    /// Its memory: of it and of all processes that it has started, shared pages in parts.
    pub(crate) fn memory(&self) -> anyhow::Result<u64> {
        self.process().family().into_iter().map(MeasuredProcess::proportional_bytes).sum()
    }

    /// The command that it was started with.
    pub(crate) fn command_line(&self) -> String {
        let words = self.command.get_args().skip_while(|word| *word != "--").skip(1);
        let words = words.map(|word| if word.is_empty() { "''".into() } else { word.to_string_lossy() });
        words.collect::<Vec<_>>().join(" ")
    }

    /// The text of one of its files.
    pub(crate) fn file(&self, name: &str) -> anyhow::Result<String> {
        let path = self.folder.path().join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it and all processes that it has started (SIGKILL), and returns when it is gone. Left
    /// alone, the children of a PostgreSQL answer for a moment longer, and keep its folder.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::KILL)?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends a signal to it and to all processes that it has started.
    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        for process in self.process().family() {
            let MeasuredProcess::Id(id) = process else { continue };
            let id = Pid::from_raw(i32::try_from(id)?).context("a process has an id")?;
            match kill_process(id, signal) {
                // It has ended meanwhile.
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Starts it once more as it was started, in the same folder and on the same port.
    pub(super) fn start_again(&mut self) -> anyhow::Result<()> {
        self.child = machine::spawn_on(self.core, &mut self.command)
            .with_context(|| format!("cannot start {} again", self.name))?;
        Ok(())
    }

    /// Has it ended by itself?
    pub(crate) fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Asks it to end (SIGTERM) and waits until it has.
    pub(crate) fn terminate(&mut self) -> anyhow::Result<ExitStatus> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            ensure!(Instant::now() < deadline, "{} is still there {PATIENCE:?} after SIGTERM", self.name);
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if self.asked && self.terminate().is_ok() {
            return;
        }
        // Both fail only if the process is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
