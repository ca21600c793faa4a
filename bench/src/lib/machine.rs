//! The machine under the measurement: cores, CPU time and resident memory, from Linux's `/proc`
//! (proc(5)).
use anyhow::{Context, bail, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs,
    process::{Child, Command},
    time::Duration,
};

/// What is measured on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Host {
    /// The model of the first core.
    pub(crate) cpu: String,
    /// Cores that this thread may run on.
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    pub(crate) memory_gib: f64,
}

impl Host {
    /// This machine.
    pub(crate) fn this() -> anyhow::Result<Host> {
        let cpus = fs::read_to_string("/proc/cpuinfo")?;
        let cpu = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let memory = fs::read_to_string("/proc/meminfo")?;
        let kibibytes = memory
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        Ok(Host {
            cpu: cpu.map_or("unknown", |(_, model)| model).to_owned(),
            cores: cores()?.len(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            memory_gib: (kibibytes.unwrap_or(0.0) / f64::from(1 << 20) * 10.0).round() / 10.0,
        })
    }
}

/// A process to look at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MeasuredProcess {
    /// This one.
    Own,
    /// The one with this id.
    Id(u32),
}

impl MeasuredProcess {
    fn read(self, file: &str) -> anyhow::Result<String> {
        let path = match self {
            MeasuredProcess::Own => format!("/proc/self/{file}"),
            MeasuredProcess::Id(id) => format!("/proc/{id}/{file}"),
        };
        fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
    }

    /// Resident memory in bytes (`statm`, second field).
    pub(crate) fn resident_bytes(self) -> anyhow::Result<u64> {
        let statm = self.read("statm")?;
        let pages: u64 = statm
            .split_ascii_whitespace()
            .nth(1)
            .and_then(|pages| pages.parse().ok())
            .with_context(|| format!("statm reads {statm:?}"))?;
        Ok(pages * rustix::param::page_size() as u64)
    }

    /// It and all processes that come from it. A process that ends meanwhile is left out.
    pub(crate) fn family(self) -> Vec<MeasuredProcess> {
        let mut family = vec![self];
        let mut next = 0;
        while let Some(&parent) = family.get(next) {
            next += 1;
            let id = match parent {
                MeasuredProcess::Own => std::process::id(),
                MeasuredProcess::Id(id) => id,
            };
            // Of the first thread only: it is the one from which the servers here start processes.
            let children = parent.read(&format!("task/{id}/children")).unwrap_or_default();
            family.extend(children.split_ascii_whitespace().filter_map(|id| id.parse().ok()).map(MeasuredProcess::Id));
        }
        family
    }

    /// Proportional set size in bytes: resident memory, of which shared pages count in parts
    /// (`smaps_rollup`).
    pub(crate) fn proportional_bytes(self) -> anyhow::Result<u64> {
        let rollup = self.read("smaps_rollup")?;
        let kibibytes: Option<u64> =
            rollup.lines().find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix("kB")?.trim().parse().ok());
        Ok(kibibytes.with_context(|| format!("smaps_rollup reads {rollup:?}"))? * 1024)
    }

    /// [`MeasuredProcess::thread_times`] of it and of all processes that come from it.
    pub(crate) fn thread_times_of_family(self) -> anyhow::Result<BTreeMap<u32, [Duration; 2]>> {
        let mut times = self.thread_times()?;
        // One that ends meanwhile is left out.
        times.extend(self.family().into_iter().skip(1).filter_map(|process| process.thread_times().ok()).flatten());
        Ok(times)
    }

    /// How long each thread that is still there has run, and how long it waited for a core while it
    /// could have run, by thread id (`schedstat`).
    pub(crate) fn thread_times(self) -> anyhow::Result<BTreeMap<u32, [Duration; 2]>> {
        let folder = match self {
            MeasuredProcess::Own => "/proc/self/task".to_owned(),
            MeasuredProcess::Id(id) => format!("/proc/{id}/task"),
        };
        let mut times = BTreeMap::new();
        for thread in fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))? {
            let thread = thread?;
            // One that ends meanwhile is left out.
            let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            let mut fields = text.split_ascii_whitespace().map_while(|field| field.parse().ok());
            let id = thread.file_name().to_str().and_then(|id| id.parse().ok());
            if let (Some(id), Some(run), Some(wait)) = (id, fields.next(), fields.next()) {
                times.insert(id, [run, wait].map(Duration::from_nanos));
            }
        }
        Ok(times)
    }

    /// User and system CPU time of all its threads, dead ones included (`stat`, fields 14 and 15;
    /// resolution 10 ms).
    pub(crate) fn cpu_time(self) -> anyhow::Result<Duration> {
        parse_cpu_time(&self.read("stat")?, 14)
    }
}

/// User and system CPU time of all children of this process that have ended (`stat`, fields 16 and
/// 17; resolution 10 ms).
pub(crate) fn ended_children_cpu_time() -> anyhow::Result<Duration> {
    parse_cpu_time(&MeasuredProcess::Own.read("stat")?, 16)
}

/// CPU time that the machine's cores have given to anyone, or lost to other machines on the same
/// hardware (`/proc/stat`, resolution 10 ms).
pub(crate) fn busy_time() -> anyhow::Result<Duration> {
    let stat = fs::read_to_string("/proc/stat")?;
    parse_busy_time(&stat).with_context(|| format!("/proc/stat begins with {:?}", stat.lines().next()))
}

/// All fields of the first line but the two for idleness.
fn parse_busy_time(stat: &str) -> Option<Duration> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let fields: Vec<u64> = fields.map(str::parse).collect::<Result<_, _>>().ok()?;
    // user nice system idle iowait irq softirq steal; what follows is counted in user already.
    let [user, nice, system, _, _, irq, softirq, steal, ..] = fields[..] else { return None };
    let ticks = user + nice + system + irq + softirq + steal;
    Some(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// The sum of the field with this number and the one after it.
fn parse_cpu_time(stat: &str, first: usize) -> anyhow::Result<Duration> {
    // Field 2 is the program's name in brackets and may hold blanks and brackets itself; what follows
    // the last bracket is regular.
    let regular = stat.rsplit_once(')').with_context(|| format!("stat reads {stat:?}"))?.1;
    let field = |number: usize| -> anyhow::Result<u64> {
        regular
            .split_ascii_whitespace()
            .nth(number - 3)
            .and_then(|ticks| ticks.parse().ok())
            .with_context(|| format!("field {number} of stat is missing or no number: {stat:?}"))
    };
    let ticks = field(first)? + field(first + 1)?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// The cores that this thread may run on, ascending.
pub(crate) fn cores() -> anyhow::Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("cannot read this thread's cores")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect())
}

/// Ties the calling thread to one core.
pub(crate) fn pin(core: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    ensure!(core < CpuSet::MAX_CPU, "there is no core {core}");
    set.set(core);
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on core {core}"))
}

/// Starts a process tied to one core from its first instruction on, so that it sizes itself for one
/// core and all its threads stay there.
///
/// A child inherits the cores of the thread that starts it, so this thread moves there for the
/// moment.
pub(crate) fn spawn_on(core: Option<usize>, command: &mut Command) -> anyhow::Result<Child> {
    let Some(core) = core else {
        return Ok(command.spawn()?);
    };
    let before = sched_getaffinity(None).context("cannot read this thread's cores")?;
    pin(core)?;
    let child = command.spawn();
    sched_setaffinity(None, &before).context("cannot return to this thread's cores")?;
    Ok(child?)
}

/// One core for the server and another for its client.
pub(crate) fn server_and_client_core() -> anyhow::Result<(usize, usize)> {
    match cores()?[..] {
        [server, client, ..] => Ok((server, client)),
        _ => bail!("two cores are needed: one for the server, one for the client"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_a_hostile_name() {
        let ticks = rustix::param::clock_ticks_per_second();
        let stat = format!("7 (a) b (c) S 1 7 7 0 -1 0 0 0 0 0 {} {ticks} 0 {ticks} 20", 2 * ticks);
        assert_eq!(parse_cpu_time(&stat, 14).expect("well-formed"), Duration::from_secs(3));
        assert_eq!(parse_cpu_time(&stat, 16).expect("well-formed"), Duration::from_secs(1));
        assert!(parse_cpu_time("7 (a) S 1", 14).is_err());
    }

    #[test]
    fn busy_time_leaves_out_idleness() {
        let ticks = rustix::param::clock_ticks_per_second();
        let stat = format!("cpu  {ticks} 0 {ticks} 777 777 0 0 {ticks} 9 9\ncpu0 1 2 3\n");
        assert_eq!(parse_busy_time(&stat), Some(Duration::from_secs(3)));
        assert_eq!(parse_busy_time("cpu 1 2 3"), None);
        assert!(busy_time().expect("/proc/stat") > Duration::ZERO);
    }

    #[test]
    fn own_process_is_visible() {
        assert!(MeasuredProcess::Own.resident_bytes().expect("statm") > 100_000);
        assert!(MeasuredProcess::Own.proportional_bytes().expect("smaps_rollup") > 100_000);
        MeasuredProcess::Own.cpu_time().expect("stat");
        let ran = || {
            let times = MeasuredProcess::Own.thread_times_of_family().expect("schedstat");
            times.values().map(|[run, _]| *run).sum::<Duration>()
        };
        let before = ran();
        assert!(before > Duration::ZERO);
        while ran() < before + Duration::from_millis(1) {}
    }

    #[test]
    fn a_family_has_grandchildren() {
        let script = "sleep 60 & echo $! >&2; wait";
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("sh -c '{script}' & wait")]).stderr(std::process::Stdio::piped());
        let mut shell = shell.spawn().expect("a shell");
        let mut line = String::new();
        let stderr = shell.stderr.take().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stderr), &mut line).expect("a line");
        let sleep: u32 = line.trim().parse().expect("a process");
        let family = MeasuredProcess::Id(shell.id()).family();
        assert!(
            matches!(family[..], [_, MeasuredProcess::Id(_), MeasuredProcess::Id(last)] if last == sleep),
            "{family:?}"
        );
        let sleep = rustix::process::Pid::from_raw(sleep as i32).expect("a process");
        rustix::process::kill_process(sleep, rustix::process::Signal::KILL).expect("it is there");
        shell.wait().expect("ends with its children");
    }

    #[test]
    fn a_child_is_born_on_its_core_and_the_parent_goes_back() {
        let before = cores().expect("cores");
        let last = *before.last().expect("at least one core");
        let mut command = Command::new("grep");
        command.args(["Cpus_allowed_list", "/proc/self/status"]);
        command.stdout(std::process::Stdio::piped());
        let child = spawn_on(Some(last), &mut command).expect("grep starts");
        let output = child.wait_with_output().expect("grep ends");
        let text = String::from_utf8(output.stdout).expect("text");
        assert_eq!(text.trim(), format!("Cpus_allowed_list:\t{last}"));
        assert_eq!(cores().expect("cores"), before);
    }
}
