//! Users log in like with memcached's auth file, and have their rules.
use super::wire::{Wire, start};
use std::fs;

#[test]
fn a_client_logs_in_before_anything_else() {
    let larder = start(&["--password=secret"]);
    let mut wire = Wire::larder(&larder);
    for (said, expected) in [
        ("get a\r\n", "CLIENT_ERROR unauthenticated"),
        ("set x 0 0 8\r\ndefault \r\n", "CLIENT_ERROR bad authentication token format"),
        ("set x 0 0 13\r\ndefault wrong\r\n", "CLIENT_ERROR authentication failure"),
        ("set x 0 0 14\r\ndefault secret\r\n", "STORED"),
        ("set a 0 0 1\r\nv\r\n", "STORED"),
        ("get a\r\n", "VALUE a 0 1"),
    ] {
        wire.send(said);
        assert_eq!(wire.line(), expected, "{said:?}");
    }
    // The login is not a value.
    assert_eq!(Wire::larder(&larder).ask_after_login("get x\r\n"), "END\r\n");
}

impl Wire {
    fn ask_after_login(&mut self, said: &str) -> String {
        self.send("set x 0 0 14\r\ndefault secret\r\n");
        assert_eq!(self.line(), "STORED");
        self.ask(said)
    }
}

#[test]
fn rules_of_users_hold() {
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("users.acl");
    fs::write(&file, "user default off\nuser reader on >pw ~r:* +get +info\nuser writer on >pw ~* +@all\n").unwrap();
    let larder = start(&[&format!("--users-file={}", file.display())]);
    let login = |name: &str| {
        let mut wire = Wire::larder(&larder);
        let credentials = format!("{name} pw");
        wire.send(format!("set x 0 0 {}\r\n{credentials}\r\n", credentials.len()));
        assert_eq!(wire.line(), "STORED");
        wire
    };
    assert_eq!(login("writer").ask("set r:a 0 0 1\r\nv\r\nset b 0 0 1\r\nv\r\n"), "STORED\r\nSTORED\r\n");
    let mut reader = login("reader");
    assert_eq!(reader.ask("get r:a\r\n"), "VALUE r:a 0 1\r\nv\r\nEND\r\n");
    assert_eq!(reader.ask("mg r:a v\r\n"), "VA 1\r\nv\r\n");
    for said in [
        "get b\r\n",
        "get r:a b\r\n",
        "gat 0 r:a\r\n",
        "set r:a 0 0 1\r\nw\r\n",
        "append r:a 0 0 1\r\nw\r\n",
        "incr r:a 1\r\n",
        "delete r:a\r\n",
        "touch r:a 0\r\n",
        "flush_all\r\n",
        "mg r:a v T0\r\n",
        "mg b v\r\n",
        "ms r:a 1\r\nw\r\n",
        "md r:a\r\n",
        "ma r:a\r\n",
        "me b\r\n",
    ] {
        let answer = reader.ask(said);
        assert!(answer.starts_with("CLIENT_ERROR user reader may not do this"), "{said:?}: {answer}");
    }
    assert!(reader.ask("stats\r\n").starts_with("STAT pid"));
}
