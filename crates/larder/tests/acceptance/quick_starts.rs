//! The programs of `docs/quick-starts.md`, as a reader copies them, and the caches of frameworks that
//! it names, against Larder alone.
use crate::larder::Larder;
use std::{path::Path, process::Command};

/// Command lines in `.deps`, where `tests/install_tools` leaves what they need.
const PROGRAMS: [&str; 11] = [
    "python/bin/python ../tests/clients/python/quick.py",
    "node node/quick.js",
    "go-matrix/quick",
    "java -cp java/jedis/* ../tests/clients/java/Quick.java",
    "./rust-target/debug/quick",
    "php ../tests/clients/php/quick.php",
    "ruby ../tests/clients/ruby/quick.rb",
    "python/bin/python ../tests/clients/python/django_cache.py",
    "ruby ../tests/clients/ruby/rails_cache.rb",
    "php ../tests/clients/php/laravel_cache.php",
    "node node/next_cache.js",
];

#[test]
fn each_program_prints_what_the_page_says() {
    let deps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps");
    for line in PROGRAMS {
        let mut words = line.split(' ');
        let program = words.next().unwrap();
        // One of PATH, or one in .deps.
        let program = if program.contains('/') { deps.join(program) } else { program.into() };
        let larder = Larder::start(&["--threads", "1"]);
        let output = Command::new(program)
            .args(words)
            .current_dir(&deps)
            .env("REDIS_URL", format!("redis://127.0.0.1:{}", larder.redis))
            .output()
            .unwrap_or_else(|error| panic!("{line}: {error}. Type: make tools"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.success(), &output.stdout[..]), (true, &b"Ada\n1\n"[..]), "{line}: {said}");
    }
}
