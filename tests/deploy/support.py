"""What the tests of deploy/ share: the program under test, the image's settings, and files as their own tools read them."""

import contextlib
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
LARDER = Path(os.environ.get("LARDER_BIN", ROOT / "target/debug/larder")).absolute()
BENCH = LARDER.with_name("larder-bench")
RENDER = ROOT / ".deps/render"
PATIENCE = 120  # seconds


def require(program):
    """The path of a program; an error with the line to type without it."""
    # Servers are in a folder that not every PATH has.
    found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin")
    if not found:
        raise RuntimeError(f"{program} is missing. Type: make tools")
    return found


def run(*command, **options):
    """Runs a command to its end; what it prints is in the result."""
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)


def may_mount():
    """Whether this is root with the right to mount. Root in a container, as in `docker build`, has it not."""
    return os.geteuid() == 0 and run("unshare", "--mount", "true").returncode == 0


def render(*arguments):
    """What tests/deploy/render makes of files."""
    if not RENDER.exists():
        raise RuntimeError(f"{RENDER} is missing. Type: make tools")
    result = run(RENDER, *arguments)
    if result.returncode:
        raise ValueError(result.stderr.strip())
    return result.stdout


def rendered(*arguments):
    """The same, as a list of YAML documents."""
    return [document for document in yaml.safe_load_all(render(*arguments)) if document]


def image_settings():
    """The variables that the image sets."""
    text = re.search(r"^FROM \$\{BASE\} AS runtime$(.*?)^FROM ", (ROOT / "Dockerfile").read_text(), re.M | re.S)[1]
    return dict(pair.split("=", 1) for line in re.findall(r"^ENV (.*)$", text, re.M) for pair in shlex.split(line))


def refusal(arguments, settings):
    """What `larder config check` says against a node's arguments and variables; empty if it takes them."""
    assert arguments[:1] == ["serve"], arguments
    return run(LARDER, "config", "check", *arguments[1:], env={**image_settings(), **settings}).stderr


@contextlib.contextmanager
def running(*command, **options):
    """A server, asked to end with SIGTERM."""
    child = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, **options)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(timeout=30)
        except subprocess.TimeoutExpired:
            child.kill()
            raise


class Made(unittest.TestCase):
    """Targets of the Makefile, with the programs under test in the place of what make would build."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.target = Path(folder.name)
        (self.target / "fast").mkdir()
        for program in (LARDER, BENCH):
            self.assertTrue(program.exists(), f"{program} is missing. Type: cargo build --workspace")
            (self.target / "fast" / program.name).symlink_to(program)
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "LARDER_"))}
        self.env |= {"CARGO": "true", "CARGO_TARGET_DIR": folder.name}

    def make(self, *words):
        return run("make", "--no-print-directory", *words, cwd=ROOT, env=self.env)

    @contextlib.contextmanager
    def started(self, *words):
        """A target that runs until Ctrl-C: its ready line, and its process."""
        options = {"cwd": ROOT, "env": self.env, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True}
        # A group of its own: Ctrl-C reaches all of it.
        child = subprocess.Popen(["make", "--no-print-directory", *words], start_new_session=True, **options)
        try:
            self.assertTrue(select.select([child.stdout], [], [], PATIENCE)[0], "no ready line")
            yield json.loads(child.stdout.readline()), child
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGINT)
            child.wait(timeout=PATIENCE)
            child.stdout.close()
