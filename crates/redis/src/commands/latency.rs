//! LATENCY: when commands of this process took long, and how long each command takes, with every
//! source.
use super::latency_graph::latency_graph;
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow},
};
use larder_base::telemetry::CommandNumbers;
use std::{collections::HashSet, fmt::Write as _};

pub(crate) fn latest(call: &mut CommandContext<'_>) -> Done {
    let events = call.worker.app.telemetry.slow.events();
    call.reply.array(events.len());
    for event in events {
        call.reply.array(4);
        call.reply.bulk(event.name.as_bytes());
        call.reply.integer(event.at as i64);
        call.reply.integer(event.latest as i64);
        call.reply.integer(event.longest as i64);
    }
    Ok(Flow::Done)
}

pub(crate) fn history(call: &mut CommandContext<'_>) -> Done {
    let samples = call.worker.app.telemetry.slow.event_samples(call.arg(2));
    call.reply.array(samples.len());
    for (at, millis) in samples {
        call.reply.array(2);
        call.reply.integer(at as i64);
        call.reply.integer(millis as i64);
    }
    Ok(Flow::Done)
}

pub(crate) fn graph(call: &mut CommandContext<'_>) -> Done {
    let telemetry = &call.worker.app.telemetry;
    let event =
        telemetry.slow.events().into_iter().find(|event| event.name.as_bytes().eq_ignore_ascii_case(call.arg(2)));
    let Some(event) = event else {
        return Err(CommandError::quoting("ERR No samples available for event '", call.arg(2), 128, "'"));
    };
    let samples = telemetry.slow.event_samples(call.arg(2));
    let graph = latency_graph(&event, &samples, telemetry.time().as_secs());
    call.verbatim(graph.as_bytes())
}

pub(crate) fn reset(call: &mut CommandContext<'_>) -> Done {
    let names = call.args.from(2);
    let is_named =
        |event: &str| names.len() == 0 || names.clone().any(|name| name.eq_ignore_ascii_case(event.as_bytes()));
    let count = call.worker.app.telemetry.slow.reset_events(is_named);
    call.integer(count as i64)
}

/// LATENCY HISTOGRAM [command …]: for each command, how many calls took at most 1, 2, 4, … µs.
pub(crate) fn histogram(call: &mut CommandContext<'_>) -> Done {
    let names: HashSet<Vec<u8>> = call.args.from(2).map(<[u8]>::to_ascii_lowercase).collect();
    let is_asked = |of: &CommandNumbers| {
        let parent = of.name.split('|').next().unwrap_or_default();
        let is = |known: &str| names.contains(known.to_ascii_lowercase().as_bytes());
        of.times.is_some() && (names.is_empty() || is(of.name) || is(parent))
    };
    let mut commands = call.worker.app.commands.sums_since_reset();
    commands.retain(is_asked);
    call.reply.map(commands.len());
    for CommandNumbers { name, times, .. } in commands {
        let times = times.unwrap_or_default();
        call.reply.named(name).map(2);
        call.reply.named("calls").integer(times.count() as i64);
        call.reply.bulk(b"histogram_usec");
        let counts = steps(times.powers().map(|(end, count)| (end.as_nanos() as i64 / 1000, count)));
        call.reply.map(counts.len());
        for (micros, count) in counts {
            call.reply.integer(micros);
            call.reply.integer(count as i64);
        }
    }
    Ok(Flow::Done)
}

/// The counts up to each end, without those that add nothing.
fn steps(counts: impl Iterator<Item = (i64, u64)>) -> Vec<(i64, u64)> {
    let mut steps: Vec<(i64, u64)> = Vec::new();
    for (end, count) in counts {
        if count > steps.last().map_or(0, |(_, count)| *count) {
            steps.push((end, count));
        }
    }
    steps
}

pub(crate) fn doctor(call: &mut CommandContext<'_>) -> Done {
    let slow = &call.worker.app.telemetry.slow;
    let mut report = String::new();
    let events = slow.events();
    match slow.watches_from() {
        None => {
            // In front of a Redis, the name without a prefix is that of its own monitor.
            let parameter = match call.redis() {
                Some(_) => "larder-latency-monitor-threshold 100ms",
                None => "latency-monitor-threshold 100",
            };
            let _ = writeln!(report, "Latency events are not recorded. To record them: CONFIG SET {parameter}");
        }
        Some(from) if events.is_empty() => {
            let _ = writeln!(report, "No command has taken {} ms or longer.", from.as_millis());
        }
        Some(from) => {
            let _ = writeln!(report, "These commands have taken {} ms or longer:", from.as_millis());
        }
    }
    for (number, event) in events.iter().enumerate() {
        let _ = writeln!(
            report,
            "{}. {}: {} latency spikes (average {} ms, worst {} ms), the latest of {} ms.",
            number + 1,
            event.name,
            event.samples,
            event.mean,
            event.longest,
            event.latest
        );
    }
    if !slow.is_empty() {
        let _ = writeln!(report, "SLOWLOG GET shows the latest commands that took long.");
    }
    call.verbatim(report.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::steps;

    #[test]
    fn a_histogram_has_the_steps_only() {
        let counts = [(1, 0), (2, 3), (4, 3), (8, 5), (16, 5)];
        assert_eq!(steps(counts.into_iter()), [(2, 3), (8, 5)]);
    }
}
