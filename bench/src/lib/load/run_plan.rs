//! Running a plan: its threads start together, and their slices of time are added up as they come.
use super::{
    connection::{Connection, RunClock, ThreadState},
    generator::Generator,
    generator_thread::GeneratorThread,
    keys::{Draw, KeyDistribution},
    latency_recorder::LatencyRecorder,
    measure::{ErrorKind, LoadOutcome, Slice},
    ops::{Mix, Verb},
    options::GeneratorOptions,
    plan::{LoadPlan, RunEnd},
    poll::Poll,
    target::{TargetProtocol, TargetUrl},
    values::ValueMaker,
    wire::Wire,
};
use crate::lib::machine;
use anyhow::{Context, bail, ensure};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, atomic::AtomicU64, mpsc},
    time::{Duration, Instant},
};

/// Runs a plan to its end. `each` is shown every slice of time, all threads added up, once all have
/// finished it.
pub(crate) fn run(plan: &LoadPlan, each: &mut dyn FnMut(&Slice)) -> anyhow::Result<LoadOutcome> {
    run_connected(plan, &mut || Ok(()), each)
}

/// The same; `connected` is called when all connections are made, shortly before the first request.
pub(crate) fn run_connected(
    plan: &LoadPlan,
    connected: &mut dyn FnMut() -> anyhow::Result<()>,
    each: &mut dyn FnMut(&Slice),
) -> anyhow::Result<LoadOutcome> {
    plan.check()?;
    let wire = Wire::new(&plan.target, plan.mix.verbs(), &plan.client.header, plan.client.error_status.clone())?;
    let inserted = Arc::new(AtomicU64::new(plan.keys.count));
    std::thread::scope(|scope| {
        let (ready, all_ready) = mpsc::channel();
        let (out, slices) = mpsc::channel();
        let mut receivers = Vec::new();
        let mut threads = Vec::new();
        for thread in 0..plan.client.threads {
            let (go, start) = mpsc::channel::<Instant>();
            let (wire, inserted, ready) = (wire.clone(), inserted.clone(), ready.clone());
            let out = out.clone();
            threads.push(scope.spawn(move || -> anyhow::Result<Option<LoadOutcome>> {
                if let Some(&core) = plan.client.pin.get(thread % plan.client.pin.len().max(1)) {
                    machine::pin(core)?;
                }
                let mut worker = generator_thread(plan, thread, wire, inserted, out)?;
                worker.establish()?;
                // Fails only if another thread did.
                let _ = ready.send(());
                drop(ready);
                start.recv().ok().map(|start| worker.run(start)).transpose()
            }));
            receivers.push(go);
        }
        drop((ready, out));
        let up = all_ready.iter().take(plan.client.threads).count() == plan.client.threads;
        let ready = if up { connected() } else { Ok(()) };
        let start = Instant::now() + Duration::from_millis(5);
        if up && ready.is_ok() {
            for go in receivers {
                go.send(start).context("a thread of the generator ended early")?;
            }
        } else {
            drop(receivers);
        }
        let mut outcome = LoadOutcome::new(plan.client.spin);
        merge(plan.client.threads, slices, &mut outcome, each);
        for thread in threads {
            match thread.join() {
                Ok(end) => end?.iter().for_each(|end| outcome.add(end)),
                Err(_) => bail!("a thread of the generator panicked"),
            }
        }
        ready?;
        ensure!(up, "not all connections could be made");
        Ok(outcome)
    })
}

/// Adds up the threads' slices as they come.
fn merge(
    threads: usize,
    slices: mpsc::Receiver<(usize, Slice)>,
    outcome: &mut LoadOutcome,
    each: &mut dyn FnMut(&Slice),
) {
    let mut hand = |slice: Slice| {
        outcome.total.add(&slice);
        each(&slice);
    };
    let mut pending = BTreeMap::<u64, Slice>::new();
    // Each thread has handed out all slices before this one.
    let mut next = vec![0; threads];
    for (thread, slice) in slices {
        next[thread] = slice.index + 1;
        pending.entry(slice.index).or_insert_with(|| Slice::new(slice.index)).add(&slice);
        let done = next.iter().copied().min().unwrap_or(0);
        while let Some(first) = pending.first_entry().filter(|first| *first.key() < done) {
            hand(first.remove());
        }
    }
    pending.into_values().for_each(hand);
}

fn generator_thread(
    plan: &LoadPlan,
    thread: usize,
    wire: Wire,
    inserted: Arc<AtomicU64>,
    out: mpsc::Sender<(usize, Slice)>,
) -> anyhow::Result<GeneratorThread> {
    let warm_up = plan.warm_up.as_nanos() as u64;
    let draw = Draw::new(&plan.keys, inserted, thread, plan.client.threads);
    let values = ValueMaker::new(plan.sizes.clone(), plan.client.seed);
    let seed = plan.client.seed.wrapping_add(thread as u64);
    Ok(GeneratorThread {
        connections: (0..plan.client.connections_of(thread)).map(Connection::new).collect(),
        shared: ThreadState {
            clock: RunClock(Instant::now()),
            schedule: plan.schedule(thread)?,
            generator: Generator::new(plan.mix.clone(), plan.keys.names.clone(), draw, values, wire, seed),
            recorder: LatencyRecorder::new(warm_up, plan.slice.as_nanos() as u64, thread, out),
            target: plan.target.clone(),
            poll: Poll::new()?,
            pipeline: plan.client.pipeline,
            batches: plan.client.batches,
            timeout: plan.client.timeout,
            delay: plan.client.delay.as_nanos() as u64,
            delayed: VecDeque::new(),
            input: vec![0; 64 * 1024].into(),
            in_flight: 0,
            up: 0,
            refused: None,
            started: false,
        },
        warm_up,
        until: plan.until(),
        interrupt: plan.interrupt.clone(),
        spin: plan.client.spin,
    })
}

/// Writes every key once, through the plan's target or through `url`.
pub(crate) fn preload(plan: &LoadPlan, url: &str) -> anyhow::Result<()> {
    let target = if url.is_empty() { plan.target.clone() } else { TargetUrl::parse(url)? };
    let pipeline = if target.protocol == TargetProtocol::Http { 1 } else { 64 };
    let mut plan = LoadPlan {
        target,
        mix: Mix::new(vec![(Verb::Set, 1.0)])?,
        rate: None,
        played: None,
        stop: RunEnd::Requests(plan.keys.count),
        warm_up: Duration::ZERO,
        client: GeneratorOptions {
            threads: 1,
            connections: 4,
            pipeline,
            spin: false,
            batches: false,
            think_time: None,
            delay: Duration::ZERO,
            ..plan.client.clone()
        },
        ..plan.clone()
    };
    plan.keys.distribution = KeyDistribution::Sequential;
    let counts = run(&plan, &mut |_| {})?.total.counts;
    let wrong: Vec<_> = ErrorKind::NAMES.iter().zip(counts.errors).filter(|(_, count)| *count > 0).collect();
    ensure!(!plan.interrupt.is_set(), "interrupted before all keys were written");
    ensure!(wrong.is_empty(), "not all keys could be written to {}: {wrong:?}", plan.target);
    Ok(())
}
