//! `larder advise`: the hit ratio at other sizes, and the size for a wanted one, by `/v1/what-if`.
use super::{get_set_del, server_status::Asked, tls_args};
use crate::cli::{
    exit_codes::{FAILED, USAGE},
    output,
};
use clap::{Arg, ArgMatches, Command};
use larder_units::show_rounded_size;
use serde_json::Value;
use std::{fmt::Write as _, process::ExitCode};

/// Fewer reads say more about the start than about the load.
const ENOUGH_READS: u64 = 500;

/// `larder advise [URL] [--hit-ratio 0.95]`
pub(crate) fn command() -> Command {
    let help = "The admin or HTTP listener: http://HOST:PORT or https://HOST:PORT";
    let url = get_set_del::http_url(get_set_del::ADMIN_URL, help);
    let ratio = Arg::new("hit-ratio")
        .long("hit-ratio")
        .value_name("RATIO")
        .default_value("0.95")
        .value_parser(ratio)
        .help("The hit ratio that is wanted, from 0 to 1 or in per cent: 0.95, 95%");
    Command::new("advise")
        .about("Show the hit ratio that a running server would have at other sizes")
        .args(url)
        .args([ratio, output::json(), get_set_del::timeout()])
        .args(tls_args::args())
        .after_help("The ratios are estimated from a sample of the keys.")
}

fn ratio(text: &str) -> Result<f64, String> {
    let (number, whole) = match text.strip_suffix('%') {
        Some(per_cent) => (per_cent.trim_end(), 100.0),
        None => (text, 1.0),
    };
    let ratio = number.parse::<f64>().ok().map(|number| number / whole);
    ratio
        .filter(|ratio| (0.0..=1.0).contains(ratio))
        .ok_or_else(|| "expected a number from 0 to 1, or per cent: 0.95, 95%".to_owned())
}

pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    let asked = match Asked::of(matches) {
        Ok(asked) => asked,
        Err(error) => return get_set_del::fail(USAGE, &error),
    };
    let ratio = matches.get_one::<f64>("hit-ratio").expect("it has a default");
    match asked.document(&format!("/v1/what-if?hit-ratio={ratio}")) {
        Ok(document) if matches.get_flag("json") => output::print_json(&document),
        Ok(document) => output::print(&advice(&document)),
        Err(error) => get_set_del::fail(FAILED, &error),
    }
}

fn advice(document: &Value) -> String {
    let groups = document["groups"].as_array().map(Vec::as_slice).unwrap_or_default();
    if groups.is_empty() {
        return "Nothing is simulated: no group of the server has a memory tier.\n".to_owned();
    }
    let groups: Vec<String> = groups.iter().map(group_advice).collect();
    groups.join("\n")
}

fn per_cent(ratio: &Value) -> String {
    ratio.as_f64().map_or_else(|| "-".to_owned(), |ratio| format!("{:.1} %", 100.0 * ratio))
}

/// `64MiB`, `64MiB and 1000 keys`
fn bounds(of: &Value) -> String {
    let memory = show_rounded_size(of["max_memory"].as_u64().unwrap_or(0));
    match of["max_keys"].as_u64() {
        Some(keys) => format!("{memory} and {keys} keys"),
        None => memory,
    }
}

fn group_advice(group: &Value) -> String {
    let name = group["group"].as_str().unwrap_or_default();
    let reads = group["reads"].as_u64().unwrap_or(0);
    let mut text =
        format!("group {name}: {}, {reads} reads, {} hits\n\n", bounds(group), per_cent(&group["hit_ratio"]));
    if reads < ENOUGH_READS {
        let _ = writeln!(text, "There is no advice before {ENOUGH_READS} reads.");
        return text;
    }
    let sizes = group["sizes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let header = ["size", "bound", "hit ratio", "with LRU"].map(str::to_owned);
    let row = |size: &Value| {
        let factor = size["factor"].as_f64().unwrap_or_default();
        [format!("{factor} x"), bounds(size), per_cent(&size["hit_ratio"]), per_cent(&size["lru_hit_ratio"])]
    };
    let rows: Vec<[String; 4]> = sizes.iter().map(row).collect();
    output::columns(&header, &rows, &[1], &mut text);
    let wanted = &group["wanted"];
    let ratio = per_cent(&wanted["hit_ratio"]);
    let factor = |size: Option<&Value>| size.and_then(|size| size["factor"].as_f64()).unwrap_or_default();
    let smallest = factor(sizes.first());
    let _ = match wanted["factor"].as_f64() {
        Some(factor) if factor <= smallest => {
            writeln!(
                text,
                "\n{ratio} need {factor} of the size at most: {}.\n{}",
                bounds(wanted),
                to_write(name, wanted)
            )
        }
        Some(factor) => writeln!(
            text,
            "\n{ratio} need about {factor:.2} times the size: {}.\n{}",
            bounds(wanted),
            to_write(name, wanted)
        ),
        None => {
            let largest = sizes.last().map(|size| per_cent(&size["hit_ratio"])).unwrap_or_default();
            let _ = writeln!(
                text,
                "\nAt {} times the size the hit ratio is {largest}: {ratio} is out of reach.",
                factor(sizes.last())
            );
            let at = |size: Option<&Value>| size.and_then(|size| size["hit_ratio"].as_f64());
            let present = at(sizes.iter().find(|size| size["factor"].as_f64() == Some(1.0)));
            match (present, at(sizes.last())) {
                (Some(present), Some(largest)) if largest - present < 0.01 => writeln!(
                    text,
                    "More memory gains less than 1 %: the other misses are first reads, or expired or changed keys \
                     (larder_cache_miss_causes_total)."
                ),
                _ => Ok(()),
            }
        }
    };
    text
}

/// What to write into the configuration: in numbers that it takes.
fn to_write(group: &str, wanted: &Value) -> String {
    let mebibytes = wanted["max_memory"].as_u64().unwrap_or(0).div_ceil(1 << 20);
    let keys = wanted["max_keys"].as_u64().map_or(String::new(), |keys| format!(", max-keys = {keys}"));
    let place = if group == "default" { String::new() } else { format!(" in [groups.{group}]") };
    format!("To set it{place}: max-memory = \"{mebibytes}MiB\"{keys}. A reload applies it.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document(factor: Value) -> Value {
        let size = |factor: f64, ratio: f64| json!({"factor": factor, "max_memory": (factor * 67_108_864.0) as u64, "max_keys": null, "hit_ratio": ratio, "lru_hit_ratio": ratio - 0.1});
        json!({"groups": [{
            "group": "default", "max_memory": 67_108_864, "max_keys": null, "reads": 1000, "hit_ratio": 0.8,
            "sizes": [size(0.5, 0.7), size(1.0, 0.8), size(8.0, 0.975)],
            "wanted": {"hit_ratio": 0.95, "factor": factor, "max_memory": 134_217_728, "max_keys": null},
        }]})
    }

    #[test]
    fn the_advice_names_the_size() {
        let text = advice(&document(json!(2.0)));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "group default: 64MiB, 1000 reads, 80.0 % hits");
        assert_eq!(lines[3].split_whitespace().collect::<Vec<_>>(), ["0.5", "x", "32MiB", "70.0", "%", "60.0", "%"]);
        assert_eq!(lines[7], "95.0 % need about 2.00 times the size: 128MiB.");
        assert_eq!(lines[8], "To set it: max-memory = \"128MiB\". A reload applies it.");
        assert!(advice(&document(json!(0.5))).contains("\n95.0 % need 0.5 of the size at most: 128MiB.\nTo set it"));
        let wanted = json!({ "max_memory": 134_217_729, "max_keys": 10 });
        let text = to_write("a", &wanted);
        assert_eq!(text, "To set it in [groups.a]: max-memory = \"129MiB\", max-keys = 10. A reload applies it.");
        let never = advice(&document(Value::Null));
        assert!(never.ends_with("At 8 times the size the hit ratio is 97.5 %: 95.0 % is out of reach.\n"), "{never}");
        let mut flat = document(Value::Null);
        flat["groups"][0]["sizes"][2]["hit_ratio"] = json!(0.805);
        assert!(
            advice(&flat).contains("is 80.5 %: 95.0 % is out of reach.\nMore memory gains less than 1 %"),
            "{}",
            advice(&flat)
        );
        let mut early = document(json!(2.0));
        early["groups"][0]["reads"] = json!(499);
        assert!(advice(&early).ends_with("hits\n\nThere is no advice before 500 reads.\n"), "{}", advice(&early));
        assert!(advice(&json!({"groups": []})).starts_with("Nothing is simulated"));
    }

    #[test]
    fn ratios_are_parts_or_per_cent() {
        assert_eq!([ratio("0.95"), ratio("95%"), ratio("1")], [Ok(0.95), Ok(0.95), Ok(1.0)]);
        assert!(["95", "-1", "NaN", "101%", ""].into_iter().all(|text| ratio(text).is_err()));
    }
}
