//! Commands of Redis 8.4 to 8.8 and Valkey 9. The replies are those of these servers: of Valkey
//! 9.1.2 for `SET … IFEQ`, DELIFEQ and MSETEX, of Redis's tests for the others.
use super::support::{Server, runtime, words};
use crate::tests::memory_store::MemoryStore;
use std::rc::Rc;

const DIGEST_OF_HELLO: &str = "9555e8555c62dcfd";

/// Lines, and what the reply looks like: `OK`, `nil`, an integer, an array, an error's text, or
/// `$text`.
fn script(lines: &[(&str, &str)]) {
    for server in [Server::new(&[]), Server::with_source(&[], Rc::new(MemoryStore::default()))] {
        let (runtime, mut client) = (runtime(), server.client());
        for (line, expected) in lines {
            let reply = runtime.block_on(client.wait(&words(line)));
            let reply = String::from_utf8_lossy(&reply).replace("\r\n", " ");
            assert_eq!(reply.trim_end(), *expected, "{line}");
        }
    }
}

/// Redis 8.2. The operations themselves are tested beside a model (`bits.rs`).
#[test]
fn bitop_has_operations_of_more_than_two_sources() {
    script(&[
        ("MSET a abc b b c ab", "+OK"),
        ("BITOP DIFF to a b none", ":3"),
        ("GETRANGE to 1 2", "$2 bc"),
        ("BITOP diff1 to none a", ":3"),
        ("GET to", "$3 abc"),
        ("BITOP ANDOR to a c none", ":3"),
        ("BITCOUNT to", ":6"),
        ("BITOP ONE to a none", ":3"),
        ("GET to", "$3 abc"),
        ("BITOP ONE to a a", ":3"),
        ("BITCOUNT to", ":0"),
        ("BITOP DIFF to none1 none2", ":0"),
        ("EXISTS to", ":0"),
        ("BITOP DIFF to a", "-ERR BITOP DIFF must be called with at least two source keys."),
        ("BITOP diff1 to a", "-ERR BITOP DIFF1 must be called with at least two source keys."),
        ("BITOP ANDOR to a", "-ERR BITOP ANDOR must be called with at least two source keys."),
        ("BITOP DIFF2 to a b", "-ERR syntax error"),
    ]);
}

#[test]
fn set_compares_values() {
    script(&[
        ("SET k a", "+OK"),
        ("SET k b IFEQ x", "$-1"),
        ("SET k b IFEQ x GET", "$1 a"),
        ("SET k b ifeq a", "+OK"),
        ("GET k", "$1 b"),
        ("SET none b IFEQ a", "$-1"),
        ("SET none b IFEQ a GET", "$-1"),
        ("EXISTS none", ":0"),
        ("SET k b IFEQ b NX", "-ERR syntax error"),
        ("SET k b NX IFEQ b", "-ERR syntax error"),
        ("SET k b IFEQ b XX", "-ERR syntax error"),
        ("SET k b IFEQ b IFEQ c", "-ERR syntax error"),
        ("SET k b IFEQ b IFNE c", "-ERR syntax error"),
        ("SET k c IFEQ", "-ERR syntax error"),
        ("GETEX k IFEQ b", "-ERR syntax error"),
        ("SET k c IFNE b", "$-1"),
        ("SET k c IFNE b GET", "$1 b"),
        ("SET k c IFNE x GET EX 100", "$1 b"),
        ("TTL k", ":100"),
        ("SET k d IFEQ c KEEPTTL", "+OK"),
        ("TTL k", ":100"),
        ("SET k e IFEQ d", "+OK"),
        ("TTL k", ":-1"),
        ("SET new v IFNE x", "+OK"),
        ("SET other v IFNE x GET", "$-1"),
        ("GET other", "$1 v"),
        ("JSON.SET doc $ 1", "+OK"),
        ("SET doc v IFEQ 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SET doc v IFNE 1 GET", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("MULTI", "+OK"),
        ("SET k f IFEQ e", "+QUEUED"),
        ("SET k g IFEQ e", "+QUEUED"),
        ("DELEX k IFEQ f", "+QUEUED"),
        ("EXEC", "*3 +OK $-1 :1"),
    ]);
}

#[test]
fn digests_are_compared() {
    let set = |condition: &str| format!("SET k hello {condition} {DIGEST_OF_HELLO}");
    script(&[
        ("DIGEST k", "$-1"),
        (&set("IFDEQ"), "$-1"),
        (&set("IFDNE"), "+OK"),
        ("DIGEST k", &format!("$16 {DIGEST_OF_HELLO}")),
        (&set("IFDEQ"), "+OK"),
        (&set("ifdne"), "$-1"),
        (&set("IFDEQ").to_uppercase().replace("SET K HELLO", "SET k hello"), "+OK"),
        ("SET k x IFDEQ 0123", "-ERR digest must be exactly 16 hexadecimal characters"),
        ("SET k hello IFDEQ zzzzzzzzzzzzzzzz", "$-1"),
        ("DELEX k IFDEQ +555e8555c62dcfd", ":0"),
        ("DELEX k IFDNE 9555e8555c62dcf", "-ERR digest must be exactly 16 hexadecimal characters"),
        (&format!("DELEX k IFDNE {DIGEST_OF_HELLO}"), ":0"),
        (&format!("DELEX k IFDEQ {DIGEST_OF_HELLO}"), ":1"),
        ("JSON.SET doc $ 1", "+OK"),
        ("DIGEST doc", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}

#[test]
fn keys_are_deleted_by_their_value() {
    script(&[
        ("DELIFEQ none z", ":0"),
        ("SET k a", "+OK"),
        ("DELIFEQ k", "-ERR wrong number of arguments for 'delifeq' command"),
        ("DELIFEQ k z", ":0"),
        ("DELIFEQ k a", ":1"),
        ("EXISTS k", ":0"),
        ("DELEX none", ":0"),
        ("DELEX none IFEQ", "-ERR wrong number of arguments for 'delex' command"),
        ("DELEX none IFNE x", ":0"),
        ("DELEX none FOO x", ":0"),
        ("SET k a", "+OK"),
        ("DELEX k FOO x", "-ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"),
        ("DELEX k IFEQ a b", "-ERR wrong number of arguments for 'delex' command"),
        ("DELEX k IFEQ x", ":0"),
        ("DELEX k IFNE a", ":0"),
        ("DELEX k IFNE x", ":1"),
        ("JSON.SET doc $ 1", "+OK"),
        ("DELIFEQ doc 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("DELEX doc FOO 1", "-ERR Key should be of string type if conditions are specified"),
        ("DELEX doc", ":1"),
    ]);
}

#[test]
fn several_values_are_stored_with_one_lifetime() {
    script(&[
        ("MSETEX 2 a 1 b 2 EX 100", ":1"),
        ("TTL b", ":100"),
        ("MSETEX 2 a 3 new 4 NX", ":0"),
        ("MSETEX 2 c 1 b 2 XX", ":0"),
        ("MGET a b c new", "*4 $1 1 $1 2 $-1 $-1"),
        ("MSETEX 2 a 5 b 6 XX KEEPTTL", ":1"),
        ("TTL a", ":100"),
        ("MSETEX 2 c 7 c 8 NX", ":1"),
        ("MGET a b c", "*3 $1 5 $1 6 $1 8"),
        ("MSETEX 0 a 1", "-ERR invalid numkeys value or out of range"),
        ("MSETEX -1 a 1", "-ERR invalid numkeys value or out of range"),
        ("MSETEX x a 1", "-ERR invalid numkeys value or out of range"),
        ("MSETEX 99999999999999 a 1", "-ERR invalid numkeys value or out of range"),
        ("MSETEX 2147483647 a 1", "-ERR syntax error"),
        ("MSETEX 3 a 1 b 2", "-ERR syntax error"),
        ("MSETEX 1 a 1 b 2", "-ERR syntax error"),
        ("MSETEX 1 a 1 NX XX", "-ERR syntax error"),
        ("MSETEX 1 a 1 EX 10 KEEPTTL", "-ERR syntax error"),
        ("MSETEX 1 a 1 GET", "-ERR syntax error"),
        ("MSETEX 1 a 1 IFEQ 1", "-ERR syntax error"),
        ("MSETEX 1 a 1 EX 0", "-ERR invalid expire time in 'msetex' command"),
        ("MSETEX 1 a 1 EX x", "-ERR value is not an integer or out of range"),
        ("MSETEX 1 a", "-ERR wrong number of arguments for 'msetex' command"),
        ("COMMAND GETKEYS MSETEX 2 a 1 b 2 EX 100", "*2 $1 a $1 b"),
        ("COMMAND GETKEYS MSETEX x a 1", "-ERR Invalid arguments specified for command"),
        ("MULTI", "+OK"),
        ("MSETEX 2 x 1 y 2", "+QUEUED"),
        ("GET y", "+QUEUED"),
        ("EXEC", "*2 :1 $1 2"),
    ]);
}

#[test]
fn counters_have_bounds_and_lifetimes() {
    script(&[
        ("INCREX k", "*2 :1 :1"),
        ("INCREX k BYINT 9", "*2 :10 :9"),
        ("INCREX k BYINT 10 UBOUND 15", "*2 :10 :0"),
        ("INCREX k BYINT 10 UBOUND 15 EX 100", "*2 :10 :0"),
        ("TTL k", ":-1"),
        ("INCREX k BYINT 10 UBOUND 15 SATURATE", "*2 :15 :5"),
        ("INCREX k BYINT 5 UBOUND 10", "*2 :15 :0"),
        ("INCREX k BYINT 5 UBOUND 10 SATURATE", "*2 :10 :-5"),
        ("INCREX k LBOUND 0 BYINT -100 SATURATE", "*2 :0 :-10"),
        ("INCREX none BYINT 5 LBOUND 10", "*2 :0 :0"),
        ("EXISTS none", ":0"),
        ("SET k 9223372036854775800", "+OK"),
        ("INCREX k BYINT 9223372036854775800", "*2 :9223372036854775800 :0"),
        ("INCREX k BYINT 1 SATURATE UBOUND -9223372036854775808", "-ERR applied increment would overflow"),
        ("INCREX k BYINT 9223372036854775800 SATURATE", "*2 :9223372036854775807 :7"),
        ("SET k 10", "+OK"),
        ("INCREX k EX 100 ENX", "*2 :11 :1"),
        ("TTL k", ":100"),
        ("INCREX k EX 10 ENX", "*2 :12 :1"),
        ("INCREX k", "*2 :13 :1"),
        ("TTL k", ":100"),
        ("INCREX k PERSIST", "*2 :14 :1"),
        ("TTL k", ":-1"),
        ("INCREX k EXAT 1", "*2 :15 :1"),
        ("EXISTS k", ":0"),
        ("SET k 1.5", "+OK"),
        ("INCREX k", "-ERR value is not an integer or out of range"),
        ("INCREX k BYFLOAT 0.25", "*2 $4 1.75 $4 0.25"),
        ("INCREX k BYFLOAT 100 UBOUND 42.5", "*2 $4 1.75 $1 0"),
        ("INCREX k BYFLOAT 100 UBOUND 42.5 SATURATE", "*2 $4 42.5 $5 40.75"),
        ("INCREX k BYFLOAT -100 LBOUND -5.5 SATURATE", "*2 $4 -5.5 $3 -48"),
        ("INCREX k BYFLOAT inf", "-ERR BYFLOAT increment cannot be Infinity"),
        ("SET k inf", "+OK"),
        ("INCREX k BYFLOAT 1", "-ERR value cannot be Infinity"),
        ("INCREX k FOO", "-ERR syntax error"),
        ("INCREX k SAT LBOUND 0", "-ERR syntax error"),
        ("INCREX k NX XX", "-ERR syntax error"),
        ("INCREX k NX NX", "-ERR syntax error"),
        ("INCREX valkey XX", "*2 $-1 :0"),
        ("INCREX valkey XX BYFLOAT 1.5", "*2 $-1 $1 0"),
        ("EXISTS valkey", ":0"),
        ("INCREX valkey NX EX 100 BYINT 3", "*2 :3 :3"),
        ("INCREX valkey nx EX 10 BYINT 3", "*2 :3 :0"),
        ("INCREX valkey NX BYFLOAT 0.5", "*2 $1 3 $1 0"),
        ("TTL valkey", ":100"),
        ("INCREX valkey xx UBOUND 4 BYINT 3", "*2 :3 :0"),
        ("INCREX valkey XX", "*2 :4 :1"),
        ("INCREX k BYINT 1 BYFLOAT 1.5", "-ERR syntax error"),
        ("INCREX k EX 10 EX 20", "-ERR syntax error"),
        ("INCREX k EX 10 PERSIST", "-ERR syntax error"),
        ("INCREX k PERSIST ENX", "-ERR syntax error"),
        ("INCREX k SATURATE SATURATE", "-ERR syntax error"),
        ("INCREX k ENX", "-ERR ENX flag requires an expiration"),
        ("INCREX k BYINT 1.5", "-ERR Increment is not an integer or out of range"),
        ("INCREX k BYFLOAT abc", "-ERR Increment is not a valid float"),
        ("INCREX k LBOUND 10 UBOUND 5", "-ERR LBOUND can't be greater than UBOUND"),
        ("INCREX k BYFLOAT 1 LBOUND 10.5 UBOUND 1.5", "-ERR LBOUND can't be greater than UBOUND"),
        ("INCREX k EX 0", "-ERR invalid expire time in 'increx' command"),
        ("JSON.SET doc $ 1", "+OK"),
        ("INCREX doc", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}

#[test]
fn hyperloglogs_are_strings() {
    const OTHER: &str = "-WRONGTYPE Key is not a valid HyperLogLog string value.";
    const CORRUPT: &str = "-INVALIDOBJ Corrupted HLL object detected";
    const TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    script(&[
        ("PFADD h", ":1"),
        ("PFADD h", ":0"),
        ("PFADD h a b c", ":1"),
        ("PFADD h c", ":0"),
        ("PFCOUNT h none", ":3"),
        ("PFCOUNT h", ":3"),
        ("PFCOUNT none", ":0"),
        ("TYPE h", "+string"),
        ("EXPIRE h 100", ":1"),
        ("PFADD h d", ":1"),
        ("TTL h", ":100"),
        ("PFADD other d e", ":1"),
        ("PFMERGE all h other none", "+OK"),
        ("PFCOUNT all", ":5"),
        ("TTL all", ":-1"),
        ("PFMERGE h other", "+OK"),
        ("TTL h", ":100"),
        ("COPY h copied", ":1"),
        ("PFCOUNT copied", ":5"),
        ("SET k x", "+OK"),
        ("PFADD k a", OTHER),
        ("PFCOUNT k", OTHER),
        ("PFCOUNT h k", OTHER),
        ("PFMERGE d h k", OTHER),
        ("PFMERGE k h", OTHER),
        ("SETRANGE h 16 !", ":33"),
        ("PFCOUNT h", CORRUPT),
        ("PFCOUNT h none", CORRUPT),
        ("PFMERGE d h", CORRUPT),
        ("EXISTS d", ":0"),
        ("JSON.SET doc $ 1", "+OK"),
        ("PFADD doc a", TYPE),
        ("PFCOUNT doc", TYPE),
        ("PFMERGE d doc", TYPE),
        ("MULTI", "+OK"),
        ("PFADD t a", "+QUEUED"),
        ("PFCOUNT t", "+QUEUED"),
        ("PFMERGE t other", "+QUEUED"),
        ("EXEC", "*3 :1 :1 +OK"),
        ("PFCOUNT", "-ERR wrong number of arguments for 'pfcount' command"),
    ]);
}

/// A value that would be too long is refused, and stays as it was.
#[test]
fn a_hyperloglog_is_within_max_value() {
    let server = Server::new(&["--max-value=100"]);
    let mut client = server.client();
    assert_eq!(client.say("PFADD h a b c"), ":1\r\n");
    let before = client.say("GET h");
    let many = (0..100).map(|number| format!(" {number}")).collect::<String>();
    let too_long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n";
    assert_eq!(client.say(&format!("PFADD h{many}")), too_long);
    assert_eq!(client.say("GET h"), before);
}
