//! The picture that LATENCY GRAPH returns: columns of letters, like Redis's.
use larder_base::telemetry::LatencySummary;
use std::fmt::Write as _;

/// Samples side by side; more go below.
const WIDTH: usize = 80;
const LINES: usize = 4;
/// The top of a column, by thirds of a line. The lines below it are `|`.
const TOPS: [char; 3] = ['_', 'o', '#'];

/// The samples of an event (second since the Unix epoch and milliseconds, the oldest first), with
/// their ages below them from top to bottom. `now`: seconds since the epoch.
pub(super) fn latency_graph(event: &LatencySummary, samples: &[(u64, u64)], now: u64) -> String {
    let (low, high) = samples.iter().fold((u64::MAX, 0), |(low, high), (_, took)| (low.min(*took), high.max(*took)));
    let low = low.min(high);
    let mut text = format!("{} - high {high} ms, low {low} ms (all time high {} ms)\n", event.name, event.longest);
    let _ = writeln!(text, "{:-<WIDTH$}", "");
    for (number, part) in samples.chunks(WIDTH).enumerate() {
        if number > 0 {
            text.push('\n');
        }
        let steps = LINES * TOPS.len();
        let height = |took: u64| {
            let share = (took - low) as f64 * steps as f64 / (high - low).max(1) as f64;
            (share as usize).min(steps - 1)
        };
        for line in (0..LINES).rev() {
            put_line(&mut text, part, |(_, took)| match height(took).checked_sub(line * TOPS.len()) {
                None => ' ',
                Some(above) => *TOPS.get(above).unwrap_or(&'|'),
            });
        }
        put_line(&mut text, part, |_| ' ');
        let ages: Vec<String> = part.iter().map(|(at, _)| age(now.saturating_sub(*at))).collect();
        for letter in 0..ages.iter().map(String::len).max().unwrap_or(0) {
            text.extend(ages.iter().map(|age| age.chars().nth(letter).unwrap_or(' ')));
            text.push('\n');
        }
    }
    text
}

fn put_line(text: &mut String, samples: &[(u64, u64)], letter: impl Fn((u64, u64)) -> char) {
    text.extend(samples.iter().map(|sample| letter(*sample)));
    text.push('\n');
}

fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(samples: &[(u64, u64)], now: u64) -> String {
        let longest = samples.iter().map(|(_, took)| *took).max().unwrap_or(0);
        let event = LatencySummary { name: "command", at: 0, latest: 0, longest, mean: 0, samples: samples.len() };
        latency_graph(&event, samples, now)
    }

    /// Redis 7.0 drew this of these samples.
    #[test]
    fn a_picture_is_the_one_that_redis_draws() {
        let samples = [(46, 3), (47, 12), (48, 30), (49, 5), (50, 20), (52, 2)];
        let expected = [
            "command - high 30 ms, low 2 ms (all time high 30 ms)",
            &"-".repeat(80),
            "  #   ",
            "  | o ",
            " o| | ",
            "_||o|_",
            "      ",
            "765431",
            "ssssss",
        ];
        assert_eq!(graph(&samples, 53).lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn equal_samples_old_samples_and_more_than_a_line() {
        let text = graph(&[(0, 7), (0, 7)], 3 * 86_400);
        assert_eq!(text.lines().nth(5), Some("__"));
        assert!(text.ends_with("  \n33\ndd\n"), "{text}");
        let many: Vec<_> = (0..160).map(|second| (second, second)).collect();
        let text = graph(&many, 200);
        assert_eq!(text.lines().filter(|line| line.len() == 80).count(), 1 + 5 + 2 + 5 + 3, "{text}");
        assert!(graph(&[], 0).starts_with("command - high 0 ms, low 0 ms"));
    }
}
