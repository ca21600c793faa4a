//! Keys that are pressed while `larder top` runs.
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, read},
    termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr},
};
use std::{
    io::stdin,
    thread::sleep,
    time::{Duration, Instant},
};

/// What Ctrl-C sends while the terminal does not make a signal of it.
const CTRL_C: u8 = 3;

/// Standard input with each key at once, while this exists; if it is a terminal.
pub(super) struct TerminalKeys {
    /// As the terminal was; `None`: standard input is something else, and is not read.
    before: Option<Termios>,
}

impl TerminalKeys {
    pub(super) fn new() -> TerminalKeys {
        let before = tcgetattr(stdin()).ok().filter(|before| {
            let mut each = before.clone();
            // Without signals, because a process that a signal ends does not restore the terminal.
            each.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
            tcsetattr(stdin(), OptionalActions::Now, &each).is_ok()
        });
        TerminalKeys { before }
    }

    /// Waits for this long. True at once if the user wants to leave: q, or Ctrl-C.
    pub(super) fn wait(&self, pause: Duration) -> bool {
        if self.before.is_none() {
            sleep(pause);
            return false;
        }
        let until = Instant::now() + pause;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
            match poll(&mut [PollFd::new(&stdin(), PollFlags::IN)], Some(&left)) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(_) => return true,
            }
            let mut keys = [0; 64];
            // The terminal is gone at its end.
            match read(stdin(), &mut keys) {
                Ok(0) => return true,
                Ok(count) if keys[..count].iter().any(|key| matches!(key, b'q' | b'Q' | &CTRL_C)) => return true,
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }
}

impl Drop for TerminalKeys {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}
