"""redis-py with its default settings through the script of the matrix (../README.md)."""

import sys
import threading
import time

import redis
from harness import redis_py, run
from redis.maint_notifications import MaintNotificationsConfig

ADD = "return redis.call('INCRBY', KEYS[1], ARGV[1])"


class Matrix:
    def __init__(self, host, port, prefix):
        self.host, self.port, self.prefix = host, port, prefix
        self.redis = redis.Redis(host=host, port=port)

    def key(self, name):
        return f"{self.prefix}:{name}"

    def connect(self):
        assert self.redis.ping() is True
        assert self.redis.execute_command("HELLO")[b"proto"] == 3
        # By default a refusal is overlooked, so this asks for it; redis-server 7 does not have it.
        if "larder_version" in self.redis.info():
            enabled = MaintNotificationsConfig(enabled=True)
            with redis.Redis(host=self.host, port=self.port, maint_notifications_config=enabled) as told:
                assert told.ping() is True

    def strings(self):
        r, k = self.redis, self.key("string")
        assert r.get(k) is None
        assert r.set(k, "value") is True
        assert r.get(k) == b"value"
        assert r.append(k, "!") == 6
        assert r.get(k) == b"value!"
        assert r.mget(k, self.key("absent")) == [b"value!", None]
        assert r.delete(k) == 1
        assert r.get(k) is None

    def expiry(self):
        r, k = self.redis, self.key("expiry")
        assert r.set(k, "1", ex=100) is True
        assert 98 <= r.ttl(k) <= 100
        assert r.pexpire(k, 60) == 1
        end = time.monotonic() + 20
        while r.get(k) is not None:
            assert time.monotonic() < end, "does not expire"
            time.sleep(0.005)
        assert r.ttl(k) == -2

    def pipeline(self):
        k = self.key("pipe")
        with self.redis.pipeline(transaction=False) as pipe:
            for i in range(200):
                pipe.set(f"{k}{i}", i).get(f"{k}{i}")
            pipe.rpush(k, "a", "b").incr(k).lrange(k, 0, -1)
            replies = pipe.execute(raise_on_error=False)
        assert replies[:400] == [x for i in range(200) for x in (True, str(i).encode())]
        assert replies[400] == 2 and replies[402] == [b"a", b"b"], replies[400:]
        assert "WRONGTYPE" in str(replies[401]) and isinstance(replies[401], redis.ResponseError), replies[401]

    def transaction(self):
        r, k = self.redis, self.key("balance")
        r.set(k, 10)
        with r.pipeline() as pipe:
            pipe.incrby(k, 5).get(k).rpush(self.key("log"), "a")
            assert pipe.execute() == [15, b"15", 1]
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

    def pubsub(self):
        channel = self.key("channel")

        def message():
            return {name: value for name, value in subscriber.get_message(timeout=20).items() if name != "pattern"}

        def event(type, data):
            return {"type": type, "channel": channel.encode(), "data": data}

        with self.redis.pubsub() as subscriber:
            subscriber.subscribe(channel)
            assert message() == event("subscribe", 1)
            assert self.redis.publish(channel, "hello") == 1
            assert self.redis.publish(channel, bytes(range(256))) == 1
            assert message() == event("message", b"hello")
            assert message() == event("message", bytes(range(256)))
            subscriber.unsubscribe(channel)
            assert message() == event("unsubscribe", 0)
            assert self.redis.publish(channel, "nobody") == 0

    def blocking_pop(self):
        r, ask, answer = self.redis, self.key("ask"), self.key("answer")
        assert r.blpop(ask, 0.05) is None

        def echo():
            for _ in range(20):
                r.rpush(answer, r.brpop(ask, 4)[1])

        # Below the library's own limit for any reply, 5 seconds.
        other = threading.Thread(target=echo, daemon=True)
        other.start()
        for i in range(20):
            assert r.lpush(ask, i) == 1
            assert list(r.blpop(answer, 4)) == [answer.encode(), str(i).encode()]
        other.join()

    def hash(self):
        r, k = self.redis, self.key("hash")
        assert r.hset(k, mapping={"name": "Ada", "age": 36}) == 2
        assert r.hget(k, "name") == b"Ada"
        assert r.hgetall(k) == {b"name": b"Ada", b"age": b"36"}
        assert r.hincrby(k, "age", 1) == 37
        assert r.hmget(k, "age", "absent") == [b"37", None]
        assert r.hdel(k, "name") == 1
        assert r.hgetall(k) == {b"age": b"37"}

    def script(self):
        r, k = self.redis, self.key("script")
        r.set(k, 1)
        assert r.get(k) == b"1"
        assert r.eval(ADD, 1, k, 2) == 3
        assert r.get(k) == b"3"
        script = r.register_script(ADD + f" -- {k}")
        try:
            r.evalsha(script.sha, 1, k, 4)
        except redis.exceptions.NoScriptError:
            pass
        else:
            raise AssertionError("a script that was never sent was run")
        assert script(keys=[k], args=[4]) == 7  # EVALSHA, SCRIPT LOAD, EVALSHA
        assert r.evalsha(script.sha, 1, k, 4) == 11
        assert r.get(k) == b"11"

    def reconnect(self):
        channel = self.key("news")
        with self.redis.pubsub() as subscriber:
            subscriber.subscribe(channel)
            assert subscriber.get_message(timeout=20)["type"] == "subscribe"
            for how in "restart", "crash":
                self.redis.get(self.key("before"))
                print(how, flush=True)
                assert sys.stdin.readline() == "done\n"
                assert self.redis.set(self.key("after"), how) is True  # no error is seen
                assert self.redis.get(self.key("after")) == how.encode()
                # The library notices when it next looks, and subscribes again.
                message = subscriber.get_message(timeout=20)
                while message is None or message["type"] != "subscribe":
                    message = subscriber.get_message(timeout=20)
                assert self.redis.publish(channel, how) == 1
                assert subscriber.get_message(timeout=20)["data"] == how.encode()


if __name__ == "__main__":
    host, port = sys.argv[1].rsplit(":", 1)
    run(Matrix(host, int(port), sys.argv[2]), redis_py())
