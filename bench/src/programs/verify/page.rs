//! The page of a run in a real browser: Chromium reads it, draws it, and is asked what it has.
use super::own_runs::{KEYS, larder_bench, redis};
use crate::lib::{
    external_generators,
    figures::{self, Figure, FigureTarget},
    servers::require,
};
use anyhow::{Context, ensure};
use std::{io::Write, path::Path, process::Command};

/// Two runs on one page, which is kept as `screenshot` if that is wanted.
pub(super) fn check(
    (server_core, core): (usize, usize),
    screenshot: Option<&Path>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let chromium = require("chromium").context("the page is looked at with Chromium")?;
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (first, page, picture) = (path("first.json"), path("page.html"), path("page.png"));
    let (_server, url) = redis(server_core, core)?;
    let load = ["--rate", "5000", "--connections", "4", "--duration", "2s"];
    larder_bench(core, &url, &[KEYS, &load, &["--name", "first", "--save", &first]].concat())?;
    let more = ["--name", "second", "--compare", &first, "--report", &page];
    larder_bench(core, &url, &[KEYS, &load, &more].concat())?;
    let browse = |option: &str| -> anyhow::Result<String> {
        let mut command = Command::new(&chromium);
        command.args(["--headless", "--disable-gpu", "--window-size=1120,2300", option]);
        if rustix::process::getuid().is_root() {
            command.arg("--no-sandbox");
        }
        external_generators::output(core, command.arg(format!("file://{page}")))
    };
    let written = std::fs::read_to_string(&page)?;
    let document = browse("--dump-dom")?;
    for (name, element, least) in
        [("charts", "<svg ", 4.0), ("lines", "<polyline ", 8.0), ("heat map cells", "<rect ", 100.0)]
    {
        let (has, wanted) = (document.matches(element).count(), written.matches(element).count());
        ensure!(has == wanted, "of {wanted} {name} of the page the browser has {has}");
        let name = format!("page: {name} in the browser");
        figures::line(out, &Figure::new("verify", name, has as f64, Some(FigureTarget::AtLeast(least))))?;
    }
    browse(&format!("--screenshot={picture}"))?;
    let drawn = std::fs::read(&picture).context("the browser drew nothing")?;
    // An empty page of this size packs into a few kilobytes.
    let name = "page: bytes of its screenshot".to_owned();
    figures::line(out, &Figure::new("verify", name, drawn.len() as f64, Some(FigureTarget::AtLeast(50_000.0))))?;
    screenshot.map_or(Ok(()), |to| std::fs::write(to, &drawn).with_context(|| format!("cannot write {}", to.display())))
}
