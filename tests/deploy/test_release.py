"""What a release publishes: the workflow as actionlint reads it, and the archive and the formula that its scripts make."""

import hashlib
import os
import re
import shutil
import tarfile
import tempfile
import unittest
from pathlib import Path

import yaml
from support import LARDER, ROOT, run

WORKFLOWS = ROOT / ".github/workflows"
TARGETS = ["aarch64-apple-darwin", "aarch64-unknown-linux-musl", "x86_64-apple-darwin", "x86_64-unknown-linux-musl"]
REPOSITORY = "https://github.com/owner/larder"


def workflow():
    return yaml.safe_load((WORKFLOWS / "release.yml").read_text())


class Workflow(unittest.TestCase):
    def test_actionlint_finds_nothing(self):
        actionlint = ROOT / ".deps/actionlint"
        self.assertTrue(actionlint.exists(), "type: make tools")
        # Of shell scripts only what actionlint itself knows: shellcheck is not on every machine.
        result = run(actionlint, "-no-color", "-shellcheck=", "-pyflakes=", *WORKFLOWS.glob("*.yml"))
        self.assertEqual((result.returncode, result.stdout), (0, ""))

    def test_scripts_that_it_calls_are_there(self):
        text = (WORKFLOWS / "release.yml").read_text()
        scripts = set(re.findall(r"deploy/\w+/\w+(?= )", text))
        self.assertEqual(scripts, {"deploy/release/pack", "deploy/release/formula", "deploy/deb/build"})
        for script in scripts:
            self.assertTrue(os.access(ROOT / script, os.X_OK), script)

    def test_the_formula_has_what_the_workflow_builds(self):
        built = workflow()["jobs"]["archives"]["strategy"]["matrix"]["include"]
        self.assertEqual(sorted(row["target"] for row in built), TARGETS)

    def test_only_the_job_that_publishes_may_write(self):
        document = workflow()
        self.assertEqual(document["permissions"], {"contents": "read"})
        rights = {name: job.get("permissions") for name, job in document["jobs"].items()}
        self.assertEqual({name for name, granted in rights.items() if granted}, {"publish"})


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="larder-release-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)

    def pack(self, into):
        result = run(ROOT / "deploy/release/pack", LARDER, "x86_64-unknown-linux-musl", self.folder / into, env={**os.environ, "LEVEL": "1"})
        self.assertEqual(result.returncode, 0, result.stderr)
        return Path(result.stdout.strip())

    def test_the_archive_has_all_and_is_always_the_same(self):
        first, second = self.pack("first"), self.pack("second")
        self.assertRegex(first.name, r"^larder-\d+\.\d+\.\d+-x86_64-unknown-linux-musl\.tar\.gz$")
        self.assertEqual(first.read_bytes(), second.read_bytes())
        with tarfile.open(first) as archive:
            names = {member.name.partition("/")[2]: member for member in archive.getmembers()}
            expected = {"larder", "larder.toml", "larder.service", "LICENSE-MIT", "man/larder.1", "completions/_larder"}
            self.assertLessEqual(expected, names.keys())
            self.assertEqual({(member.uid, member.gid) for member in names.values()}, {(0, 0)})
            self.assertEqual((names["larder"].mode, names["larder.toml"].mode), (0o755, 0o644))
            archive.extract(names["larder"], self.folder)
        packed = run(self.folder / names["larder"].name, "--version")
        self.assertEqual(packed.stdout, run(LARDER, "--version").stdout)

    def test_the_formula_has_addresses_and_checksums(self):
        sums = {f"larder-1.2.3-{target}.tar.gz": hashlib.sha256(target.encode()).hexdigest() for target in TARGETS}
        others = {"larder_1.2.3-1_amd64.deb": "0" * 64, "larder-sbom.json": "1" * 64}
        file = self.folder / "SHA256SUMS"
        file.write_text("".join(f"{sum}  {name}\n" for name, sum in {**sums, **others}.items()))
        made = run(ROOT / "deploy/release/formula", REPOSITORY, file)
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        formula = made.stdout
        self.assertNotRegex(formula, r"@[A-Z]")
        found = re.findall(r'url "([^"]+)"\n +sha256 "([0-9a-f]{64})"', formula)
        self.assertEqual(dict(found), {f"{REPOSITORY}/releases/download/v1.2.3/{name}": sum for name, sum in sums.items()})
        self.assertIn('version "1.2.3"', formula)
        if ruby := shutil.which("ruby"):
            (self.folder / "larder.rb").write_text(formula)
            self.assertEqual(run(ruby, "-c", self.folder / "larder.rb").returncode, 0)
        file.write_text("".join(f"{sum}  {name}\n" for name, sum in list(sums.items())[1:]))
        incomplete = run(ROOT / "deploy/release/formula", REPOSITORY, file)
        self.assertEqual((incomplete.returncode, incomplete.stdout), (1, ""))
        self.assertIn("has no archive for aarch64-apple-darwin", incomplete.stderr)


if __name__ == "__main__":
    unittest.main()
