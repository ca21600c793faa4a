//! Settings of the process that change at run time, as requests read them. Each is one number,
//! which no other thread writes meanwhile.
use crate::special::Switch;
use larder_config::Settings;
use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

const OFF: u64 = u64::MAX;

/// Settings that change at run time. Times in milliseconds.
#[derive(Debug, Default)]
pub struct LiveSettings {
    /// 0: none.
    idle_timeout: AtomicU64,
    header_timeout: AtomicU64,
    grace: AtomicU64,
    /// A share, in millionths.
    access_log: AtomicU32,
    /// [`OFF`]: none.
    access_log_slower_than: AtomicU64,
    /// On while requests are logged.
    logs_requests: Switch,
}

impl LiveSettings {
    /// Those of `settings`. The switch is on while they have requests logged.
    pub fn new(settings: &Settings, logs_requests: Switch) -> LiveSettings {
        let live = LiveSettings { logs_requests, ..LiveSettings::default() };
        live.replace(settings);
        live
    }
    /// Those of `settings` from now on.
    pub fn replace(&self, settings: &Settings) {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.idle_timeout.store(settings.idle_timeout.map_or(0, millis), Relaxed);
        self.header_timeout.store(millis(settings.header_timeout), Relaxed);
        self.grace.store(millis(settings.grace), Relaxed);
        self.access_log.store(settings.access_log.unwrap_or(0), Relaxed);
        self.access_log_slower_than.store(settings.access_log_slower_than.map_or(OFF, millis), Relaxed);
        self.logs_requests.set(settings.access_log.is_some() || settings.access_log_slower_than.is_some());
    }
    /// After this time of silence a connection is closed.
    #[inline]
    pub fn idle_timeout(&self) -> Option<Duration> {
        Some(self.idle_timeout.load(Relaxed)).filter(|millis| *millis > 0).map(Duration::from_millis)
    }
    /// The time that a client has for the head of a request, and for each part of its body.
    #[inline]
    pub fn header_timeout(&self) -> Duration {
        Duration::from_millis(self.header_timeout.load(Relaxed))
    }
    /// The time that the end may take.
    pub fn grace(&self) -> Duration {
        Duration::from_millis(self.grace.load(Relaxed))
    }
    /// The share of requests that are logged, in millionths.
    #[inline]
    pub fn access_log(&self) -> u32 {
        self.access_log.load(Relaxed)
    }
    /// Requests that take this long are logged.
    #[inline]
    pub fn access_log_slower_than(&self) -> Option<Duration> {
        Some(self.access_log_slower_than.load(Relaxed)).filter(|millis| *millis != OFF).map(Duration::from_millis)
    }
}
