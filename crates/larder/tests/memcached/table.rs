//! Every command in every outcome, told to Larder and to memcached: both answer the same.
use super::wire::{Memcached, Wire, start};

/// What is said, and what both must answer; empty: only that both answer the same.
const TABLE: &[(&str, &str)] = &[
    ("get a\r\n", "END\r\n"),
    ("set a 5 0 1\r\nv\r\n", "STORED\r\n"),
    ("get a b a\r\n", "VALUE a 5 1\r\nv\r\nVALUE a 5 1\r\nv\r\nEND\r\n"),
    ("set a 5 0 1 noreply\r\nw\r\nget a\r\n", "VALUE a 5 1\r\nw\r\nEND\r\n"),
    ("set e 0 0 0\r\n\r\nget e\r\n", "STORED\r\nVALUE e 0 0\r\n\r\nEND\r\n"),
    ("add a 1 0 1\r\nx\r\nadd n 1 0 1\r\nx\r\n", "NOT_STORED\r\nSTORED\r\n"),
    (
        "replace a 7 0 1\r\ny\r\nreplace m 7 0 1\r\ny\r\nget a\r\n",
        "STORED\r\nNOT_STORED\r\nVALUE a 7 1\r\ny\r\nEND\r\n",
    ),
    ("append a 9 0 2\r\n12\r\nprepend a 9 0 1\r\n0\r\nget a\r\n", "STORED\r\nSTORED\r\nVALUE a 7 4\r\n0y12\r\nEND\r\n"),
    ("append m 0 0 1\r\nx\r\nprepend m 0 0 1\r\nx\r\n", "NOT_STORED\r\nNOT_STORED\r\n"),
    ("cas m 0 0 1 1\r\nx\r\ncas a 0 0 1 99999999\r\nx\r\ncas a 0 0 1 0\r\nx\r\n", "NOT_FOUND\r\nEXISTS\r\nEXISTS\r\n"),
    ("set c 0 0 2\r\n10\r\nincr c 5\r\ndecr c 6\r\nget c\r\n", "STORED\r\n15\r\n9\r\nVALUE c 0 2\r\n9 \r\nEND\r\n"),
    ("decr c 100\r\nincr c 18446744073709551615\r\nincr c 2\r\nget c\r\n", ""),
    ("incr m 1\r\ndecr m 1\r\nincr a 1\r\nincr e 1\r\nincr c x\r\nincr c -1\r\n", ""),
    ("set f 3 0 1\r\n9\r\nincr f 1\r\nget f\r\n", "STORED\r\n10\r\nVALUE f 3 2\r\n10\r\nEND\r\n"),
    ("set x 0 0 3\r\n5 5\r\nincr x 1\r\nset x 0 0 2\r\n 5\r\nincr x 1\r\nset x 0 0 2\r\n-5\r\nincr x 1\r\n", ""),
    ("touch a 0\r\ntouch m 0\r\ntouch a x\r\n", "TOUCHED\r\nNOT_FOUND\r\nCLIENT_ERROR invalid exptime argument\r\n"),
    ("gat 0 a m\r\ngat\r\ngat 0\r\ngat x a\r\n", ""),
    ("touch n -1\r\nget n\r\n", "TOUCHED\r\nEND\r\n"),
    ("set n 0 -1 1\r\nv\r\nget n\r\nadd n 0 0 1\r\nw\r\n", "STORED\r\nEND\r\nSTORED\r\n"),
    ("set n 0 2592001 1\r\nv\r\nget n\r\n", "STORED\r\nEND\r\n"),
    ("delete n\r\ndelete a\r\ndelete a\r\ndelete a 0\r\ndelete a 1\r\ndelete a noreply\r\n", ""),
    ("set a 0 0 1\r\nvv\r\nget a\r\n", ""),
    ("set a 0 0 -1\r\nx y\r\nget a\r\n", ""),
    ("set a x 0 1\r\nget a\r\n", ""),
    ("incr\r\ntouch\r\nset\r\ncas\r\nget\r\ngets\r\ndelete\r\nmg\r\nms\r\nmd\r\nma\r\nme\r\nmx\r\n", ""),
    ("verbosity\r\nverbosity 1\r\nverbosity x\r\nverbosity 1 noreply\r\nbget a\r\nshutdown\r\n", ""),
    ("set a 3 0 2\r\nhi\r\nmg a\r\nmg a v\r\nmg a s v f k q O77\r\nmg m v k O1\r\nmg m v q\r\nmg a t\r\n", ""),
    (
        "ms a S1\r\nms a 2 F4 T0\r\nhi\r\nmg a v f\r\nms a 2 q\r\nho\r\nms a 2 k Oabc\r\nhu\r\nms a 2 x\r\nhi\r\nmg a x\r\n",
        "",
    ),
    (
        "ms a 2 ME\r\nhi\r\nms b2 2 ME\r\nhi\r\nms a 2 MA\r\n++\r\nms a 2 MP\r\n--\r\nms a 1 MR\r\nr\r\nms m 1 MR\r\nr\r\n",
        "",
    ),
    (
        "ms m 1 MA\r\nr\r\nms a 1 MX\r\nr\r\nms a 1 C99999999\r\nr\r\nms m 1 C1\r\nr\r\nms a 1 C99999999 MA\r\nr\r\nmg a v\r\n",
        "",
    ),
    ("ms a 2\r\nhix\r\nmg a v\r\nms a 2 Fx\r\nhi\r\nms a 2 v v\r\nhi\r\nms a -1\r\nms a\r\n", ""),
    ("ms Zm9v 2 b\r\nhi\r\nmg Zm9v b v k\r\nget foo\r\nmg !! b v\r\nmd Zm9v b k q\r\nmg Zm9v b k\r\n", ""),
    ("ms w 1\r\nv\r\nmd w I T30\r\nmg w v\r\nmg w v\r\nmg w v s O1\r\nms w 2\r\nvv\r\nmg w v\r\n", ""),
    ("mg viv N30 v\r\nmg viv N30 v\r\nms viv 1\r\nv\r\nmg viv N30 v\r\n", ""),
    ("ms rec 1 T20\r\nv\r\nmg rec R30 v\r\nmg rec R30 v\r\nmg rec R10 v\r\n", ""),
    (
        "ma n9\r\nma n9 N0 J13 v\r\nma n9 v\r\nma n9 D10 MD v\r\nma n9 D100 M- v\r\nma n9 q\r\nma n9 v k O1\r\nma a\r\nma m q k\r\n",
        "",
    ),
    ("md a\r\nmd a k Ox\r\nmd a q\r\nmd n9 q\r\nmd n9 C1\r\nmd w C99999999 k\r\nmd a !\r\nmd a k k\r\n", ""),
    ("me m\r\n", "EN\r\n"),
    ("ms u 1\r\nv\r\nmg u h u\r\nmg u h\r\nmg u h u\r\n", "HD\r\nHD h0\r\nHD h0\r\nHD h1\r\n"),
    ("ms u 1 c k C99999999\r\nr\r\nms v 1 MR c O1\r\nr\r\n", "EX c0 ku\r\nNS c0 O1\r\n"),
    ("flush_all\r\nget a c w\r\nflush_all x\r\nflush_all noreply\r\nflush_all 0\r\n", ""),
];

#[test]
fn every_command_is_answered_like_by_memcached() {
    let (larder, memcached) = (start(&["--max-value=1MiB"]), Memcached::start());
    let (mut ours, mut theirs) = (Wire::larder(&larder), memcached.client());
    let mut wrong = Vec::new();
    for (said, expected) in TABLE {
        let (our, their) = (ours.ask(said), theirs.ask(said));
        if our != their || !expected.is_empty() && our != *expected {
            wrong.push(format!("{said:?}\n  larder    {our:?}\n  memcached {their:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What Larder says of itself, or of what it does otherwise.
#[test]
fn differences_are_as_documented() {
    let larder = start(&["--max-value=1MiB"]);
    let mut ours = Wire::larder(&larder);
    for (said, expected) in [
        ("get a\tb\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("set a 4294967296 0 1\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("stats nonsense\r\n", "ERROR\r\n"),
        ("stats reset\r\n", "RESET\r\n"),
        ("lru_crawler crawl all\r\n", "ERROR\r\n"),
        ("watch\r\n", "ERROR\r\n"),
    ] {
        assert_eq!(ours.ask(said), expected, "{said:?}");
    }
    assert!(ours.ask("version\r\n").starts_with("VERSION 1.6."));
    let stats = ours.ask("set a 0 0 1\r\nv\r\nget a b\r\nstats\r\n");
    for name in
        ["STAT pid ", "STAT cmd_get 2\r\n", "STAT get_misses 1\r\n", "STAT cmd_set 1\r\n", "STAT curr_items 1\r\n"]
    {
        assert!(stats.contains(name), "{name:?} in {stats}");
    }
    for what in ["items", "slabs", "settings"] {
        let stats = ours.ask(format!("stats {what}\r\n"));
        assert!(stats.starts_with("STAT ") && stats.ends_with("END\r\n"), "{stats}");
    }
    let shown = ours.ask("me a\r\n");
    assert!(shown.starts_with("ME a exp=-1 la=0 cas="), "{shown}");
    // Of a later memcached 1.6: a value is removed, and its entry stays.
    assert_eq!(
        ours.ask("ms x 1 F5\r\nv\r\nmd x x\r\nmg x v f\r\nmd x x I\r\nmg x v\r\n"),
        "HD\r\nHD\r\nVA 0 f0\r\n\r\nHD\r\nVA 0 X W\r\n\r\n"
    );
    // What is appended to nothing is stored with `N`, and `s` is the new length.
    assert_eq!(
        ours.ask("ms n 1 MA N30 s\r\nv\r\nms n 2 MA N30 s\r\nww\r\nms p 1 MP N30\r\nv\r\nmg n v\r\n"),
        "HD s1\r\nHD s3\r\nHD\r\nVA 3\r\nvww\r\n"
    );
    // Who has the version has the value.
    assert_eq!(ours.ask("ms y 1 E5\r\nv\r\nmg y C5 v c\r\nmg y C6 v c\r\n"), "HD\r\nHD c5\r\nVA 1 c5\r\nv\r\n");
    assert_eq!(ours.ask("mg z N30 E9 c\r\nmg z c E5\r\n"), "HD c9 W\r\nHD c9 Z\r\n");
    // A version that the client gives.
    assert_eq!(
        ours.ask("ms a 1 E77\r\nw\r\ngets a\r\ncas a 0 0 1 77\r\nx\r\n"),
        "HD\r\nVALUE a 0 1 77\r\nw\r\nEND\r\nSTORED\r\n"
    );
}
