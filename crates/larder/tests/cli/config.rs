//! `larder config …`, and what stops the start.
use super::run;
use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

#[test]
fn version_and_help_are_no_failures() {
    let version = run(&["--version"], &[], b"");
    assert_eq!((version.code, version.text()), (0, concat!("larder ", env!("CARGO_PKG_VERSION"), "\n")));
    let help = run(&["--help"], &[], b"");
    assert_eq!(help.code, 0);
    for command in ["serve", "get", "set", "del", "config"] {
        assert!(help.text().contains(&format!("\n  {command}")), "{}", help.text());
    }
    let serve = run(&["serve", "--help"], &[], b"");
    assert!(serve.code == 0 && serve.text().contains("--max-memory <SIZE>"));
}

#[test]
fn wrong_usage_exits_2_and_suggests() {
    for args in [&["--max-memry", "1"][..], &["serve", "--max-memry", "1"]] {
        let wrong = run(args, &[], b"");
        assert_eq!((wrong.code, wrong.text()), (2, ""));
        assert!(wrong.error.contains("'--max-memory'"), "{}", wrong.error);
    }
    assert_eq!(run(&["sevre"], &[], b"").code, 2);
    assert_eq!(run(&["config"], &[], b"").code, 2);
}

#[test]
fn a_wrong_configuration_stops_the_start_with_every_problem() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("larder.toml");
    fs::write(&path, "ttl = \"10s\"\nmax-memroy = 5\n").unwrap();
    let file = path.to_str().unwrap();
    let expected = format!(
        "larder: env LARDER_TLL: no such setting, did you mean LARDER_TTL?\n\
         larder: {file}:2: max-memroy: no such setting, did you mean max-memory?\n\
         larder: flag --max-keys: max-keys: `x` is not a whole number\n"
    );
    for args in [
        &["--config", file, "--max-keys", "x"][..],
        &["serve", "--config", file, "--max-keys", "x"],
        &["config", "check", "--config", file, "--max-keys", "x"],
        &["config", "print", "--config", file, "--max-keys", "x"],
    ] {
        let wrong = run(args, &[("LARDER_TLL", "1s")], b"");
        assert_eq!((wrong.code, wrong.text(), wrong.error.as_str()), (2, "", expected.as_str()));
    }
}

#[test]
fn check_says_that_all_is_well_and_warns() {
    let checked = run(&["config", "check", "--ttl", "1s"], &[("REDIS_HOST", "r")], b"");
    assert_eq!((checked.code, checked.text(), checked.error.as_str()), (0, "The configuration is valid.\n", ""));
    let large = run(&["config", "check", "--max-memory", "900TiB"], &[], b"");
    assert_eq!((large.code, large.text()), (2, ""));
    assert!(large.error.starts_with("larder: max-memory is 900TiB in all, more than 4 times the "), "{}", large.error);
}

#[test]
fn what_is_printed_can_be_used_as_the_file() {
    let vars = [("LARDER_TTL", "10s"), ("PROXY_MAX_KEYS", "7")];
    let printed = run(&["config", "print", "--grace", "3s"], &vars, b"");
    assert_eq!((printed.code, printed.error.as_str()), (0, ""));
    for (name, rest) in [
        ("ttl", "= \"10s\" # env LARDER_TTL"),
        ("max-keys", "= 7 # env PROXY_MAX_KEYS"),
        ("grace", "= \"3s\" # flag --grace"),
        ("redis", "= \"127.0.0.1:6380\" # default"),
    ] {
        let line = printed.text().lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words.join(" "), format!("{name} {rest}"));
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("printed.toml");
    fs::write(&path, &printed.out).unwrap();
    let again = run(&["config", "print"], &[("LARDER_CONFIG", path.to_str().unwrap())], b"");
    let values = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split(" #").next().unwrap().trim_end().to_string()).collect()
    };
    assert_eq!(values(again.text()), values(printed.text()));
    assert!(again.text().contains(&format!("# {}:", path.display())), "{}", again.text());
}

#[test]
fn only_what_is_set_is_printed_if_asked() {
    let vars = [("LARDER_TTL", "10s")];
    let args = ["config", "print", "--changed", "--grace", "3s"];
    let printed = run(&args, &vars, b"");
    let lines: Vec<_> = printed.text().lines().filter(|line| !line.is_empty()).map(str::trim_end).collect();
    assert_eq!(lines, ["ttl = \"10s\"   # env LARDER_TTL", "grace = \"3s\"  # flag --grace"]);
    let document: serde_json::Value =
        serde_json::from_slice(&run(&[&args[..], &["--json"]].concat(), &vars, b"").out).unwrap();
    let names: Vec<_> = document["settings"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["ttl", "grace"]);
}

#[test]
fn docs_prints_the_reference() {
    let docs = run(&["config", "docs"], &[], b"");
    assert_eq!(docs.code, 0);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/configuration.md");
    assert_eq!(docs.text(), fs::read_to_string(path).unwrap());
}

#[test]
fn larder_alone_serves_as_the_variables_say() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_larder"))
        .env_clear()
        .envs([
            ("PROXY_HOST", "127.0.0.1"),
            ("PROXY_PORT", "0"),
            ("LARDER_REDIS", "127.0.0.1:0,127.0.0.1:0"),
            ("LARDER_ADMIN", "off"),
            ("LARDER_MAX_MEMORY", "1MiB"),
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(ready["http"].as_array().unwrap().len(), 1, "{line}");
    assert_eq!(ready["redis"].as_array().unwrap().len(), 2, "{line}");
    assert!(ready["admin"].is_null(), "{line}");
}

#[test]
fn a_converted_gcache_file_is_a_valid_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let (gcache, larder) = (dir.path().join("gcache.toml"), dir.path().join("larder.toml"));
    for role in ["standalone", "master", "slave"] {
        for (save, restore) in [("false", "false"), ("true", "false"), ("false", "true"), ("true", "true")] {
            let text = format!(
                "[general]\nlog_level = \"notice\"\nlog_format = \"long\"\nlog_out = \"stderr\"\n\
                 [storage]\nshards = 16\nkey_exp_check_interval = 10\n\
                 [replication]\nnode_role = \"{role}\"\nrestore_from_file = {restore}\nsave_to_file = {save}\n\
                 cache_file = \"./cache_dump.dat\"\nfile_write_period = 30\ndump_update_period = 20\n\
                 master_addr = \"127.0.0.1:4545\"\nmaster_secret = \"supersecret\"\n\
                 [client-HTTP]\naddress = \"0.0.0.0\"\nport = \"8080\"\nprefix = \"cache/v1\"\nidle_timeout = 900\n"
            );
            fs::write(&gcache, text).unwrap();
            let converted = run(&["config", "convert", gcache.to_str().unwrap()], &[], b"");
            assert_eq!((converted.code, converted.error.as_str()), (0, ""));
            fs::write(&larder, &converted.out).unwrap();
            let checked = run(&["config", "check", "--config", larder.to_str().unwrap()], &[], b"");
            assert_eq!((checked.code, checked.text()), (0, "The configuration is valid.\n"), "{}", checked.error);
            let has = |line: &str| converted.text().lines().any(|other| other == line);
            assert!(has("http = [\"0.0.0.0:8080\"]") && has("item-prefix = \"/cache/v1\""));
            let snapshots = save == "true" || restore == "true" && role != "slave";
            assert_eq!(has("snapshot-file = \"./cache_dump.larder\""), snapshots, "{}", converted.text());
            assert_eq!(has("redis = [\"127.0.0.1:4545\"]"), role == "master");
        }
    }
    let missing = run(&["config", "convert", "/no/such/file"], &[], b"");
    assert!(missing.code == 2 && missing.error.contains("/no/such/file"), "{}", missing.error);
}
