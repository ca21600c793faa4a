//! What the machine gives this process: memory (with its cgroup's limits), cores, IPv6.
use std::{fs, path::Path};

/// Facts that defaults depend on; made up in tests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Bytes that the process may use: the machine's memory or the smallest limit of its control
    /// groups.
    pub memory: u64,
    /// Cores that the process may use (affinity and cgroup quota respected).
    pub cores: usize,
    /// Can it listen on `[::]`?
    pub ipv6: bool,
}

/// Taken where the system does not say how much memory there is.
const UNKNOWN_MEMORY: u64 = 1 << 30;

impl Machine {
    /// Asks this machine.
    pub fn detect() -> Machine {
        Machine {
            memory: memory(Path::new("/")).unwrap_or(UNKNOWN_MEMORY),
            cores: std::thread::available_parallelism().map_or(1, |n| n.get()),
            ipv6: Path::new("/proc/net/if_inet6").exists(),
        }
    }
}

/// The least of the physical memory and of every limit on the way from the process's control group
/// up to the root, under cgroup version 2 (`memory.max`, `memory.high`) and version 1
/// (`memory.limit_in_bytes`).
///
/// In a container the path in `/proc/self/cgroup` may be the host's while the files are mounted at
/// the root: groups that are missing are ignored and the root is read last, which finds the
/// container's own limit in both cases.
fn memory(root: &Path) -> Option<u64> {
    let physical = fs::read_to_string(root.join("proc/meminfo")).ok().and_then(|text| mem_total(&text));
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(|line| {
        // hierarchy-ID:controller-list:path (cgroups(7)); an empty list is version 2.
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or(""), parts.next().unwrap_or("/"));
        let (mounts, files): (&[&str], &[&str]) = if controllers.is_empty() {
            (&["sys/fs/cgroup", "sys/fs/cgroup/unified"], &["memory.max", "memory.high"])
        } else if controllers.split(',').any(|name| name == "memory") {
            (&["sys/fs/cgroup/memory"], &["memory.limit_in_bytes"])
        } else {
            (&[], &[])
        };
        let path = Path::new(path.trim_start_matches('/'));
        let mut limits = Vec::new();
        for mount in mounts {
            for group in path.ancestors() {
                limits.extend(files.iter().filter_map(|file| {
                    let text = fs::read_to_string(root.join(mount).join(group).join(file)).ok()?;
                    text.trim().parse::<u64>().ok() // `max` is not a number: no limit
                }));
            }
        }
        limits
    });
    physical.into_iter().chain(limits).min()
}

/// `MemTotal:       24683908 kB`
fn mem_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       24683908 kB\nMemFree:        22000000 kB\n";
    const PHYSICAL: u64 = 24683908 << 10;

    fn with(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        memory(root.path())
    }

    #[test]
    fn no_limits() {
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("proc/meminfo", MEMINFO)]), Some(PHYSICAL));
        let unlimited = [
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "0::/user.slice/session-1.scope\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "max\n"),
            ("sys/fs/cgroup/user.slice/session-1.scope/memory.max", "max\n"),
        ];
        assert_eq!(with(&unlimited), Some(PHYSICAL));
    }

    #[test]
    fn version_2() {
        let at = |leaf, parent| {
            with(&[
                ("proc/meminfo", MEMINFO),
                ("proc/self/cgroup", "0::/system.slice/larder.service\n"),
                ("sys/fs/cgroup/system.slice/memory.max", parent),
                ("sys/fs/cgroup/system.slice/larder.service/memory.max", leaf),
            ])
        };
        assert_eq!(at("1073741824\n", "max\n"), Some(1 << 30));
        assert_eq!(at("max\n", "536870912\n"), Some(1 << 29), "an ancestor's limit holds too");
        let namespaced = [
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/memory.max", "max\n"),
            ("sys/fs/cgroup/memory.high", "268435456\n"),
        ];
        assert_eq!(with(&namespaced), Some(1 << 28));
    }

    #[test]
    fn version_1() {
        let host_path_in_a_container = [
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "11:cpu,cpuacct:/docker/af12\n4:memory:/docker/af12\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "134217728\n"),
        ];
        assert_eq!(with(&host_path_in_a_container), Some(1 << 27));
        let unlimited = [
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "4:memory:/a\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        assert_eq!(with(&unlimited), Some(PHYSICAL));
    }

    #[test]
    fn this_machine() {
        let machine = Machine::detect();
        assert!(machine.memory >= 64 << 20 && machine.cores >= 1, "{machine:?}");
    }
}
