"""redis-py with its default settings against the server at HOST:PORT. The checks: ../README.md."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import redis
from harness import redis_py, run

ALL_BYTES = bytes(range(256))


class Checks:
    def __init__(self, host, port, prefix):
        self.host, self.port, self.prefix = host, port, prefix
        self.redis = redis.Redis(host=host, port=port)

    def key(self, name):
        return f"{self.prefix}:{name}".encode()

    def handshake(self):
        r = self.redis
        assert r.ping() is True
        hello = r.execute_command("HELLO")
        assert hello[b"proto"] == 3, hello
        assert r.client_id() > 0
        named = redis.Redis(host=self.host, port=self.port, client_name="larder-test")
        assert named.client_getname() in ("larder-test", b"larder-test")
        named.close()

    def strings(self):
        r, k = self.redis, self.key("string")
        assert r.get(k) is None
        assert r.set(k, "value") is True
        assert r.get(k) == b"value"
        assert r.set(k, "other", nx=True) is None
        assert r.set(self.key("absent"), "other", xx=True) is None
        assert r.set(k, "value 2", xx=True) is True
        assert r.append(k, "!") == 8
        assert r.getrange(k, 0, 4) == b"value"
        assert r.strlen(k) == 8
        assert r.getset(k, "3") == b"value 2!"
        assert r.getdel(k) == b"3"
        assert r.get(k) is None

    def many(self):
        r = self.redis
        pairs = {self.key(f"many{i}"): f"v{i}".encode() for i in range(50)}
        assert r.mset(pairs) is True
        keys = list(pairs)
        keys.insert(7, self.key("absent"))
        values = list(pairs.values())
        values.insert(7, None)
        assert r.mget(keys) == values

    def expiry(self):
        r, k = self.redis, self.key("expiry")
        assert r.set(k, "1", ex=100) is True
        assert 98 <= r.ttl(k) <= 100
        assert r.expire(k, 50) == 1
        assert 48 <= r.ttl(k) <= 50
        assert r.persist(k) == 1
        assert r.ttl(k) == -1
        assert r.ttl(self.key("absent")) == -2
        assert r.pexpire(k, 60) == 1
        end = time.monotonic() + 20
        while r.get(k) is not None:
            assert time.monotonic() < end, "does not expire"
            time.sleep(0.005)
        assert r.exists(k) == 0

    def delete(self):
        r = self.redis
        a, b = self.key("a"), self.key("b")
        r.mset({a: "1", b: "2"})
        assert r.exists(a, b, self.key("absent")) == 2
        assert r.delete(a, self.key("absent")) == 1
        assert r.get(a) is None
        assert r.unlink(b) == 1
        assert r.exists(a, b) == 0

    def counters(self):
        r, k = self.redis, self.key("counter")
        assert r.incr(k) == 1
        assert r.incrby(k, 41) == 42
        assert r.decr(k) == 41
        assert r.get(k) == b"41"
        assert float(r.incrbyfloat(k, 0.5)) == 41.5
        try:
            r.incr(k)
        except redis.ResponseError as error:
            assert str(error) == "value is not an integer or out of range", error
        else:
            raise AssertionError("41.5 was incremented as an integer")

    def binary(self):
        r = self.redis
        k = self.key("binary") + ALL_BYTES
        assert r.set(k, ALL_BYTES * 3) is True
        assert r.get(k) == ALL_BYTES * 3
        assert r.set(k, b"") is True
        assert r.get(k) == b""

    def large(self):
        r, k = self.redis, self.key("large")
        value = ALL_BYTES * (8 * 1024 * 1024 // 256)
        assert r.set(k, value) is True
        assert r.get(k) == value
        assert r.delete(k) == 1

    def pipeline(self):
        with self.redis.pipeline(transaction=False) as pipe:
            for i in range(500):
                pipe.set(self.key(f"pipe{i}"), i)
                pipe.get(self.key(f"pipe{i}"))
            replies = pipe.execute()
        assert replies == [x for i in range(500) for x in (True, str(i).encode())]
        with self.redis.pipeline(transaction=False) as pipe:
            pipe.set(self.key("word"), "x").incr(self.key("word")).get(self.key("word"))
            replies = pipe.execute(raise_on_error=False)
        assert replies[0] is True and replies[2] == b"x", replies
        assert isinstance(replies[1], redis.ResponseError), replies

    def transaction(self):
        r, k = self.redis, self.key("balance")
        r.set(k, 10)
        with r.pipeline() as pipe:
            pipe.incrby(k, 5).get(k).mget([k, self.key("absent")])
            assert pipe.execute() == [15, b"15", [b"15", None]]

        tries = 0

        def double(pipe):
            nonlocal tries
            tries += 1
            seen = int(pipe.get(k))
            if tries == 1:
                r.set(k, 100)  # on another connection
            pipe.multi()
            pipe.set(k, seen * 2)

        assert r.transaction(double, k) == [True]
        assert (tries, r.get(k)) == (2, b"200")

    def errors(self):
        try:
            self.redis.execute_command("NOSUCHCOMMAND", "a")
        except redis.ResponseError as error:
            assert str(error).startswith("unknown command 'NOSUCHCOMMAND'"), error
        else:
            raise AssertionError("an unknown command was answered")
        assert self.redis.ping() is True

    def parallel(self):
        def work(worker):
            for i in range(50):
                self.redis.incr(self.key("parallel"))
                k = self.key(f"parallel{worker}:{i}")
                self.redis.set(k, i)
                assert self.redis.get(k) == str(i).encode()

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(work, range(16)))
        assert self.redis.get(self.key("parallel")) == b"800"


if __name__ == "__main__":
    host, port = sys.argv[1].rsplit(":", 1)
    run(Checks(host, int(port), sys.argv[2]), redis_py())
