//! A server that falls silent on purpose, and what arithmetic says of its percentiles.
use super::own_runs::{deviation, figure, larder_bench};
use crate::lib::{
    figures::{self, Figure},
    machine,
};
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

const PERIOD: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_millis(200);

/// The latency that a share of the requests of a fixed schedule does not exceed, if the server
/// answers at once but for its silence.
fn predicted_ms(share: f64) -> f64 {
    let (period, silence) = (PERIOD.as_secs_f64(), SILENCE.as_secs_f64());
    // A share silence/period of the requests waits, evenly from 0 to the whole silence.
    ((share - 1.0) * period + silence).max(0.0) * 1e3
}

/// Answers every request with OK, but for the last 200 ms of each 10 s.
fn serve(mut stream: TcpStream, start: Instant) {
    let mut input = [0; 65536];
    while let Ok(count @ 1..) = stream.read(&mut input) {
        let within = Duration::from_nanos((start.elapsed().as_nanos() % PERIOD.as_nanos()) as u64);
        if within > PERIOD - SILENCE {
            thread::sleep(PERIOD - within);
        }
        let requests = input[..count].iter().filter(|&&byte| byte == b'*').count();
        if stream.write_all(&b"+OK\r\n".repeat(requests)).is_err() {
            return;
        }
    }
}

/// Two periods at 5000 requests a second; what waited leaves quickly, 16 at a time on 8
/// connections.
pub(super) fn check((server_core, core): (usize, usize), out: &mut dyn Write) -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let url = format!("redis://{}", listener.local_addr()?);
    let start = Instant::now();
    // Ends with this program.
    thread::spawn(move || {
        if machine::pin(server_core).is_ok() {
            for stream in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || serve(stream, start));
            }
        }
    });
    let result =
        larder_bench(core, &url, &["--rate", "5000", "--connections", "8", "--pipeline", "16", "--duration", "20s"])?;
    for (name, share) in [("p99", 0.99), ("p999", 0.999)] {
        let measured = figure(&result, &["latency_ms", name])?;
        let ratio = measured / predicted_ms(share);
        figures::line(out, &Figure::new("verify", format!("stall {name} ms"), measured, None))?;
        figures::line(
            out,
            &deviation(format!("stall {name} deviation from {:.0} ms", predicted_ms(share)), ratio, 0.05),
        )?;
    }
    let service = figure(&result, &["service_ms", "p99"])?;
    figures::line(out, &Figure::new("verify", "stall p99 ms by service time, which hides it".into(), service, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_of_a_hundred_wait() {
        assert!(predicted_ms(0.97) == 0.0 && predicted_ms(0.98).abs() < 1e-9);
        assert!((predicted_ms(0.99) - 100.0).abs() < 1e-9);
        assert!((predicted_ms(0.999) - 190.0).abs() < 1e-9);
    }
}
