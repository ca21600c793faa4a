//! The configuration file: any text is a configuration or problems by name. What `larder config print` prints reads back as the same settings.
#![no_main]
use larder_config::{ConfigInput, Env, Layer, Machine, load_config, print_config};
use libfuzzer_sys::fuzz_target;
use std::{fs, path::PathBuf, sync::LazyLock};

static PLACE: LazyLock<(PathBuf, Machine)> = LazyLock::new(|| {
    let file = std::env::temp_dir().join(format!("larder-fuzz-{}.toml", std::process::id()));
    (file, Machine::detect())
});

fuzz_target!(|text: &str| {
    let (file, machine) = &*PLACE;
    let load = |text: &str| {
        fs::write(file, text).expect("a file");
        let input = ConfigInput {
            flags: Layer::default(),
            file: Some(file.clone()),
            env: Env::new(),
            machine: machine.clone(),
        };
        load_config(input)
    };
    let Ok(config) = load(text) else { return };
    let printed = print_config(&config);
    // Secrets are left out, and a configuration may need them.
    if printed.contains("; the secret is not shown") {
        return;
    }
    let again = load(&printed).unwrap_or_else(|problems| panic!("{problems}\n{printed}"));
    assert_eq!(config.settings, again.settings);
});
