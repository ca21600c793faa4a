//! The demonstration source: the shared suite, and its delay and faults.
use super::{Fixture, LIMITS, conformance_read_only, open, reason, run};
use larder_config::{Coherence, SourceUrl};
use larder_source::{FillPolicy, SourceLimits};
use std::time::{Duration, Instant};

fn demo(url: &str, limits: SourceLimits) -> Fixture {
    let url: SourceUrl = url.parse().expect("a URL");
    open(&url, limits, FillPolicy { coherence: Coherence::Ttl, ..FillPolicy::default() })
}

#[test]
fn conformance_demo() {
    run(async {
        let keys: Vec<String> = (0..10_000).map(|number| format!("absent? {number}")).collect();
        let mut absent = Vec::new();
        let group = demo("demo:?absent=0.001", LIMITS);
        for key in &keys {
            if group.get(key).await == Ok(None) {
                absent.push(key);
            }
        }
        assert!((1..50).contains(&absent.len()), "{absent:?}");
        let everything = demo("demo:", LIMITS);
        assert!(everything.get(absent[0]).await.is_ok_and(|value| value.is_some()));

        let is_value = |key: &[u8], value: &[u8]| {
            let entity: serde_json::Value = serde_json::from_slice(value).expect("JSON");
            entity["guid"] == *String::from_utf8_lossy(key) && entity["date_created"].is_string()
        };
        for url in ["demo:?absent=0.001", "demo:?absent=0.001&delay=1ms"] {
            // The same keys are absent for every core.
            conformance_read_only(&demo(url, LIMITS), absent[0].as_bytes(), is_value).await;
        }
    });
}

#[test]
fn a_demo_answers_after_its_delay_and_fails_as_often_as_it_is_told() {
    run(async {
        let group = demo("demo:?delay=50ms", LIMITS);
        let begun = Instant::now();
        assert!(group.get("k").await.is_ok());
        assert!(begun.elapsed() >= Duration::from_millis(50));
        assert_eq!(group.health.seconds().count, 1);

        let hasty = SourceLimits { timeout: Duration::from_millis(20), ..LIMITS };
        let text = reason(demo("demo:?delay=1m", hasty).get("k").await);
        assert_eq!(text, "source unavailable: demo: timed out after 20ms (source-timeout)");

        let group = demo("demo:?fail=0.25", LIMITS);
        let mut failed = 0;
        for number in 0..2000 {
            if let Err(error) = group.get(number.to_string()).await {
                assert_eq!(error.to_string(), "source unavailable: demo: a fault on purpose (fail=0.25)");
                failed += 1;
            }
        }
        assert!((350..650).contains(&failed), "{failed}");
        assert_eq!((group.health.fetches(), group.health.errors()), (2000, failed));

        let group = demo("demo:?delay=10ms", SourceLimits { max_in_flight: 2, ..LIMITS });
        let answers = group.get_all(&["a", "b", "c"]).await;
        assert!(answers[0].is_ok() && answers[1].is_ok());
        assert!(reason(answers[2].clone()).contains("more than 2 fetches in flight (source-max-in-flight)"));
        assert_eq!(group.health.in_flight(), 0);
    });
}
