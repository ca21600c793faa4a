//! Structured logs on standard error; their level changes at run time.
//!
//! A thread of its own writes them: a reader of standard error that stops reading must not stop the
//! server. Lines that it does not take in time are dropped and counted.
use super::log_writer::{LastLines, LogWriter};
use crate::special::Switch;
use larder_config::{LogFormat, LogLevel};
use std::{
    fmt, io,
    sync::atomic::{AtomicU8, Ordering::Relaxed},
};
use tracing::{Dispatch, level_filters::LevelFilter};
use tracing_subscriber::{
    Registry,
    fmt::{MakeWriter, layer},
    layer::SubscriberExt as _,
    reload,
};

/// The handle on the logs' level. The default one controls nothing but remembers the level it is
/// given.
#[derive(Default)]
pub struct Logs {
    filter: Option<reload::Handle<LevelFilter, Registry>>,
    /// Index into [`LogLevel::NAMES`].
    level: AtomicU8,
    /// On while each request is logged.
    logs_requests: Switch,
    /// Writes the lines to standard error.
    writer: Option<LogWriter>,
}

impl Logs {
    /// Sends the process's events and panics to standard error from now on. Call it once, from the
    /// command line: the destination of events is the one thing that `tracing` keeps per
    /// process.
    ///
    /// # Errors
    /// The system refuses the thread that writes the lines.
    pub fn start(format: LogFormat, level: LogLevel) -> io::Result<(Logs, LastLines)> {
        let (writer, last_lines) = LogWriter::start(io::stderr())?;
        let (dispatch, mut logs) = Logs::to(writer.clone(), format, level);
        logs.writer = Some(writer);
        if log::set_logger(&FromFjall).is_ok() {
            log::set_max_level(log::LevelFilter::Warn);
        }
        if tracing::dispatcher::set_global_default(dispatch).is_ok() {
            std::panic::set_hook(Box::new(|info| {
                // The message is for us: a client sees its connection end, nothing more.
                let place = info.location().map(|at| format!("{}:{}", at.file(), at.line()));
                let payload = info.payload();
                let text = payload.downcast_ref::<&str>().copied();
                let text = text.or(payload.downcast_ref::<String>().map(String::as_str));
                tracing::error!(panic = text, place, "panic");
            }));
        }
        Ok((logs, last_lines))
    }

    /// Builds logs that go anywhere.
    pub fn to<W>(writer: W, format: LogFormat, level: LogLevel) -> (Dispatch, Logs)
    where
        W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
    {
        let (filter, handle) = reload::Layer::new(filter(level));
        let registry = Registry::default().with(filter);
        let dispatch = match format {
            LogFormat::Text => Dispatch::new(registry.with(layer().with_writer(writer).with_ansi(false))),
            LogFormat::Json => {
                let json = layer().json().flatten_event(true).with_current_span(false).with_span_list(false);
                Dispatch::new(registry.with(json.with_writer(writer)))
            }
        };
        (dispatch, Logs { filter: Some(handle), level: AtomicU8::new(level as u8), ..Logs::default() })
    }

    pub fn level(&self) -> LogLevel {
        LogLevel::from_name(LogLevel::NAMES[usize::from(self.level.load(Relaxed))])
            .expect("only indexes of names are stored")
    }

    /// Lines that were dropped because standard error did not take them in time.
    pub fn dropped_lines(&self) -> u64 {
        self.writer.as_ref().map_or(0, LogWriter::dropped)
    }

    /// Whether each request is logged.
    #[inline]
    pub fn is_debug(&self) -> bool {
        self.level.load(Relaxed) >= LogLevel::Debug as u8
    }

    /// The switch is on while each request is logged.
    pub fn switch_with_level(&mut self, logs_requests: Switch) {
        logs_requests.set(self.is_debug());
        self.logs_requests = logs_requests;
    }

    /// Changes the level, for all threads and from the next event on.
    pub fn set_level(&self, level: LogLevel) {
        self.level.store(level as u8, Relaxed);
        self.logs_requests.set(self.is_debug());
        if let Some(handle) = &self.filter {
            // It fails only where the destination is gone, and then there is nothing to filter.
            let _ = handle.reload(filter(level));
        }
    }
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Logs").field(&self.level()).finish()
    }
}

/// Log lines of fjall's own threads when they fail: the reason is nowhere else.
struct FromFjall;
impl log::Log for FromFjall {
    fn enabled(&self, about: &log::Metadata<'_>) -> bool {
        about.target().starts_with("fjall") || about.target().starts_with("lsm_tree")
    }
    fn log(&self, record: &log::Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        match record.level() {
            log::Level::Error => tracing::error!("{}: {}", record.target(), record.args()),
            _ => tracing::warn!("{}: {}", record.target(), record.args()),
        }
    }
    fn flush(&self) {}
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);
    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    impl Sink {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
        }
    }
    fn logs(format: LogFormat, level: LogLevel) -> (Sink, Dispatch, Logs) {
        let sink = Sink::default();
        let writer = sink.clone();
        let (dispatch, logs) = Logs::to(move || writer.clone(), format, level);
        (sink, dispatch, logs)
    }

    #[test]
    fn json_is_one_object_per_line() {
        let (sink, dispatch, _logs) = logs(LogFormat::Json, LogLevel::Info);
        tracing::dispatcher::with_default(&dispatch, || {
            tracing::info!(address = "127.0.0.1:1", tries = 3, "a \"quoted\"\nmessage");
            tracing::debug!("not this");
        });
        let text = sink.take();
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["message"], "a \"quoted\"\nmessage");
        assert_eq!((&line["address"], &line["tries"]), (&"127.0.0.1:1".into(), &3.into()));
        let time = line["timestamp"].as_str().unwrap();
        assert!(time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
        assert!(line["target"].as_str().unwrap().starts_with("larder_base::"));
    }

    #[test]
    fn text_is_a_line_without_colours() {
        let (sink, dispatch, _logs) = logs(LogFormat::Text, LogLevel::Info);
        tracing::dispatcher::with_default(&dispatch, || tracing::warn!(tries = 3, "source lost"));
        let text = sink.take();
        assert!(text.contains(" WARN ") && text.ends_with("source lost tries=3\n"), "{text}");
        assert!(!text.contains('\x1b'), "{text}");
    }

    #[test]
    fn the_level_changes_at_run_time() {
        let (sink, dispatch, logs) = logs(LogFormat::Text, LogLevel::Warn);
        tracing::dispatcher::with_default(&dispatch, || {
            for (level, lines) in [
                (LogLevel::Debug, 3),
                (LogLevel::Off, 0),
                (LogLevel::Error, 1),
                (LogLevel::Info, 2),
                (LogLevel::Trace, 4),
            ] {
                logs.set_level(level);
                assert_eq!(logs.level(), level);
                tracing::error!("e");
                tracing::info!("i");
                tracing::debug!("d");
                tracing::trace!("t");
                assert_eq!(sink.take().lines().count(), lines, "{level:?}");
            }
        });
    }

    #[test]
    fn the_default_remembers_its_level() {
        let logs = Logs::default();
        assert_eq!(logs.level(), LogLevel::Off);
        logs.set_level(LogLevel::Debug);
        assert_eq!(logs.level(), LogLevel::Debug);
    }
}
