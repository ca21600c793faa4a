//! A server as a child process: started, waited for, measured, stopped when dropped.
use super::port::Port;
use crate::lib::machine::{self, MeasuredProcess};
use anyhow::{Context, bail, ensure};
use std::{
    env,
    fs::{self, File},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How long one question to a starting server may take.
pub(super) const PROBE: Duration = Duration::from_secs(1);
/// How long a server may take to answer after its start, or to go after being asked to.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// How often it is asked meanwhile.
pub(super) const POLL: Duration = Duration::from_millis(5);

/// A running server.
pub(crate) struct ServerProcess {
    /// Its name in results.
    pub(crate) name: &'static str,
    /// Where it speaks its own protocol.
    pub(crate) address: SocketAddr,
    /// Where it speaks HTTP, if that is another address.
    pub(crate) http: Option<SocketAddr>,
    pub(super) child: Child,
    command: Command,
    core: Option<usize>,
    folder: TempDir,
    ending: Ending,
    _port: Port,
}

/// How a server ends with its handle, or with the program that started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Killed: it is one process.
    Killed,
    /// Asked to, since only it can end the processes that it has started.
    Asked,
}

impl ServerProcess {
    /// Starts `command` on `core`; its output goes to files in `folder`.
    pub(super) fn start(
        name: &'static str,
        folder: TempDir,
        core: Option<usize>,
        program: &Path,
        arguments: &[String],
        port: Port,
    ) -> anyhow::Result<ServerProcess> {
        ServerProcess::start_ending(Ending::Killed, name, folder, core, program, arguments, port)
    }

    /// The same, with a word on its end.
    pub(super) fn start_ending(
        ending: Ending,
        name: &'static str,
        folder: TempDir,
        core: Option<usize>,
        program: &Path,
        arguments: &[String],
        port: Port,
    ) -> anyhow::Result<ServerProcess> {
        let mut command = Command::new("setpriv");
        let signal = if ending == Ending::Asked { "TERM" } else { "KILL" };
        command.args(["--pdeathsig", signal, "--"]).arg(program).args(arguments);
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
        Ok(ServerProcess { name, address: port.address, http: None, child, command, core, folder, ending, _port: port })
    }

    /// Asks until `probe` finds the server ready; an early end or too long a silence is an error
    /// that shows what the server wrote.
    pub(super) fn wait_until<T>(&mut self, mut probe: impl FnMut(&Path) -> Option<T>) -> anyhow::Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = probe(self.folder.path()) {
                return Ok(found);
            }
            let ended = self.child.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let written: String = ["stdout", "stderr"]
                    .iter()
                    .filter_map(|file| fs::read_to_string(self.folder.path().join(file)).ok())
                    .collect();
                match ended {
                    Some(status) => {
                        bail!("{} ended at its start with {status}: {written}", self.name)
                    }
                    None => bail!("{} does not answer after {PATIENCE:?}: {written}", self.name),
                }
            }
            std::thread::sleep(POLL);
        }
    }

    /// The process, for its memory and CPU time.
    pub(crate) fn process(&self) -> MeasuredProcess {
        MeasuredProcess::Id(self.child.id())
    }

    /// Its memory: of it and of all processes that it has started, shared pages in parts.
    pub(crate) fn memory(&self) -> anyhow::Result<u64> {
        self.process().family().into_iter().map(MeasuredProcess::proportional_bytes).sum()
    }

    /// CPU time of it and of all processes that it has started.
    pub(crate) fn run_time(&self) -> anyhow::Result<Duration> {
        self.process().family().into_iter().map(MeasuredProcess::run_time).sum()
    }

    /// The command that it was started with.
    pub(crate) fn command_line(&self) -> String {
        let words = self.command.get_args().skip_while(|word| *word != "--").skip(1);
        words
            .map(|word| if word.is_empty() { "''".into() } else { word.to_string_lossy() })
            .collect::<Vec<_>>()
            .join(" ")
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

    /// Kills it (SIGKILL) and returns when it is gone.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
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
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
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
        if self.ending == Ending::Asked && self.terminate().is_ok() {
            return;
        }
        // Both fail only if the process is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
