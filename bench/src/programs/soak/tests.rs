use super::model::{OwnedKey, SourceView};
use super::*;

fn view(source: &SoakSource) -> SourceView {
    source.view().expect("not ended")
}

#[test]
fn an_own_key_is_between_acknowledged_and_tried() {
    let source = SoakSource::new(Duration::ZERO);
    let mut own = OwnedKey::new();
    assert!(own.may_be_absent(view(&source)) && !own.may_be(0) && !own.may_be(1));

    own.try_write();
    own.acknowledge(false, view(&source));
    assert!(own.may_be(1) && !own.may_be(0) && !own.may_be(2));
    assert!(!own.may_be_absent(view(&source)));

    // A set that failed may have been done; the old value must still be there otherwise.
    own.try_write();
    own.refuse(false);
    assert!(own.may_be(1) && own.may_be(2) && !own.may_be_absent(view(&source)));

    // A delete that failed may have been done.
    own.try_write();
    own.refuse(true);
    assert!(own.may_be(1) && own.may_be_absent(view(&source)));

    // A delete that was acknowledged: no earlier value may return.
    own.try_write();
    own.acknowledge(true, view(&source));
    assert!(!own.may_be(1) && !own.may_be(4) && own.may_be_absent(view(&source)));
}

#[test]
fn a_source_that_went_has_lost_what_it_was_given() {
    let source = SoakSource::new(Duration::ZERO);
    let mut own = OwnedKey::new();
    own.try_write();
    own.acknowledge(false, view(&source));
    source.goes();
    assert!(!own.may_be_absent(view(&source)));
    source.has_gone();
    assert!(own.may_be_absent(view(&source)) && own.may_be(1) && !own.may_be(0));
}

#[test]
fn errors_are_excused_while_the_source_is_away_and_shortly_after() {
    let patient = SoakSource::new(Duration::from_secs(3600));
    assert!(!view(&patient).excused);
    patient.goes();
    assert!(view(&patient).excused && view(&patient).down);
    patient.is_back();
    assert!(view(&patient).excused && !view(&patient).down);
    let strict = SoakSource::new(Duration::ZERO);
    strict.goes();
    strict.is_back();
    assert!(!view(&strict).excused);
    strict.end();
    assert_eq!(strict.view(), None);
}

/// Workers straight on a redis-server that has the source's data: it answers as a larder whose
/// source is up must.
#[test]
fn right_replies_pass_and_wrong_ones_are_found() {
    let redis = servers::redis(None).expect("redis-server starts");
    let timeout = Duration::from_secs(10);
    load_source(&redis, timeout).expect("loaded");
    let run = || {
        let source = SoakSource::new(Duration::ZERO);
        let (source, address) = (&source, redis.address);
        thread::scope(|scope| {
            let worker = scope.spawn(move || Worker::new(source, 7).over_redis(address, timeout));
            // Long enough for replies of every kind: until the server has seen so many commands.
            let mut client = RespClient::connect(redis.address, timeout).expect("connect");
            let commands = |client: &mut RespClient| match client.call(&[b"INFO", b"stats"]).expect("answers") {
                RedisReply::Bulk(Some(info)) => String::from_utf8_lossy(&info)
                    .lines()
                    .find_map(|line| line.strip_prefix("total_commands_processed:")?.parse::<u64>().ok())
                    .expect("a counter"),
                other => panic!("INFO was answered {other:?}"),
            };
            let before = commands(&mut client);
            while commands(&mut client) < before + 20_000 {
                thread::yield_now();
            }
            source.end();
            worker.join().expect("judged")
        })
    };
    let tally = run();
    assert_eq!(tally.wrong, 0, "{:?}", tally.first_wrong);
    assert!(tally.values > 1000 && tally.absent > 10 && tally.writes > 100, "{tally:?}");

    let mut client = RespClient::connect(redis.address, timeout).expect("connect");
    for number in 0..HOT.keys {
        client.call(&[b"SET", &HOT.key(number), b"hot:0|0|x"]).expect("answers");
    }
    let tally = run();
    assert!(tally.wrong > 1000, "{tally:?}");
}
