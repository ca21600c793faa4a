"""redis-py and its client-side cache, with default settings (../README.md)."""

import sys
import time
import traceback

import redis
from redis.cache import CacheConfig


class Caching:
    def __init__(self, host, port, prefix):
        self.prefix = prefix
        self.cached = redis.Redis(host=host, port=port, protocol=3, cache_config=CacheConfig())
        self.plain = redis.Redis(host=host, port=port)

    def key(self, name):
        return f"{self.prefix}:{name}"

    def until(self, key, value):
        end = time.monotonic() + 20
        while self.cached.get(key) != value:
            assert time.monotonic() < end, f"{key} is {self.cached.get(key)}, not {value}"
            time.sleep(0.001)

    def calls(self):
        return self.plain.info("commandstats").get("cmdstat_get", {}).get("calls", 0)

    def local(self):
        """A value is asked for once."""
        k = self.key("local")
        self.plain.set(k, "value")
        self.until(k, b"value")
        before = self.calls()
        for _ in range(50):
            assert self.cached.get(k) == b"value"
        assert self.calls() == before

    def change(self):
        """Whatever changes it is heard of."""
        r, k = self.plain, self.key("change")
        changes = [(["SET", k, 1], b"1"), (["INCR", k], b"2"), (["APPEND", k, 0], b"20"), (["GETSET", k, 4], b"4")]
        for command, value in [*changes, (["DEL", k], None), (["SET", k, "again"], b"again")]:
            r.execute_command(*command)
            self.until(k, value)

    def expiry(self):
        k = self.key("expiry")
        self.plain.set(k, "v")
        self.until(k, b"v")
        self.plain.pexpire(k, 50)
        self.until(k, None)

    def many(self):
        keys = [self.key(f"many{i}") for i in range(200)]
        for value in [b"old", b"new"]:
            self.plain.mset({k: value for k in keys})
            for k in keys:
                self.until(k, value)

    def flush(self):
        k = self.key("flush")
        self.plain.set(k, "v")
        self.until(k, b"v")
        self.plain.flushall()
        self.until(k, None)


CHECKS = ["local", "change", "expiry", "many", "flush"]


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    caching = Caching(host, int(port), sys.argv[2])
    failed = 0
    for name in CHECKS:
        try:
            getattr(caching, name)()
            print("ok", name)
        except Exception:
            failed += 1
            print("FAILED", name)
            traceback.print_exc()
    print(f"redis-py {redis.__version__}: {len(CHECKS) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
