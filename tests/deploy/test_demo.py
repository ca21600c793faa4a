"""`make demo` with the programs under test in the place of what make would build: its page in Chromium, and its charts."""

import json
import re
import signal
import tempfile
import xml.dom.minidom
from pathlib import Path

from support import ROOT, Made, run


class Demo(Made):
    def test_the_page_shows_both_shops_and_kills_their_store(self):
        for store in ("redis", "postgres"):
            with self.subTest(store):
                with self.started("demo", f"DEMO_ARGS=--store {store} --port 0") as (ready, child):
                    result = run("node", str(ROOT / "tests/console/demo.js"), ready["page"])
                    self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                # make waits for what it has started, and then ends of the signal itself.
                self.assertIn(child.returncode, (0, -signal.SIGINT))

    def test_a_run_without_a_browser_draws_charts(self):
        with tempfile.TemporaryDirectory() as folder:
            result = self.make("demo", f"DEMO_ARGS=--port 0 --out {folder} --seconds 3")
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            machine, *rows = [json.loads(line) for line in result.stdout.splitlines()]
            self.assertIn("cores", machine)
            sides = [(row["side"], row["phase"]) for row in rows]
            phases = ["calm", "without Redis", "recovery"]
            self.assertEqual(sides, [(f"{side} Larder", phase) for side in ("without", "with") for phase in phases])
            charts = {path.name: path.read_text() for path in Path(folder).iterdir()}
        documented = re.findall(r"\]\(demo/([\w.]+)\)", (ROOT / "docs/one-application.md").read_text())
        self.assertEqual(sorted(charts), sorted(documented))
        for chart in charts.values():
            xml.dom.minidom.parseString(chart)
