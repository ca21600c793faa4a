//! What the kernel says about this process.
use rustix::time::ClockId;
use std::{fs, time::Duration};

/// Numbers of `/proc/self`; zero where there is no `/proc`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProcessStats {
    /// Resident memory, bytes.
    pub resident_bytes: u64,
    /// Virtual memory, bytes.
    pub virtual_bytes: u64,
    /// CPU time in user mode, seconds.
    pub cpu_user: f64,
    /// CPU time in the kernel, seconds.
    pub cpu_system: f64,
    pub threads: u64,
    /// Open files, connections included.
    pub open_files: u64,
}

impl ProcessStats {
    /// Reads the numbers of this moment.
    pub fn read() -> ProcessStats {
        let mut process = read_stat();
        process.open_files = open_files();
        process
    }
}

/// CPU time of all threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// All of it, to the nanosecond.
    pub total: Duration,
    /// The part in user mode, to the tick of the kernel's clock.
    pub user: Duration,
    /// The part in the kernel, likewise.
    pub system: Duration,
}

impl CpuTime {
    /// What was used so far.
    pub fn now() -> CpuTime {
        let total = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
        let total = Duration::new(total.tv_sec.try_into().unwrap_or(0), total.tv_nsec.try_into().unwrap_or(0));
        let process = read_stat();
        let seconds = Duration::from_secs_f64;
        CpuTime { total, user: seconds(process.cpu_user), system: seconds(process.cpu_system) }
    }

    #[must_use]
    pub fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            total: self.total.saturating_sub(earlier.total),
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// All but the open files.
fn read_stat() -> ProcessStats {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    parse(&stat, ticks, rustix::param::page_size() as u64).unwrap_or_default()
}

/// Linux 6.2 and later tell the number as the size of the folder. Counting takes milliseconds with
/// thousands of connections.
fn open_files() -> u64 {
    let folder = "/proc/self/fd";
    match fs::metadata(folder).map_or(0, |folder| folder.len()) {
        0 => fs::read_dir(folder).map_or(0, |files| files.count() as u64),
        count => count,
    }
}

/// proc_pid_stat(5): the name (2) is in parentheses and may hold anything; then utime is 14, stime
/// 15, num_threads 20, vsize 23, rss 24.
fn parse(stat: &str, ticks: f64, page: u64) -> Option<ProcessStats> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(ProcessStats {
        cpu_user: field(14)? as f64 / ticks,
        cpu_system: field(15)? as f64 / ticks,
        threads: field(20)?,
        virtual_bytes: field(23)?,
        resident_bytes: field(24)? * page,
        open_files: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample() {
        let stat = "4711 (lar) der) S 1 4711 4711 0 -1 4194560 1000 0 0 0 250 125 0 0 20 0 3 0 100 8192000 500 18446744073709551615 1 1";
        assert_eq!(
            parse(stat, 100.0, 4096),
            Some(ProcessStats {
                resident_bytes: 500 * 4096,
                virtual_bytes: 8192000,
                cpu_user: 2.5,
                cpu_system: 1.25,
                threads: 3,
                open_files: 0
            })
        );
        assert_eq!(parse("", 100.0, 4096), None);
        assert_eq!(parse("1 (x) S 1", 100.0, 4096), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process() {
        let process = ProcessStats::read();
        assert!(process.resident_bytes > 1 << 20 && process.resident_bytes < process.virtual_bytes, "{process:?}");
        assert!(process.threads >= 1 && process.open_files >= 3, "{process:?}");
    }
}
