"""Waits until a Redis and the Larder in front of it are ready, then reads through it over both protocols.

    smoke.py REDIS LARDER_HTTP LARDER_REDIS        each HOST:PORT

The `test` service of docker-compose.yaml; tests/docker/check runs it on loopback.
"""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import redis

PATIENCE = 120  # seconds; an image may be slow to start


def connect(address):
    host, port = address.rsplit(":", 1)
    return redis.Redis(host=host, port=int(port))


def wait(what, ready):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            if ready():
                return print(f"{what} is ready", flush=True)
        except (OSError, redis.RedisError) as error:
            problem = error
        else:
            problem = "not ready"
        if time.monotonic() > end:
            sys.exit(f"{what} is not ready after {PATIENCE} s: {problem}")
        time.sleep(0.1)


def lookup(http, key):
    try:
        with urllib.request.urlopen(f"http://{http}/lookup?key={key}", timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def main():
    origin, http, resp = sys.argv[1:]
    wait("redis", lambda: connect(origin).ping())
    wait("larder", lambda: urllib.request.urlopen(f"http://{http}/readyz", timeout=2).status == 200)

    connect(origin).set("smoke", "from redis")
    expected = 200, {"key": "smoke", "value": "from redis", "status": 200}
    assert lookup(http, "smoke") == expected, lookup(http, "smoke")
    assert lookup(http, "smoke-absent")[0] == 404
    assert connect(resp).get("smoke") == b"from redis"
    connect(resp).set("smoke-written", "through larder")
    assert connect(origin).get("smoke-written") == b"through larder"
    print("read through and written through", flush=True)

    client = Path(__file__).with_name("client.py")
    sys.exit(subprocess.run([sys.executable, client, resp, "smoke"]).returncode)


main()
