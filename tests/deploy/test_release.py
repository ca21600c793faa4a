"""What a release publishes: the workflow as actionlint reads it, and what its scripts make: the archive, the installer, the recipes."""

import hashlib
import os
import re
import shutil
import tarfile
import tempfile
import tomllib
import unittest
from pathlib import Path

import yaml
from support import LARDER, ROOT, require, run

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
        self.assertEqual(scripts, {"deploy/release/pack", "deploy/release/recipes", "deploy/deb/build"})
        for script in scripts:
            self.assertTrue(os.access(ROOT / script, os.X_OK), script)

    def test_the_recipes_have_what_the_workflow_builds(self):
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

    def recipes(self, sums, into, repository=REPOSITORY):
        """The files that the templates make, for checksums by the names of files."""
        file = self.folder / f"{into}-SUMS"
        file.write_text("".join(f"{sum}  {name}\n" for name, sum in sums.items()))
        made = run(ROOT / "deploy/release/recipes", repository, file, self.folder / into)
        return made, self.folder / into

    def test_recipes_have_addresses_and_checksums(self):
        sums = {f"larder-1.2.3-{target}.tar.gz": hashlib.sha256(target.encode()).hexdigest() for target in TARGETS}
        others = {"larder_1.2.3-1_amd64.deb": "0" * 64, "larder-sbom.json": "1" * 64}
        made, folder = self.recipes({**sums, **others}, "recipes")
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        files = {path.name: path.read_text() for path in folder.iterdir()}
        self.assertEqual(sorted(files), ["PKGBUILD", "install.sh", "larder.nix", "larder.rb"])
        wanted = {f"{REPOSITORY}/releases/download/v1.2.3/{name}": sum for name, sum in sums.items()}
        for name, text in files.items():
            self.assertNotRegex(text, r"@[A-Z]")
            self.assertIn("1.2.3", text.replace("v1.2.3/larder-1.2.3", ""), name)
            # Each address, and next to it its checksum.
            found = dict(re.findall(r"(https://[^'\" ]+\.gz)[^/]*?\b([0-9a-f]{64})\b", text))
            self.assertEqual(found, {url: sum for url, sum in wanted.items() if name != "PKGBUILD" or "linux" in url}, name)
        for command in (["ruby", "-c", "larder.rb"], ["shellcheck", "install.sh"], ["shellcheck", "--shell=bash", "--exclude=SC2034,SC2154,SC2164", "PKGBUILD"], ["nix-instantiate", "--parse", "larder.nix"]):
            checked = run(require(command[0]), *command[1:], cwd=folder)
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        incomplete, _ = self.recipes(dict(list(sums.items())[1:]), "incomplete")
        self.assertEqual(incomplete.returncode, 1)
        self.assertIn("has no archive for aarch64-apple-darwin", incomplete.stderr)

    def test_the_installer_and_the_package_of_arch_install_an_archive(self):
        archive = self.pack("packed")
        version = archive.name.removeprefix("larder-").removesuffix("-x86_64-unknown-linux-musl.tar.gz")
        release = self.folder / f"site/releases/download/v{version}"
        release.mkdir(parents=True)
        shutil.copy(archive, release)
        sums = {archive.name.replace("x86_64-unknown-linux-musl", target): "0" * 64 for target in TARGETS}
        sums[archive.name] = hashlib.sha256(archive.read_bytes()).hexdigest()
        # A machine of another kind than the archive's says that it is one of this kind.
        fake = self.folder / "fake"
        fake.mkdir()
        (fake / "uname").write_text('#!/bin/sh\n[ "$1" = -s ] && echo Linux || echo "${MACHINE:-x86_64}"\n')
        (fake / "uname").chmod(0o755)
        env = {**os.environ, "PATH": f"{fake}:{os.environ['PATH']}"}

        def install(sums, name, **more):
            _, folder = self.recipes(sums, f"made-{name}", f"file://{self.folder}/site")
            return run("sh", folder / "install.sh", self.folder / name, env={**env, **more}), self.folder / name

        done, prefix = install(sums, "prefix")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[0], f"larder {version} is in {prefix}/bin")
        self.assertIn(f'export PATH="{prefix}/bin:$PATH"', done.stdout)
        self.assertTrue((prefix / "share/man/man1/larder.1").exists())
        # Once more, over what is there.
        self.assertEqual(install(sums, "prefix")[0].returncode, 0)

        wrong, prefix = install({**sums, archive.name: "f" * 64}, "wrong")
        self.assertEqual((wrong.returncode, prefix.exists()), (1, False))
        self.assertIn("Nothing was installed", wrong.stderr)
        other, _ = install(sums, "other", MACHINE="riscv64")
        self.assertEqual(other.returncode, 1)
        self.assertIn("no archive for Linux-riscv64. Type: cargo install --locked --git", other.stderr)

        # As makepkg calls it.
        package = self.folder / "package"
        script = f"set -e; source {self.folder}/made-prefix/PKGBUILD; tar xzf {archive}; pkgdir={package} CARCH=x86_64; package"
        done = run("bash", "-c", script, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        for file in ("usr/bin/larder", "etc/larder/larder.toml", "usr/lib/systemd/system/larder.service", "usr/share/licenses/larder/LICENSE-MIT"):
            self.assertTrue((package / file).exists(), file)


class Checklist(unittest.TestCase):
    def test_its_commands_find_the_version_and_its_notes(self):
        text = (ROOT / "docs/releasing.md").read_text()
        block = re.search(r"```sh\n(.*?)```", text, re.S)[1]
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, "CARGO_TARGET_DIR": folder, "CARGO_NET_OFFLINE": "true"}
            done = run("bash", "-euc", block + 'echo "$version"; echo "$notes"', cwd=ROOT, env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            version, *notes = done.stdout.splitlines()
            self.assertEqual(f"larder {version}\n", run(LARDER, "--version").stdout)
            self.assertTrue(any(line.startswith("- ") for line in notes))
            self.assertIn(f"larder_{version}-1_amd64.deb", (ROOT / "docs/deploy.md").read_text())
            chart = yaml.safe_load((ROOT / "deploy/helm/larder/Chart.yaml").read_text())
            self.assertEqual((chart["version"], chart["appVersion"]), (version, version))
            self.assertFalse(any(line.startswith("## ") for line in notes))
            # Each library crate can be packed without the others' sources.
            crates = sorted(path.name for path in Path(folder).glob("package/*.crate"))
            names = ("document", "engine", "proto", "store", "units")
            self.assertEqual(crates, [f"larder-{name}-{version}.crate" for name in names])
            # Its page at the registry is the README; the licences ask for their texts.
            for name in names:
                packed = Path(folder) / f"package/larder-{name}-{version}.crate"
                with tarfile.open(packed) as crate:
                    read = lambda file: crate.extractfile(f"{packed.stem}/{file}").read().decode()
                    self.assertIn(f"# larder-{name}\n", read("README.md"))
                    self.assertIn("Permission is hereby granted", read("LICENSE-MIT"))
                    self.assertIn("Apache License", read("LICENSE-APACHE"))
                    manifest = tomllib.loads(read("Cargo.toml"))["package"]
                    for field in ("description", "documentation", "license", "keywords", "categories"):
                        self.assertTrue(manifest.get(field), f"{name} has no {field}")


if __name__ == "__main__":
    unittest.main()
