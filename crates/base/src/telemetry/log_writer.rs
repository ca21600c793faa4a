//! Writes log lines by a thread of its own, so that a reader of the log that stops reading does not
//! stop the server.
//!
//! `tracing-appender` does nearly this. It prints to standard output when the last lines cannot be
//! written, which is not ours to use, and brings a calendar for files that rotate.
use parking_lot::{Condvar, Mutex};
use std::{
    io::{self, Write},
    mem,
    sync::Arc,
    thread,
    time::Duration,
};
use tracing_subscriber::fmt::MakeWriter;

/// Bytes of lines that wait at most.
const WAITING: usize = 1 << 20;
/// How long the end of the process waits for lines that are not written yet.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Where log lines wait for the thread that writes them.
#[derive(Debug, Clone)]
pub(super) struct LogWriter(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    lines: Mutex<Lines>,
    /// Lines came, or the thread is to end.
    came: Condvar,
    /// All lines are written.
    written: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    /// One after the other, each with its end of line.
    waiting: Vec<u8>,
    dropped: u64,
    is_writing: bool,
    is_over: bool,
}

/// Waits until the last lines are written when it is dropped, for a second at most.
#[derive(Debug)]
#[must_use = "without it the last lines are lost"]
pub struct LastLines(Arc<Shared>);

impl LogWriter {
    /// Starts the thread. It writes to `output`.
    ///
    /// # Errors
    /// The system refuses the thread.
    pub(super) fn start(output: impl Write + Send + 'static) -> io::Result<(LogWriter, LastLines)> {
        let shared = Arc::<Shared>::default();
        let of_thread = shared.clone();
        thread::Builder::new().name("log-writer".to_owned()).spawn(move || of_thread.write_to(output))?;
        Ok((LogWriter(shared.clone()), LastLines(shared)))
    }
    /// Lines that were dropped because too many waited.
    pub(super) fn dropped(&self) -> u64 {
        self.0.lines.lock().dropped
    }
}

impl Shared {
    fn write_to(&self, mut output: impl Write) {
        let mut taken = Vec::new();
        let mut lines = self.lines.lock();
        while !lines.is_over || !lines.waiting.is_empty() {
            if lines.waiting.is_empty() {
                self.came.wait(&mut lines);
                continue;
            }
            mem::swap(&mut taken, &mut lines.waiting);
            lines.is_writing = true;
            drop(lines);
            // There is no other place to report it to.
            let _ = output.write_all(&taken);
            taken.clear();
            lines = self.lines.lock();
            lines.is_writing = false;
            self.written.notify_all();
        }
    }
}

/// Takes one line in each write, as `tracing` writes them.
impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut lines = self.0.lines.lock();
        if lines.waiting.len() + line.len() > WAITING {
            lines.dropped += 1;
        } else {
            lines.waiting.extend_from_slice(line);
            self.0.came.notify_one();
        }
        Ok(line.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LogWriter {
    type Writer = LogWriter;
    fn make_writer(&self) -> LogWriter {
        self.clone()
    }
}

impl Drop for LastLines {
    fn drop(&mut self) {
        let mut lines = self.0.lines.lock();
        lines.is_over = true;
        self.0.came.notify_one();
        self.0.written.wait_while_for(&mut lines, |lines| lines.is_writing || !lines.waiting.is_empty(), LAST_WAIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Writes once for each permit.
    struct Slow(mpsc::Receiver<()>, mpsc::Sender<Vec<u8>>);
    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            let _ = self.1.send(bytes.to_vec());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_of_a_stuck_output_are_dropped_and_counted() {
        let (permit, permits) = mpsc::channel();
        let (write, written) = mpsc::channel();
        let (mut writer, last_lines) = LogWriter::start(Slow(permits, write)).unwrap();
        let line = [&[b'x'; 1023][..], b"\n"].concat();
        // The thread may have taken some of them before it is stuck.
        for _ in 0..3 * WAITING / line.len() {
            writer.write_all(&line).unwrap();
        }
        let dropped = writer.dropped();
        assert!(dropped >= (WAITING / line.len()) as u64, "{dropped}");
        drop(permit);
        drop(last_lines);
        let written: usize = written.try_iter().map(|bytes| bytes.len()).sum();
        assert_eq!(written + dropped as usize * line.len(), 3 * WAITING);
    }
}
