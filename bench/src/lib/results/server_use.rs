//! The loaded server's use of its cores during a load, and what it says of its version.
use crate::lib::{
    blocking_clients::{HttpClient, RedisReply, RespClient},
    load::target::{TargetProtocol, TargetUrl},
    machine::MeasuredProcess,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// What a server used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServerUse {
    /// CPU time of its threads.
    pub(crate) cpu_s: f64,
    /// Like `cpu_s`, for each answered request, µs.
    pub(crate) cpu_us_per_request: f64,
    /// Share of the time that its busiest thread ran or waited for a core.
    pub(crate) busy: f64,
}

impl ServerUse {
    /// From this share on, the busiest thread has no time left.
    pub(crate) const BUSY: f64 = 0.95;
}

/// Watches a server process from the first request of a load to the last reply.
pub(crate) struct ServerWatch {
    process: MeasuredProcess,
    begun: Instant,
    before: BTreeMap<u32, [Duration; 2]>,
}

impl ServerWatch {
    /// Begins now, with the process and all that it has started.
    pub(crate) fn begin(pid: u32) -> anyhow::Result<ServerWatch> {
        let process = MeasuredProcess::Id(pid);
        Ok(ServerWatch { process, before: process.thread_times_of_family()?, begun: Instant::now() })
    }

    /// What was used until now, for so many requests.
    pub(crate) fn end(&self, requests: u64) -> anyhow::Result<ServerUse> {
        let passed = self.begun.elapsed().as_secs_f64();
        let (mut cpu, mut busiest) = (Duration::ZERO, 0.0f64);
        for (id, [run, wait]) in self.process.thread_times_of_family()? {
            let [run_before, wait_before] = self.before.get(&id).copied().unwrap_or_default();
            let ran = run.saturating_sub(run_before);
            cpu += ran;
            busiest = busiest.max((ran + wait.saturating_sub(wait_before)).as_secs_f64() / passed);
        }
        let rounded = |value: f64| (value * 1e3).round() / 1e3;
        Ok(ServerUse {
            cpu_s: rounded(cpu.as_secs_f64()),
            cpu_us_per_request: rounded(cpu.as_secs_f64() * 1e6 / requests.max(1) as f64),
            busy: rounded(busiest.min(1.0)),
        })
    }
}

/// Name and version of a server, as it says itself; absent if it does not say. It is asked over a
/// connection of its own.
pub(crate) fn version(target: &TargetUrl) -> Option<String> {
    const PATIENCE: Duration = Duration::from_secs(1);
    match target.protocol {
        TargetProtocol::Redis => {
            let mut client = RespClient::connect(target.address, PATIENCE).ok()?;
            if let Some((user, password)) = &target.login {
                let user = if user.is_empty() { "default" } else { user };
                client.call(&[b"AUTH", user.as_bytes(), password.as_bytes()]).ok()?;
            }
            let RedisReply::Bulk(Some(info)) = client.call(&[b"INFO", b"server"]).ok()? else { return None };
            let info = String::from_utf8_lossy(&info).into_owned();
            let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            // Servers that answer like Redis also say which Redis they are like.
            let names =
                [("larder", "larder_version"), ("dragonfly", "dragonfly_version"), ("valkey", "valkey_version")];
            let named = names.iter().find_map(|(name, key)| Some((*name, field(key)?)));
            let (name, version) = named.or(Some(("redis-server", field("redis_version")?)))?;
            Some(format!("{name} {}", version.trim()))
        }
        TargetProtocol::Http => {
            let answer = HttpClient::connect(target.address, PATIENCE).ok()?.get("/v1/stats").ok()?;
            let stats: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let version = stats["build_info"]["version"].as_str().map(|version| format!("larder {version}"));
            version.or(answer.server)
        }
        TargetProtocol::Memcache => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_process_is_seen() {
        let watch = ServerWatch::begin(std::process::id()).expect("this process");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(50) {}
        let used = watch.end(1000).expect("this process");
        assert!(used.cpu_s > 0.0 && used.cpu_us_per_request > 0.0, "{used:?}");
        // It ran, or it waited for a core.
        assert!(used.busy > 0.5 && used.busy <= 1.0, "{used:?}");
        assert!(ServerWatch::begin(u32::MAX).is_err());
    }
}
