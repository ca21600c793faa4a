"""The documentation as a site: made by deploy/site/build, which checks its links, and searched in Chromium."""

import importlib.machinery
import importlib.util
import re
import tempfile
import unittest
from pathlib import Path

from support import ROOT, run

BUILD = ROOT / "deploy/site/build"


def module():
    """The script, for its parts."""
    loader = importlib.machinery.SourceFileLoader("site_build", str(BUILD))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    loaded = importlib.util.module_from_spec(spec)
    loader.exec_module(loaded)
    return loaded


class Site(unittest.TestCase):
    def test_it_has_all_pages_and_its_search_finds_them(self):
        with tempfile.TemporaryDirectory() as folder:
            made = run(BUILD, folder)
            self.assertEqual((made.returncode, made.stderr), (0, ""), made.stderr)
            site = Path(folder)
            self.assertEqual(made.stdout, f"{folder}/index.html\n")
            pages = {path.relative_to(ROOT).with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
            missing = [str(page) for page in pages if page.stem != "README" and not (site / page).exists()]
            self.assertEqual(missing, [])
            found = run("node", ROOT / "tests/console/site.js", site / "index.html", "single-flight")
            self.assertEqual(found.returncode, 0, found.stdout + found.stderr)
            self.assertIn("docs/", found.stdout)

    def test_links_that_lead_nowhere_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder)
            (site / "a.html").write_text('<h1 id="top">A</h1><a href="#top"></a><a href="b/#x"></a><a href="https://example.org/"></a>')
            (site / "b").mkdir()
            (site / "b/index.html").write_text('<a id="x" href="../a.html#none"></a><img src="c.png"><a href="../../etc"></a>')
            wrong = [re.sub(r"^.*?: ", "", line) for line in module().broken(site)]
            self.assertEqual(wrong, ["../a.html#none: no such place", "c.png: no such page", "../../etc: no such page"])


if __name__ == "__main__":
    unittest.main()
