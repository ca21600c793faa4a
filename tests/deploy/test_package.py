"""Debian's package, made by deploy/deb/build of the program under test, on a Debian with systemd that is booted for this test.

The first run makes the root folder from packages (mmdebstrap) and keeps it in .deps.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from support import LARDER, ROOT, may_mount, require, run

PATIENCE = 60  # seconds
CREDENTIALS = "/run/credentials/larder.service"


def host():
    """The release of this machine: the program is linked with its C library."""
    lines = Path("/etc/os-release").read_text().splitlines()
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    return values["VERSION_CODENAME"].strip('"')


def base():
    """A tar file of a Debian with systemd."""
    kept = ROOT / f".deps/{host()}-systemd.tar"
    if not kept.exists():
        part = kept.with_suffix(".part.tar")
        made = run(
            require("mmdebstrap"),
            "--quiet",
            "--variant=essential",
            "--include=systemd",
            # What services of a machine that is not there would do.
            "--customize-hook=chroot \"$1\" systemctl mask --quiet systemd-journal-flush systemd-update-utmp getty.target systemd-logind",
            # Manual pages and completions of other packages.
            "--dpkgopt=path-exclude=/usr/share/locale/*",
            host(),
            part,
        )
        assert made.returncode == 0, made.stderr
        part.rename(kept)
    return kept


class Machine:
    """A booted root folder."""

    def __init__(self, folder):
        self.root = Path(folder) / "root"
        self.root.mkdir()
        # In memory: thousands of small files take seconds on a busy disk.
        assert run("mount", "-t", "tmpfs", "tmpfs", self.root).returncode == 0
        unpacked = run("tar", "--extract", "--file", base(), "--directory", self.root, "--exclude=./dev/*")
        assert unpacked.returncode == 0, unpacked.stderr

    @contextlib.contextmanager
    def booted(self):
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        unified = next(mount[1] for mount in mounts if mount[2] == "cgroup2")
        # A group of its own, which is the root of what systemd sees.
        group = Path(tempfile.mkdtemp(prefix="larder-test-", dir=unified))
        spaces = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--cgroup"]
        join = 'echo $$ >"$0/cgroup.procs"; exec "$@"'
        boot = ["sh", "-ec", join, group, "unshare", *spaces, Path(__file__).with_name("boot"), self.root]
        child = subprocess.Popen([str(word) for word in boot], stdin=subprocess.DEVNULL)
        try:
            children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
            self.pid = wait("process 1", lambda: children.read_text().split())[0]
            wait("systemd", lambda: self.run("systemctl", "is-system-running").stdout.strip() in ("running", "degraded"))
            yield self
        except BaseException:
            print(self.run("journalctl", "--no-pager", "--lines=60").stdout)
            raise
        finally:
            child.kill()
            child.wait()
            wait("the end of all processes", lambda: not (group / "cgroup.procs").read_text())
            for path in [*sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True), group]:
                wait(f"the end of {path}", lambda: remove(path))

    def run(self, *command, **options):
        inside = ["nsenter", "--target", self.pid, "--mount", "--net", "--pid", "--uts", "--ipc", "--cgroup", "--root", "--wd"]
        return run(*inside, *command, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}, **options)

    def ok(self, *command, **options):
        """What a command prints that succeeds."""
        result = self.run(*command, **options)
        if result.returncode:
            journal = self.run("journalctl", "--no-pager", "--lines=20", "--unit=larder").stdout
            raise AssertionError(f"{command}: {result.stdout}{result.stderr}\n{journal}")
        return result.stdout.strip()

    def show(self, name, unit="larder"):
        return self.ok("systemctl", "show", "--value", "--property", name, unit)

    def path(self, name):
        return self.root / name.lstrip("/")


def remove(folder):
    try:
        folder.rmdir()
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def wait(what, look):
    end = time.monotonic() + PATIENCE
    while not (found := look()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: nothing after {PATIENCE} s")
        time.sleep(0.02)
    return found


@unittest.skipUnless(may_mount(), "needs root and the right to mount: systemd in namespaces")
class Package(unittest.TestCase):
    """One machine, in the order of the names: installed, used, changed, removed."""

    @classmethod
    def setUpClass(cls):
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="larder-package-"))
        # Compression would take longer than all the rest.
        built = run(ROOT / "deploy/deb/build", LARDER, folder, env={**os.environ, "COMPRESSION": "none"})
        assert built.returncode == 0, built.stderr
        cls.file = Path(built.stdout.strip())
        cls.machine = Machine(folder)
        stack.callback(run, "umount", cls.machine.root)
        shutil.copy(cls.file, cls.machine.path("/opt/larder.deb"))
        stack.enter_context(cls.machine.booted())

    def larder(self, *arguments, code=0):
        result = self.machine.run("larder", *arguments)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout

    def configure(self, *lines):
        """Appends to the configuration as it was installed."""
        text = (ROOT / "deploy/larder.toml").read_text()
        self.machine.path("/etc/larder/larder.toml").write_text("\n".join([*lines, text]))

    def restart(self):
        self.machine.ok("systemctl", "restart", "larder")

    def drop_in(self, text):
        """Changes the unit for one test."""
        folder = self.machine.path("/etc/systemd/system/larder.service.d")
        folder.mkdir()
        (folder / "test.conf").write_text(f"[Service]\n{text}\n")
        self.machine.ok("systemctl", "daemon-reload")
        self.addCleanup(self.machine.ok, "systemctl", "daemon-reload")
        self.addCleanup(shutil.rmtree, folder)

    def test_1_folders_are_open_to_all_but_the_credentials(self):
        listed = run("dpkg-deb", "--contents", self.file).stdout.splitlines()
        rights = {line.split()[-1]: line.split()[0] for line in listed if line.startswith("d")}
        self.assertEqual(rights.pop("./etc/larder/credentials/"), "drwx------")
        self.assertIn("./", rights)
        self.assertEqual(set(rights.values()), {"drwxr-xr-x"}, rights)

    def test_1_installing_it_starts_it(self):
        machine = self.machine
        machine.ok("dpkg", "--install", "/opt/larder.deb")
        self.assertEqual(machine.ok("systemctl", "is-active", "larder"), "active")
        self.assertEqual(machine.ok("systemctl", "is-enabled", "larder"), "enabled")
        self.assertRegex(machine.show("StatusText"), r"^Serving http://127\.0\.0\.1:8080, redis://127\.0\.0\.1:6380, admin ")
        self.larder("set", "greeting", "hello")
        self.assertEqual(self.larder("get", "greeting"), "hello")
        self.assertEqual(self.larder("health"), "ready\n")

    def test_2_it_has_a_manual_and_completions(self):
        pages = {path.name for path in self.machine.path("/usr/share/man/man1").glob("larder*")}
        self.assertLessEqual({"larder.1.gz", "larder-serve.1.gz", "larder-health.1.gz"}, pages)
        bash = ". /usr/share/bash-completion/completions/larder; COMP_WORDS=(larder he); COMP_CWORD=1; _larder larder he larder"
        self.assertIn("health", self.machine.ok("bash", "-c", bash + "; echo ${COMPREPLY[*]}"))
        for path in ("zsh/vendor-completions/_larder", "fish/vendor_completions.d/larder.fish", "doc/larder/copyright"):
            self.assertTrue(self.machine.path(f"/usr/share/{path}").exists(), path)

    def test_2_it_may_do_little(self):
        machine = self.machine
        status = dict(line.split(":\t", 1) for line in self.status().splitlines())
        self.assertNotIn("0", status["Uid"].split())
        self.assertEqual({status[name] for name in ("CapEff", "CapBnd", "CapPrm")}, {"0" * 16})
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        # 0: nothing that could be taken away is left; 10: nothing is.
        checked = machine.run("systemd-analyze", "security", "--no-pager", "--threshold=15", "larder.service")
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        verified = machine.run("systemd-analyze", "verify", "--man=no", "larder.service")
        self.assertEqual((verified.returncode, verified.stderr), (0, ""))
        # Where it may write.
        for path, expected in (("/etc/larder", 1), ("/usr", 1), ("/var/lib", 1), ("/var/lib/larder", 0)):
            inside = ["nsenter", "--target", machine.show("MainPID"), "--mount", "test", "-w", path]
            with self.subTest(path):
                readonly = machine.run(*inside).returncode
                self.assertEqual(readonly, expected)

    def status(self):
        return self.machine.ok("cat", f"/proc/{self.machine.show('MainPID')}/status")

    def test_3_a_reload_reads_the_file_again(self):
        self.configure('ttl = "10s"', "threads = 1")
        self.machine.ok("systemctl", "reload", "larder")
        wait("the reload", lambda: "1 changed, 1 need a restart" in self.machine.show("StatusText"))
        self.assertEqual(self.machine.ok("systemctl", "is-active", "larder"), "active")
        self.configure('ttl = "soon"')
        self.machine.ok("systemctl", "reload", "larder")
        wait("the refusal", lambda: "the last reload changed nothing" in self.machine.show("StatusText"))
        self.assertEqual(self.larder("get", "greeting"), "hello")

    def test_4_a_wrong_configuration_is_not_tried_again(self):
        self.configure("nothing = 1")
        failed = self.machine.run("systemctl", "restart", "larder")
        self.assertNotEqual(failed.returncode, 0)
        self.assertEqual(self.machine.show("ActiveState"), "failed")
        self.assertEqual(self.machine.show("ExecMainStatus"), "2")
        self.assertIn("larder.toml:1", self.machine.ok("journalctl", "--no-pager", "--unit=larder"))

    def test_5_secrets_are_credentials_and_data_is_kept(self):
        machine = self.machine
        secret = machine.path("/etc/larder/credentials/password")
        secret.write_text("hunter2\n")
        secret.chmod(0o600)
        self.configure(f'password = "@{CREDENTIALS}/larder_password"', 'source = "disk:/var/lib/larder/store"', "threads = 1")
        machine.path("/etc/larder/env").write_text("# as for compose\nLARDER_TTL=7s\nLARDER_MAX_VALUE='1MiB'\n")
        self.restart()
        self.larder("get", "greeting", code=3)
        url = "redis://:hunter2@127.0.0.1:6380"
        self.larder("set", "greeting", "still here", "--url", url)
        self.restart()
        self.assertEqual(self.larder("get", "greeting", "--url", url), "still here")
        self.assertTrue(machine.path("/var/lib/private/larder/store").is_dir())
        environment = machine.ok("cat", f"/proc/{machine.show('MainPID')}/environ").split("\0")
        self.assertLessEqual({"LARDER_TTL=7s", "LARDER_MAX_VALUE=1MiB"}, set(environment))

    def test_6_what_ends_or_hangs_is_started_again(self):
        machine = self.machine
        self.drop_in("WatchdogSec=1s\nRestartSec=50ms")
        self.restart()
        for signal, result in (("KILL", "signal"), ("STOP", "watchdog")):
            before, restarts = machine.show("MainPID"), int(machine.show("NRestarts"))
            machine.ok("sh", "-c", f"kill -{signal} {before}")
            wait(f"a start after {result}", lambda: int(machine.show("NRestarts")) > restarts and machine.show("ActiveState") == "active")
            self.assertNotEqual(machine.show("MainPID"), before)
            self.assertIn(f"Failed with result '{result}'", machine.ok("journalctl", "--no-pager", "--unit=larder"))

    def test_7_it_ends_well(self):
        self.machine.ok("systemctl", "stop", "larder")
        self.assertEqual([self.machine.show(name) for name in ("Result", "ExecMainStatus", "ActiveState")], ["success", "0", "inactive"])

    def test_8_removing_keeps_what_purging_deletes(self):
        machine = self.machine
        machine.ok("systemctl", "start", "larder")
        process = machine.show("MainPID")
        machine.ok("dpkg", "--remove", "larder")
        self.assertNotEqual(machine.run("test", "-d", f"/proc/{process}").returncode, 0)
        self.assertFalse(machine.path("/usr/bin/larder").exists())
        self.assertTrue(machine.path("/etc/larder/larder.toml").exists())
        self.assertTrue(machine.path("/var/lib/private/larder/store").exists())
        machine.ok("dpkg", "--purge", "larder")
        for path in ("/etc/larder", "/var/lib/private/larder", "/var/lib/larder"):
            self.assertFalse(machine.path(path).exists(), path)


if __name__ == "__main__":
    unittest.main()
