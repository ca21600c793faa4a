//! Ctrl-C ends a run early and keeps its result.
use anyhow::Context;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::{
    runtime::Builder,
    select,
    signal::unix::{SignalKind, signal},
};

/// One wish may arrive as two signals: timeout(1) sends its own to the process and to its group.
const ONE: Duration = Duration::from_millis(200);

/// Was the process asked to end, by SIGINT or SIGTERM?
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on the first signal only sets it. A later one ends the process at once.
    pub(crate) fn watch() -> anyhow::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let runtime = Builder::new_current_thread().enable_all().build().context("cannot wait for signals")?;
        let (mut int, mut term) = {
            let _inside = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        let set = interrupt.clone();
        thread::spawn(move || {
            let mut first = None;
            loop {
                let number = runtime.block_on(async {
                    select! {
                        _ = int.recv() => SignalKind::interrupt().as_raw_value(),
                        _ = term.recv() => SignalKind::terminate().as_raw_value(),
                    }
                });
                if first.get_or_insert_with(Instant::now).elapsed() > ONE {
                    std::process::exit(128 + number);
                }
                set.set();
            }
        });
        Ok(interrupt)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// As a signal does.
    pub(crate) fn set(&self) {
        self.0.store(true, Relaxed);
    }
}
