"""Checks Dockerfile and docker-compose.yaml without a container engine.

    check.py LARDER          what can be said at once, and the compose file's own test against LARDER (a binary) and a redis-server
    check.py --build         runs the stages' COPY and RUN as written, each stage in a plain directory, and the test on what they made

Needs redis-server, PyYAML and redis-py (`make tools`). What it cannot show: that the base images exist and hold what is asked of them.
"""

import contextlib
import fnmatch
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
problems = []


def check(holds, problem):
    if not holds:
        problems.append(problem)


class Stage:
    """One FROM: its base and its instructions as (line number, name, text)."""

    def __init__(self, name, base):
        self.name, self.base, self.instructions = name, base, []

    def all(self, *names):
        return [(line, text) for line, name, text in self.instructions if name in names]


def parse(text):
    """The stages by name, in order."""
    stages, defaults, pending, start = {}, {}, "", 0
    known = "COPY RUN WORKDIR USER ENV EXPOSE STOPSIGNAL ENTRYPOINT CMD HEALTHCHECK".split()
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#") or not (line.strip() or pending):
            continue
        start = start or number
        pending += line
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        name, _, rest = pending.strip().partition(" ")
        if name == "FROM":
            base, _, alias = rest.partition(" AS ")
            base = re.sub(r"\$\{(\w+)\}", lambda match: defaults[match[1]], base)
            check(alias, f"Dockerfile:{start}: a stage without a name")
            stages[alias] = stage = Stage(alias, base)
        elif name == "ARG" and not stages:
            defaults.update([rest.strip().split("=", 1)])
        else:
            check(name in known, f"Dockerfile:{start}: {name} is not an instruction that this check knows")
            stage.instructions.append((start, name, rest.strip()))
        pending, start = "", 0
    return stages


def flags(text):
    """`--a=b c d` as ({"a": "b"}, "c d"); a flag given twice keeps its last value."""
    found = {}
    while match := re.match(r"--([a-z-]+)=(\S+)\s+", text):
        found[match[1]] = match[2]
        text = text[match.end() :]
    return found, text


def lineage(stages, stage):
    """The stage and those it is built on, first the oldest."""
    return (lineage(stages, stages[stage.base]) if stage.base in stages else []) + [stage]


def inherited(stages, stage, *names):
    return [found for ancestor in lineage(stages, stage) for found in ancestor.all(*names)]


def environment(stages, stage):
    return dict(pair.split("=", 1) for _, text in inherited(stages, stage, "ENV") for pair in shlex.split(text))


def ignored(path):
    """Whether .dockerignore keeps a path of the repository out of the context."""
    for pattern in (ROOT / ".dockerignore").read_text().splitlines():
        if not pattern or pattern.startswith("#"):
            continue
        parts = Path(path).parts
        prefixes = ["/".join(parts[: i + 1]) for i in range(len(parts))]
        if any(fnmatch.fnmatch(prefix, pattern) for prefix in prefixes):
            return True
        if pattern.startswith("**/") and pattern[3:] in parts:
            return True
    return False


def tracked():
    """What a clone holds: the files that a build may count on."""
    if not (ROOT / ".git").exists():  # inside the image's own test stage
        return [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and not ignored(p.relative_to(ROOT))]
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    return subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def check_dockerfile(stages):
    files = tracked()
    for file in files:
        # The image is built with the Rust of its base image.
        check(not ignored(file) or file == "rust-toolchain.toml", f".dockerignore keeps {file} out, which a clone holds")
    seen = []
    for stage in stages.values():
        check(stage.base in seen or ":" in stage.base, f"stage {stage.name}: {stage.base} is no earlier stage and no image with a tag")
        for line, text in stage.all("COPY"):
            options, names = flags(text)
            *sources, _ = names.split()
            if origin := options.get("from"):
                check(origin in seen or ":" in origin, f"Dockerfile:{line}: {origin} is no earlier stage and no image with a tag")
                continue
            # Its context is made by deploy/image/build, which tests/deploy runs.
            if stage.name == "prebuilt":
                continue
            for source in sources:
                there = source == "." or any(f == source or f.startswith(source + "/") for f in files)
                check(there, f"Dockerfile:{line}: the repository has no {source}")
        seen.append(stage.name)
    last = list(stages.values())[-1]
    users = [text for _, text in inherited(stages, last, "USER")]
    check(users and re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1]), "the image does not end as an unprivileged user, by number")
    copied = [text for _, text in inherited(stages, last, "COPY")]
    program = json.loads(inherited(stages, last, "ENTRYPOINT")[-1][1])[0]
    check(any(text.split()[-1] == program for text in copied), f"nothing is copied to the entry point {program}")
    checks = [flags(text)[1] for _, text in inherited(stages, last, "HEALTHCHECK")]
    check(len(checks) == 1 and json.loads(checks[0].removeprefix("CMD "))[:2] == [program, "health"], "no health check by larder health")
    # Built on the tested stage's mark: no image without the tests.
    check(any(flags(text)[0].get("from") == "test" for text in copied), "the image does not depend on the tests")
    check(any("make test &&" in text for _, text in stages["test"].all("RUN")), "the stage test does not run make test")


def check_compose(stages, compose):
    services = compose["services"]
    for name, service in services.items():
        build = service.get("build")
        check(build or ":" in service.get("image", ""), f"service {name}: neither built nor an image with a tag")
        if build:
            check((ROOT / build["context"]).samefile(ROOT), f"service {name}: another context")
            check(build["target"] in stages, f"service {name}: no stage {build['target']}")
        for other, condition in service.get("depends_on", {}).items():
            check(other in services, f"service {name}: no service {other}")
            known = ("service_started", "service_healthy", "service_completed_successfully")
            check(condition["condition"] in known, f"service {name}: waits for {other} to be {condition['condition']}")
            if condition["condition"] == "service_healthy":
                check("healthcheck" in services.get(other, {}), f"service {name}: {other} has no health check to wait for")
        for port in service.get("ports", []):
            exposed = " ".join(text for _, text in inherited(stages, stages[build["target"]], "EXPOSE")).split()
            check(port.rsplit(":", 1)[1] in exposed, f"service {name}: port {port} is not exposed")


def materialize(stages, stage, directories):
    """Builds a stage in a directory; instructions that need its base image's files are named and left out."""
    if stage.name in directories:
        return directories[stage.name]
    into = Path(tempfile.mkdtemp(prefix=f"larder-{stage.name}-", dir=directories["tmp"]))
    directories[stage.name] = into
    if stage.base in stages:
        shutil.copytree(materialize(stages, stages[stage.base], directories), into, symlinks=True, dirs_exist_ok=True)
    work = Path("/")
    # WORKDIR, COPY and RUN act in the order of the file; WORKDIR may come with the base.
    for _, text in inherited(stages, stage, "WORKDIR"):
        work = work / text
    inside = lambda path: into / str(work / path).lstrip("/")
    for line, name, text in stage.instructions:
        options, text = flags(text)
        if name == "WORKDIR":
            inside(".").mkdir(parents=True, exist_ok=True)
        elif name == "COPY":
            *sources, target = text.split()
            origin = options.get("from")
            if origin and origin not in stages:
                print(f"Dockerfile:{line}: not run, needs the image {origin}")
                continue
            for source in sources:
                if origin:
                    copy(materialize(stages, stages[origin], directories) / source.lstrip("/"), inside(target), target)
                else:
                    copy_context(source, inside(target), target)
        elif name == "RUN":
            if any(word.startswith("/") for word in shlex.split(text)):
                print(f"Dockerfile:{line}: not run, reaches outside of its directory: {text}")
                continue
            print(f"Dockerfile:{line}: {text}", flush=True)
            subprocess.run(["bash", "-euc", text], cwd=inside("."), check=True)
    return into


def copy(source, to, target):
    to = to / source.name if target.endswith("/") else to
    to.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, to, dirs_exist_ok=True)
    else:
        shutil.copy2(source, to)


def copy_context(source, to, target):
    for file in tracked():
        if ignored(file) or not (ROOT / file).is_file():
            continue
        if source == ".":
            copy(ROOT / file, to / file, "")
        elif file == source:
            copy(ROOT / file, to, target)


@contextlib.contextmanager
def free_port():
    """Bound here and not listened on, it is given to nobody else; redis-server, which names it and says SO_REUSEADDR, can listen on it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@contextlib.contextmanager
def running(command, **options):
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
    try:
        yield child
    finally:
        child.terminate()
        child.wait(timeout=30)


def smoke(stages, compose, larder, test):
    """The compose file's services as processes on loopback; `test` is the command of its test service up to the addresses."""
    with free_port() as redis_port:
        smoke_with(redis_port, stages, compose, larder, test)


def interpolated(text):
    """`${NAME:-default}` without the variable."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def env_example():
    """The sample of .env, its comments included: what a user may write."""
    lines = (ROOT / "env.example").read_text().splitlines()
    return dict(re.fullmatch(r"#?([A-Z_]+)=(.*)", line).groups() for line in lines if re.match(r"#?[A-Z_]+=", line))


def smoke_with(redis_port, stages, compose, larder, test):
    services = compose["services"]
    redis = services["redis"]["command"] + ["--bind", "127.0.0.1", "--port", str(redis_port)]
    image = stages[services["larder"]["build"]["target"]]
    arguments = json.loads(inherited(stages, image, "CMD")[-1][1])
    check(interpolated(services["larder"]["environment"]["REDIS_HOST"]) == "redis", "larder's source is not the service redis")
    env = {**environment(stages, image), **{name: interpolated(text) for name, text in services["larder"]["environment"].items()}}
    env.update(REDIS_HOST="127.0.0.1", REDIS_PORT=str(redis_port))
    for name in ("LARDER_HTTP", "LARDER_REDIS", "LARDER_ADMIN"):
        check(re.fullmatch(r":\d+", env.pop(name)), f"{name} of the image is not a port of all interfaces")
        env[name] = "127.0.0.1:0"
    checked = subprocess.run([larder, "config", "check", *arguments[1:]], env=env, capture_output=True, text=True)
    check(checked.returncode == 0, f"larder does not take the compose file's settings: {checked.stderr}")
    sample = subprocess.run([larder, "config", "print"], env={**env, **env_example()}, capture_output=True, text=True)
    # Where it listens in the container stays what the image says.
    http = f'http = "{env["LARDER_HTTP"]}"'
    for line in ('ttl = "30s"', "max-keys = 100000", 'source = "redis://redis.example:6379/0"', http, 'max-memory = "128MiB"'):
        check(re.search(rf"^{re.escape(line)} ", sample.stdout, re.M), f"env.example: no {line} in {sample.stdout}{sample.stderr}")
    if problems:
        return
    with tempfile.TemporaryDirectory() as data, running(redis, cwd=data, stdout=subprocess.DEVNULL) as _:
        with running([larder, *arguments], cwd=data, env=env, stdout=subprocess.PIPE, text=True) as child:
            ready = json.loads(child.stdout.readline())
            addresses = [f"127.0.0.1:{redis_port}", ready["http"][0], ready["redis"][0]]
            check(len(services["test"]["command"]) == len(addresses), "the test service's command is not three addresses")
            result = subprocess.run([*test, *addresses])
            check(result.returncode == 0, "the compose file's test fails")
            start = time.monotonic()
            child.terminate()
            check(child.wait(timeout=60) == 0, "larder does not end with 0 on SIGTERM")
            grace = int(services["larder"]["stop_grace_period"].removesuffix("s"))
            check(time.monotonic() - start < grace, "larder drains for longer than the compose file allows")


def main():
    stages = parse((ROOT / "Dockerfile").read_text())
    compose = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())
    check_dockerfile(stages)
    check_compose(stages, compose)
    # What is to be run must hold together first.
    if problems:
        report()
    with tempfile.TemporaryDirectory(prefix="larder-docker-") as tmp:
        if sys.argv[1:] == ["--build"]:
            directories = {"tmp": tmp}
            image = materialize(stages, stages["image-untested"], directories)
            program = json.loads(inherited(stages, stages["image-untested"], "ENTRYPOINT")[-1][1])[0]
            larder = image / program.lstrip("/")
            tested = materialize(stages, stages["smoke"], directories) / "smoke"
            entry = json.loads(stages["smoke"].all("ENTRYPOINT")[-1][1])
            test = [tested / entry[0], *(tested / word for word in entry[1:])]
            print(f"the image's program: {larder.stat().st_size / 2**20:.1f} MiB")
        else:
            larder = Path(sys.argv[1]).resolve()
            for _, text in stages["smoke"].all("COPY"):
                for source in text.split()[:-1]:
                    shutil.copy2(ROOT / source, tmp)
            test = [sys.executable, Path(tmp) / "smoke.py"]
        smoke(stages, compose, larder, test)
    report()


def report():
    """Says what was found and ends."""
    for problem in problems:
        print(f"FAILED {problem}")
    print(f"Dockerfile and docker-compose.yaml: {len(problems)} problems")
    sys.exit(bool(problems))


main()
