//! The progress of long commands: a bar on a terminal, nothing elsewhere.
use super::run;
use std::{fs, process::Command};

/// What a call shows on a terminal, which script(1) makes.
fn on_a_terminal(args: &[&str]) -> String {
    let larder = env!("CARGO_BIN_EXE_larder");
    let call = format!("{larder} {}", args.join(" "));
    let output = Command::new("script").args(["-qec", &call, "/dev/null"]).env("TERM", "xterm").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn long_commands_show_it_on_a_terminal_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (input, table, store, copy, again) = (path("input"), path("table"), path("store"), path("copy"), path("again"));
    fs::write(&input, "leek a vegetable\n").unwrap();
    let shown = on_a_terminal(&["table", "build", &input, "-o", &table]);
    assert!(shown.contains("reading [") && shown.contains("left"), "{shown:?}");
    let shown = on_a_terminal(&["table", "verify", &table]);
    assert!(shown.contains("reading [") && shown.contains("sound"), "{shown:?}");
    assert_eq!(run(&["table", "verify", &table], &[], b"").error, "");

    let mut larder = super::larder::Larder::start(&["--source", &format!("disk:{store}"), "--durability", "always"]);
    let url = format!("redis://127.0.0.1:{}", larder.redis);
    // More than the backup's first chunk, 1 MiB.
    assert_eq!(run(&["set", "a", "--url", &url], &[], &vec![b'x'; 2 << 20]).code, 0);
    larder.signal(rustix::process::Signal::TERM);
    assert_eq!(larder.wait().0.code(), Some(0));
    for (args, expected) in [
        (&["store", "compact", &store][..], "compacting"),
        (&["store", "verify", &store], "reading ["),
        (&["store", "backup", &store, &copy], "writing ["),
        (&["store", "restore", &copy, &again], "restoring ["),
        (&["store", "load", &input, &again], "loading ["),
    ] {
        let shown = on_a_terminal(args);
        assert!(shown.contains(expected), "{args:?}: {shown:?}");
        assert_eq!(shown.contains(" entries/s"), args[1] == "backup", "{args:?}: {shown:?}");
    }
    assert!(!run(&["store", "verify", &again], &[], b"").error.contains("reading ["));
}
