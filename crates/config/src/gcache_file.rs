//! `larder config convert`: GCache's configuration file as one of Larder's, with comments for what
//! has no counterpart.
mod converted_file;

use converted_file::ConvertedFile;
use larder_units::show_duration;
use std::{path::Path, time::Duration};
use toml::de::{DeTable, DeValue};

/// Every key that GCache reads, by table.
const KEYS: [(&str, &[&str]); 4] = [
    ("general", &["log_level", "log_format", "log_out"]),
    ("storage", &["shards", "key_exp_check_interval"]),
    (
        "replication",
        &[
            "node_role",
            "restore_from_file",
            "save_to_file",
            "cache_file",
            "file_write_period",
            "dump_update_period",
            "master_addr",
            "master_secret",
        ],
    ),
    ("client-HTTP", &["address", "port", "prefix", "idle_timeout"]),
];

/// The file as one for `larder --config`.
///
/// # Errors
/// The text is not TOML, or a key has a value that GCache would refuse.
pub fn convert_gcache(text: &str) -> Result<String, String> {
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        format!("line {}: {}", text[..at].matches('\n').count() + 1, error.message())
    })?;
    let file = GcacheFile(table.get_ref());
    let mut out = ConvertedFile::default();
    out.comment("Made by `larder config convert`.");
    file.listening(&mut out)?;
    file.storage(&mut out)?;
    file.replication(&mut out)?;
    file.general(&mut out)?;
    file.unknown(&mut out);
    Ok(out.text())
}

struct GcacheFile<'t>(&'t DeTable<'t>);

impl GcacheFile<'_> {
    fn value(&self, table: &str, key: &str) -> Option<&DeValue<'_>> {
        any_case(any_case(self.0, table)?.as_table()?, key)
    }

    fn text(&self, table: &str, key: &str) -> Result<Option<&str>, String> {
        let Some(value) = self.value(table, key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| format!("[{table}] {key}: is not a string"))
    }

    fn number(&self, table: &str, key: &str) -> Result<Option<u64>, String> {
        let Some(value) = self.value(table, key) else { return Ok(None) };
        let number = value.as_integer().and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok());
        number.map(Some).ok_or_else(|| format!("[{table}] {key}: is not a whole number from 0"))
    }

    fn switch(&self, table: &str, key: &str) -> Result<bool, String> {
        let Some(value) = self.value(table, key) else { return Ok(false) };
        value.as_bool().ok_or_else(|| format!("[{table}] {key}: is not true or false"))
    }

    fn listening(&self, out: &mut ConvertedFile) -> Result<(), String> {
        const TABLE: &str = "client-HTTP";
        let (address, port) = (self.text(TABLE, "address")?, self.text(TABLE, "port")?);
        if address.is_some() || port.is_some() {
            out.from(TABLE, "address and port");
            out.set("http", &[format!("{}:{}", bracketed(address.unwrap_or_default()), port.unwrap_or("8080"))]);
        }
        let is_master = self.text("replication", "node_role")? == Some("master");
        let master = self.text("replication", "master_addr")?.filter(|_| is_master);
        let open = |address: Option<&str>| address.is_some_and(|address| !is_local(address));
        if open(address.or(port.map(|_| ""))) || open(master.map(without_port)) {
            out.line("");
            out.comment("GCache has no users, and listens for other machines here.");
            out.set("insecure", &["true".to_owned()]);
        }
        if let Some(prefix) = self.text(TABLE, "prefix")? {
            out.from(TABLE, "prefix");
            match prefix.trim().trim_matches('/') {
                "" => {
                    out.comment("GCache answers no request without a prefix.");
                    out.set("item-prefix", &["off".to_owned()]);
                }
                prefix => out.set("item-prefix", &[format!("/{prefix}")]),
            }
        }
        if let Some(seconds) = self.number(TABLE, "idle_timeout")? {
            out.from(TABLE, "idle_timeout");
            match seconds {
                0 => out.set("idle-timeout", &["off".into()]),
                _ => out.set("idle-timeout", &[seconds_text(seconds)]),
            }
        }
        Ok(())
    }

    fn storage(&self, out: &mut ConvertedFile) -> Result<(), String> {
        const TABLE: &str = "storage";
        if let Some(shards) = self.number(TABLE, "shards")? {
            if !(1..=4096).contains(&shards) {
                return Err(format!("[{TABLE}] shards: {shards} is not within 1 and 4096"));
            }
            out.from(TABLE, "shards");
            out.comment("No counterpart: Larder chooses the number of shards by max-memory.");
        }
        if self.number(TABLE, "key_exp_check_interval")?.is_some() {
            out.from(TABLE, "key_exp_check_interval");
            out.comment("No counterpart: an expired item is never answered, and its memory is free soon after.");
        }
        out.line("");
        out.comment("GCache has these limits built in. It has none on memory; Larder's is max-memory, a quarter of the machine's unless set.");
        out.set("max-key", &["2KiB".into()]);
        out.set("max-value", &["10MiB".into()]);
        Ok(())
    }

    fn replication(&self, out: &mut ConvertedFile) -> Result<(), String> {
        const TABLE: &str = "replication";
        let role = self.text(TABLE, "node_role")?.unwrap_or("standalone");
        let address = self.text(TABLE, "master_addr")?.unwrap_or_default();
        let pull = self.number(TABLE, "dump_update_period")?;
        let secret = self.text(TABLE, "master_secret")?;
        match role {
            "standalone" => {}
            "master" => {
                out.from(TABLE, "node_role and master_addr");
                out.comment("A primary needs no role. Replicas come to its Redis listener.");
                out.set("redis", &[address.to_owned()]);
            }
            "slave" => {
                out.from(TABLE, "node_role and master_addr");
                out.comment("Where the primary's Redis listener is.");
                out.set("replica-of", &[format!("redis://{address}")]);
                if let Some(seconds) = pull.filter(|seconds| *seconds > 0) {
                    out.from(TABLE, "dump_update_period");
                    out.comment("Leave this out to follow each change at once.");
                    out.set("replication-mode", &[format!("pull:{seconds}s")]);
                }
            }
            other => return Err(format!("[{TABLE}] node_role: `{other}` is not standalone, master or slave")),
        }
        if let (Some(secret), true) = (secret, role != "standalone") {
            out.from(TABLE, "master_secret");
            out.set("replication-secret", &[secret.to_owned()]);
        }
        if role != "slave" && pull.is_some() {
            out.from(TABLE, "dump_update_period");
            out.comment(
                "No counterpart on this node: replicas follow each change, or say themselves how often they pull.",
            );
        }
        self.snapshots(out, role)
    }

    fn snapshots(&self, out: &mut ConvertedFile, role: &str) -> Result<(), String> {
        const TABLE: &str = "replication";
        let file = self.text(TABLE, "cache_file")?.unwrap_or_default();
        let saves = self.switch(TABLE, "save_to_file")?;
        let period = self.number(TABLE, "file_write_period")?;
        // GCache's slaves do not restore.
        let restores = self.switch(TABLE, "restore_from_file")? && role != "slave";
        if !(saves || restores) || file.is_empty() {
            return Ok(());
        }
        out.from(TABLE, "cache_file");
        out.comment("A snapshot has another format: `larder snapshot convert` makes one from GCache's dump.");
        out.set("snapshot-file", &[Path::new(file).with_extension("larder").to_string_lossy().into_owned()]);
        match period.filter(|seconds| saves && *seconds > 0) {
            Some(seconds) => {
                out.from(TABLE, "file_write_period");
                out.set("snapshot-interval", &[seconds_text(seconds)]);
            }
            None => out.comment("[replication] save_to_file = false: leave snapshot-interval out."),
        }
        if restores {
            out.from(TABLE, "restore_from_file");
            out.set("restore", &["true".into()]);
        }
        Ok(())
    }

    fn general(&self, out: &mut ConvertedFile) -> Result<(), String> {
        const TABLE: &str = "general";
        if let Some(level) = self.text(TABLE, "log_level")? {
            out.from(TABLE, "log_level");
            let level = match level {
                "debug" => "debug",
                "warning" => "warn",
                "error" | "critical" => "error",
                _ => "info",
            };
            out.set("log-level", &[level.into()]);
        }
        if self.text(TABLE, "log_format")?.is_some() {
            out.from(TABLE, "log_format");
            out.set("log-format", &["text".into()]);
        }
        if self.text(TABLE, "log_out")?.is_some() {
            out.from(TABLE, "log_out");
            out.comment("No counterpart: logs go to standard error, the ready line to standard output.");
        }
        Ok(())
    }

    /// Keys that GCache ignores.
    fn unknown(&self, out: &mut ConvertedFile) {
        for (table, value) in self.0 {
            let name = table.get_ref();
            let known =
                KEYS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or(&[][..], |(_, keys)| keys);
            match value.get_ref().as_table() {
                Some(keys) => keys
                    .keys()
                    .map(|key| key.get_ref())
                    .filter(|key| !known.iter().any(|known| known.eq_ignore_ascii_case(key)))
                    .for_each(|key| {
                        out.line("");
                        out.comment(&format!("[{name}] {key}: GCache has no such key."));
                    }),
                None => {
                    out.line("");
                    out.comment(&format!("{name}: GCache has no such key."));
                }
            }
        }
    }
}

/// The value of a key. GCache's library takes a key in any case, and prefers the exact name.
fn any_case<'t>(table: &'t DeTable<'_>, name: &str) -> Option<&'t DeValue<'t>> {
    let by_case = || table.iter().find(|(key, _)| key.get_ref().eq_ignore_ascii_case(name)).map(|(_, value)| value);
    table.get(name).or_else(by_case).map(|value| value.get_ref())
}

/// Whether only this machine reaches an address.
fn is_local(address: &str) -> bool {
    address == "localhost" || address.starts_with("127.") || matches!(address, "::1" | "[::1]")
}

fn without_port(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

/// An IPv6 address as it stands before a port.
fn bracketed(address: &str) -> String {
    if address.contains(':') && !address.starts_with('[') { format!("[{address}]") } else { address.to_owned() }
}

fn seconds_text(seconds: u64) -> String {
    show_duration(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings_table::find;

    const WHOLE: &str = r#"
        [general]
        log_level = "warning"
        log_format = "short"
        log_out = "stdout"
        [storage]
        shards = 3000
        key_exp_check_interval = 10
        [replication]
        node_role = "slave"
        restore_from_file = true
        save_to_file = true
        cache_file = "./cache_dump.dat"
        file_write_period = 30
        dump_update_period = 20
        master_addr = "10.0.0.1:4545"
        master_secret = "s\"x"
        color = 1
        [client-HTTP]
        address = "::"
        port = "8080"
        prefix = "cache/v1"
        idle_timeout = 900
    "#;

    #[test]
    fn every_key_is_converted_or_commented_on() {
        let converted = convert_gcache(WHOLE).expect("a file");
        for (table, keys) in KEYS {
            for key in keys {
                // A slave does not restore.
                let is_named =
                    converted.lines().any(|line| line.starts_with(&format!("# [{table}]")) && line.contains(key));
                assert!(is_named || matches!(*key, "restore_from_file" | "save_to_file"), "{key}: {converted}");
            }
        }
        for line in [
            "http = [\"[::]:8080\"]",
            "item-prefix = \"/cache/v1\"",
            "idle-timeout = \"15m\"",
            "log-level = \"warn\"",
            "# [replication] color: GCache has no such key.",
        ] {
            assert!(converted.lines().any(|other| other == line), "{line}: {converted}");
        }
        for line in [
            "replica-of = \"redis://10.0.0.1:4545\"",
            "replication-mode = \"pull:20s\"",
            "snapshot-interval = [\"30s\"]",
        ] {
            let name = line.split(' ').next().unwrap_or_default();
            let is_setting = find(name).is_some();
            assert_eq!(converted.lines().any(|other| other == line), is_setting, "{line}: {converted}");
        }
    }

    #[test]
    fn keys_are_read_in_any_case() {
        let converted =
            convert_gcache("[Client-http]\nAddress = \"127.0.0.1\"\nPORT = \"81\"\nother = 1").expect("a file");
        assert!(converted.contains("http = [\"127.0.0.1:81\"]"), "{converted}");
        assert_eq!(converted.matches("GCache has no such key").count(), 1, "{converted}");
        // The exact name comes first.
        let converted =
            convert_gcache("[client-HTTP]\nIdle_timeout = 2\nidle_timeout = 4\nIDLE_TIMEOUT = 8").expect("a file");
        assert!(converted.contains("\nidle-timeout = \"4s\"\n"), "{converted}");
    }

    #[test]
    fn an_open_address_is_marked_insecure() {
        for (http, role, master, is_open) in [
            ("127.0.0.1", "standalone", ":4545", false),
            ("127.0.0.1", "master", "127.0.0.1:4545", false),
            ("127.0.0.1", "master", ":4545", true),
            ("localhost", "master", "[::1]:4545", false),
            ("localhost", "slave", "10.0.0.1:4545", false),
            ("", "standalone", "", true),
        ] {
            let text = format!(
                "[replication]\nnode_role = \"{role}\"\nmaster_addr = \"{master}\"\n[client-HTTP]\naddress = \"{http}\""
            );
            let converted = convert_gcache(&text).expect("a file");
            assert_eq!(converted.contains("\ninsecure = true\n"), is_open, "{http} {role} {master}: {converted}");
        }
    }

    #[test]
    fn what_gcache_refuses_is_an_error() {
        for (text, error) in [
            ("[storage]\nshards = ", "line 2: "),
            ("[storage]\nshards = 0", "shards: 0 is not within"),
            ("[storage]\nshards = \"16\"", "is not a whole number"),
            ("[replication]\nnode_role = \"leader\"", "`leader` is not standalone"),
            ("[client-HTTP]\nport = 8080", "port: is not a string"),
            ("[replication]\nsave_to_file = 1", "is not true or false"),
        ] {
            let said = convert_gcache(text).expect_err(text);
            assert!(said.contains(error), "{said}");
        }
        assert!(convert_gcache("").is_ok());
    }
}
