"""pymemcache with its default settings: memcached_client.py HOST:PORT PREFIX. The checks: ../README.md."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

from harness import run
from pymemcache import Client, MemcacheClientError

host, port = sys.argv[1].rsplit(":", 1)
ALL_BYTES = bytes(range(256))


def another():
    return Client((host, int(port)))


def key(name):
    return f"{sys.argv[2]}:{name}"


class Checks:
    def __init__(self):
        self.client = another()

    def connect(self):
        assert self.client.version()

    def strings(self):
        c, k = self.client, key("string")
        assert c.get(k) is None
        assert c.replace(k, "x", noreply=False) is False
        assert c.add(k, "b", noreply=False) is True
        assert c.add(k, "x", noreply=False) is False
        assert c.append(k, "c", noreply=False) is True
        assert c.prepend(k, "a", noreply=False) is True
        assert c.get(k) == b"abc"
        assert c.set(k, "value") is True
        assert c.get(k) == b"value"

    def many(self):
        pairs = {key(f"many{i}"): f"v{i}".encode() for i in range(50)}
        assert self.client.set_many(pairs) == []
        assert self.client.get_many([*pairs, key("absent")]) == pairs

    def expiry(self):
        c, k = self.client, key("expiry")
        c.set(k, "1", expire=1)
        assert c.touch(k, 100, noreply=False) is True
        assert c.touch(k, 1, noreply=False) is True
        end = time.monotonic() + 20
        while c.get(k) is not None:
            assert time.monotonic() < end, "does not expire"
            time.sleep(0.005)
        assert c.touch(k, 100, noreply=False) is False

    def delete(self):
        c, k = self.client, key("deleted")
        c.set(k, "1")
        assert c.delete(k, noreply=False) is True
        assert c.delete(k, noreply=False) is False
        assert c.get(k) is None

    def counters(self):
        c, k = self.client, key("counter")
        assert c.incr(k, 1) is None
        c.set(k, "1")
        assert c.incr(k, 41) == 42
        assert c.decr(k, 100) == 0
        assert c.incr(k, 7) == 7
        c.set(key("word"), "x")
        try:
            c.incr(key("word"), 1)
        except MemcacheClientError as error:
            assert b"non-numeric" in error.args[0], error
        else:
            raise AssertionError("a word was incremented")

    def cas(self):
        c, k = self.client, key("cas")
        assert c.cas(k, "x", "1", noreply=False) is None
        c.set(k, "old")
        value, seen = c.gets(k)
        assert value == b"old"
        another().set(k, "other", noreply=False)
        assert c.cas(k, "new", seen, noreply=False) is False
        assert c.cas(k, "new", c.gets(k)[1], noreply=False) is True
        assert c.get(k) == b"new"

    def binary(self):
        c, k = self.client, key("binary")
        c.set(k, ALL_BYTES * 3)
        assert c.get(k) == ALL_BYTES * 3
        c.set(k, b"")
        assert c.get(k) == b""

    def large(self):
        c, k, value = self.client, key("large"), ALL_BYTES * 3_900
        assert c.set(k, value, noreply=False) is True
        assert c.get(k) == value

    def errors(self):
        try:
            self.client.set(key("long" * 70), "1")
        except MemcacheClientError:
            pass
        else:
            raise AssertionError("a key of 280 bytes was taken")
        assert self.client.version()

    def parallel(self):
        self.client.set(key("parallel"), "0", noreply=False)

        def work(worker):
            c = another()
            for i in range(50):
                assert c.incr(key("parallel"), 1) is not None
                k = key(f"parallel{worker}:{i}")
                c.set(k, str(i))
                assert c.get(k) == str(i).encode()

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(work, range(16)))
        assert self.client.get(key("parallel")) == b"800"

    def flush(self):
        assert self.client.flush_all(noreply=False) is True
        assert self.client.get(key("string")) is None


run(Checks(), f"pymemcache {version('pymemcache')}")
