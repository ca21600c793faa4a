"""The image, made for real of the program under test by deploy/image/build, and its root run."""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

from support import LARDER, ROOT, image_settings, may_mount, require, run, running

# Seconds that building and starting may take together, from a program and a base that are there.
BOUND = 60


def documented():
    """The lines of docs/deploy.md that make the image and start it."""
    section = (ROOT / "docs/deploy.md").read_text().split("\n## Make the image\n")[1]
    return re.search(r"```\n(.*?)```", section, re.S)[1].splitlines()


@unittest.skipUnless(may_mount(), "needs root and the right to mount: buildah and chroot")
class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="larder-image-")
        cls.addClassCleanup(folder.cleanup)
        storage = folder.name
        buildah = [require("buildah"), "--root", f"{storage}/images", "--runroot", f"{storage}/run", "--storage-driver", "vfs"]
        # First with a base from Debian's packages, which takes as long as their download; then, on the clock, with that base.
        for base in ("debian", "localhost/larder-base"):
            cls.begun = time.monotonic()
            options = {**os.environ, "ENGINE": "buildah", "BASE": base, "STORAGE": storage}
            built = run(ROOT / "deploy/image/build", LARDER, "larder-test", env=options)
            assert built.returncode == 0, built.stdout + built.stderr
        cls.output = built.stdout
        container = run(*buildah, "from", "--pull-never", "larder-test").stdout.strip()
        cls.addClassCleanup(run, *buildah, "rm", container)
        cls.root = Path(run(*buildah, "mount", container).stdout.strip())
        inspected = json.loads(run(*buildah, "inspect", "--type", "image", "larder-test").stdout)
        cls.config = inspected["OCIv1"]["config"]
        # Only docker's format has it.
        cls.healthcheck = inspected["Docker"]["config"]["Healthcheck"]["Test"]

    def test_1_it_is_built_and_answers_within_a_minute(self):
        user = f"--userspec={self.config['User']}"
        # Where a container has a network of its own the ports are free. Here they are not.
        settings = {name: "127.0.0.1:0" for name in ("LARDER_HTTP", "LARDER_REDIS", "LARDER_ADMIN")}
        env = {**dict(variable.split("=", 1) for variable in self.config["Env"]), **settings}
        command = [*self.config["Entrypoint"], *self.config["Cmd"]]
        with running("chroot", user, self.root, *command, env=env, stdout=subprocess.PIPE, text=True) as larder:
            ready = json.loads(larder.stdout.readline())
            # The three lines of the guide: made by the first one, started as the second one says, asked by the third one.
            image, start, ask = documented()
            self.assertEqual(image, "make image")
            published = {f"{port}/tcp" for port in re.findall(r"--publish (\d+):\1 ", start)}
            self.assertEqual((len(published), start.split()[-1]), (2, "larder"))
            self.assertLessEqual(published, set(self.config["ExposedPorts"]))
            self.assertEqual([variable for variable in ("LARDER_HTTP", "LARDER_REDIS") if image_settings()[variable][1:] + "/tcp" not in published], [])
            asked = run(*shlex.split(ask.replace("localhost:8080", ready["http"][0])))
            self.assertEqual(asked.returncode, 0, asked.stderr)
            url = f"http://{ready['http'][0]}/v1/kv/greeting"
            with urllib.request.urlopen(url, timeout=10) as answer:
                self.assertEqual(answer.read(), b"hello")
            taken = time.monotonic() - self.begun
            print(f"built and answering after {taken:.1f} s ", end="", file=sys.stderr)
            self.assertLess(taken, BOUND)
            kind, *check = self.healthcheck
            self.assertEqual(kind, "CMD")
            healthy = run(require("chroot"), user, self.root, *check, env={"LARDER_URL": f"http://{ready['admin']}"})
            self.assertEqual((healthy.returncode, healthy.stdout), (0, "ready\n"))
            owner = os.stat(f"/proc/{larder.pid}")
            self.assertEqual((owner.st_uid, owner.st_gid), (65532, 65532))
            larder.terminate()
            self.assertEqual(larder.wait(timeout=30), 0)
            larder.stdout.close()

    def test_it_says_what_the_dockerfile_says(self):
        env = dict(variable.split("=", 1) for variable in self.config["Env"])
        self.assertLessEqual(image_settings().items(), env.items())
        self.assertEqual(self.config["User"], "65532:65532")
        self.assertEqual(self.config["Entrypoint"], ["/usr/local/bin/larder"])
        self.assertEqual(set(self.config["ExposedPorts"]), {"8080/tcp", "6380/tcp", "8081/tcp", "7946/udp"})
        self.assertEqual((self.config["WorkingDir"], self.config["StopSignal"]), ("/data", "SIGTERM"))
        self.assertIn("larder ", self.output)

    def test_it_has_no_shell_and_the_user_owns_only_its_data(self):
        self.assertEqual([path for path in ("bin/sh", "usr/bin/sh", "bin/bash") if (self.root / path).exists()], [])
        owned = [path for path in self.root.rglob("*") if not path.is_symlink() and path.stat().st_uid == 65532]
        self.assertEqual(owned, [self.root / "data"])
        self.assertTrue((self.root / "usr/share/doc/larder/LICENSE-MIT").exists())

    def test_it_trusts_the_usual_authorities(self):
        certificates = (self.root / "etc/ssl/certs/ca-certificates.crt").read_text()
        self.assertGreater(certificates.count("BEGIN CERTIFICATE"), 100)


if __name__ == "__main__":
    unittest.main()
