"""valkey-glide through the scripts of ../README.md: glide_client.py checks|matrix|caching HOST:PORT PREFIX

All settings are the default ones but for the deadline of a request: 250 ms are short on a busy machine."""

import asyncio
import sys
import time
from importlib.metadata import version

from glide import (
    Batch,
    ClientSideCache,
    ConditionalChange,
    ExpirySet,
    ExpiryType,
    GlideClient,
    GlideClientConfiguration,
    GlideError,
    NodeAddress,
    RequestError,
    Script,
)
from harness import run

ADD = "return redis.call('INCRBY', KEYS[1], ARGV[1])"
ALL_BYTES = bytes(range(256))
SCRIPTS = {
    "checks": "handshake strings many expiry delete counters binary large pipeline transaction errors parallel",
    "matrix": "connect strings expiry pipeline transaction pubsub blocking_pop hash script reconnect",
    "caching": "local change expiry many flush",
}

script, address, prefix = sys.argv[1:]
host, port = address.rsplit(":", 1)
loop = asyncio.new_event_loop()
now = loop.run_until_complete


def another(**settings):
    at = [NodeAddress(host, int(port))]
    return now(GlideClient.create(GlideClientConfiguration(at, request_timeout=20_000, **settings)))


def key(name):
    return f"{prefix}:{name}"


def refused(text, command):
    try:
        reply = now(command)
    except RequestError as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"{reply}, not {text}")


def until(what, done):
    end = time.monotonic() + 20
    while not done():
        assert time.monotonic() < end, f"waited too long: {what}"
        time.sleep(0.005)


def message(client):
    heard = now(asyncio.wait_for(client.get_pubsub_message(), 20))
    return heard.channel, heard.message


class Checks:
    def __init__(self):
        self.client = another()

    def handshake(self):
        assert now(self.client.custom_command(["HELLO"]))[b"proto"] == 3
        assert now(self.client.client_id()) > 0
        assert now(another(client_name="larder-test").client_getname()) == b"larder-test"

    def connect(self):
        assert now(self.client.ping()) == b"PONG"
        assert now(self.client.echo("hello")) == b"hello"

    def strings(self):
        c, k = self.client, key("string")
        assert now(c.get(k)) is None
        assert now(c.set(k, "value")) == "OK"
        assert now(c.get(k)) == b"value"
        assert now(c.set(k, "other", ConditionalChange.ONLY_IF_DOES_NOT_EXIST)) is None
        assert now(c.set(key("absent"), "other", ConditionalChange.ONLY_IF_EXISTS)) is None
        assert now(c.append(k, "!")) == 6
        assert now(c.get(k)) == b"value!"
        assert now(c.getrange(k, 1, 3)) == b"alu"
        assert now(c.strlen(k)) == 6
        assert now(c.mget([k, key("absent")])) == [b"value!", None]
        assert now(c.getdel(k)) == b"value!"
        assert now(c.get(k)) is None

    def many(self):
        pairs = {key(f"many{i}"): f"v{i}" for i in range(50)}
        assert now(self.client.mset(pairs)) == "OK"
        keys = list(pairs)
        keys.insert(7, key("absent"))
        values = [value.encode() for value in pairs.values()]
        values.insert(7, None)
        assert now(self.client.mget(keys)) == values

    def expiry(self):
        c, k = self.client, key("expiry")
        assert now(c.set(k, "1", expiry=ExpirySet(ExpiryType.SEC, 100))) == "OK"
        assert 98 <= now(c.ttl(k)) <= 100
        assert now(c.persist(k)) is True
        assert now(c.ttl(k)) == -1
        assert now(c.pexpire(k, 60)) is True
        until("the key to expire", lambda: now(c.get(k)) is None)
        assert now(c.ttl(k)) == -2

    def delete(self):
        c, a, b, absent = self.client, key("a"), key("b"), key("absent")
        assert now(c.mset({a: "1", b: "2"})) == "OK"
        assert now(c.exists([a, b, absent])) == 2
        assert now(c.delete([a, absent])) == 1
        assert now(c.get(a)) is None
        assert now(c.unlink([b])) == 1
        assert now(c.exists([a, b])) == 0

    def counters(self):
        c, k = self.client, key("counter")
        assert now(c.incr(k)) == 1
        assert now(c.incrby(k, 41)) == 42
        assert now(c.decr(k)) == 41
        assert now(c.get(k)) == b"41"
        assert now(c.incrbyfloat(k, 0.5)) == 41.5
        refused("value is not an integer or out of range", c.incr(k))

    def binary(self):
        c, k = self.client, key("binary").encode() + ALL_BYTES
        assert now(c.set(k, ALL_BYTES * 3)) == "OK"
        assert now(c.get(k)) == ALL_BYTES * 3
        assert now(c.set(k, b"")) == "OK"
        assert now(c.get(k)) == b""

    def large(self):
        c, k, value = self.client, key("large"), ALL_BYTES * (8 * 1024 * 1024 // 256)
        assert now(c.set(k, value)) == "OK"
        assert now(c.get(k)) == value
        assert now(c.delete([k])) == 1

    def pipeline(self):
        batch, word = Batch(is_atomic=False), key("word")
        for i in range(500):
            batch.set(key(f"pipe{i}"), str(i)).get(key(f"pipe{i}"))
        batch.set(word, "x").incr(word).get(word)
        replies = now(self.client.exec(batch, raise_on_error=False))
        assert replies[:1000] == [x for i in range(500) for x in ("OK", str(i).encode())]
        assert replies[1000] == "OK" and replies[1002] == b"x", replies[1000:]
        assert isinstance(replies[1001], RequestError), replies[1001]

    def transaction(self):
        c, k = self.client, key("balance")
        assert now(c.set(k, "10")) == "OK"
        batch = Batch(is_atomic=True).incrby(k, 5).get(k).mget([k, key("absent")])
        assert now(c.exec(batch, raise_on_error=True)) == [15, b"15", [b"15", None]]
        for meanwhile in True, False:
            assert now(c.watch([k])) == "OK"
            seen = int(now(c.get(k)))
            if meanwhile:
                assert now(another().set(k, "100")) == "OK"
            done = now(c.exec(Batch(is_atomic=True).set(k, str(seen * 2)), raise_on_error=True))
            assert done == (None if meanwhile else ["OK"]), done
        assert now(c.get(k)) == b"200"

    def errors(self):
        refused("NOSUCHCOMMAND", self.client.custom_command(["NOSUCHCOMMAND", "a"]))
        assert now(self.client.ping()) == b"PONG"

    def parallel(self):
        async def work(worker):
            for i in range(50):
                await self.client.incr(key("parallel"))
                await self.client.set(key(f"parallel{worker}:{i}"), str(i))
                assert await self.client.get(key(f"parallel{worker}:{i}")) == str(i).encode()

        async def all_workers():
            await asyncio.gather(*(work(worker) for worker in range(16)))

        now(all_workers())
        assert now(self.client.get(key("parallel"))) == b"800"

    def pubsub(self):
        channel, listener = key("channel"), another()
        now(listener.subscribe({channel}, 20_000))
        for sent in b"hello", ALL_BYTES:
            assert now(self.client.publish(sent, channel)) == 1
            assert message(listener) == (channel.encode(), sent)
        now(listener.unsubscribe({channel}, 20_000))
        assert now(self.client.publish("nobody", channel)) == 0

    def blocking_pop(self):
        c, ask, answer, other = self.client, key("ask"), key("answer"), another()
        assert now(c.blpop([ask], 0.05)) is None

        async def echo():
            for _ in range(20):
                await other.rpush(answer, [(await other.brpop([ask], 15))[1]])

        async def talk():
            task = asyncio.create_task(echo())
            for i in range(20):
                assert await c.lpush(ask, [str(i)]) == 1
                assert await c.blpop([answer], 15) == [answer.encode(), str(i).encode()]
            await task

        now(talk())

    def hash(self):
        c, k = self.client, key("hash")
        assert now(c.hset(k, {"name": "Ada", "age": "36"})) == 2
        assert now(c.hget(k, "name")) == b"Ada"
        assert now(c.hgetall(k)) == {b"name": b"Ada", b"age": b"36"}
        assert now(c.hincrby(k, "age", 1)) == 37
        assert now(c.hmget(k, ["age", "absent"])) == [b"37", None]
        assert now(c.hdel(k, ["name"])) == 1
        assert now(c.hgetall(k)) == {b"age": b"37"}

    def script(self):
        c, k = self.client, key("script")
        assert now(c.set(k, "1")) == "OK"
        assert now(c.get(k)) == b"1"
        assert now(c.custom_command(["EVAL", ADD, "1", k, "2"])) == 3
        assert now(c.get(k)) == b"3"
        refused("No matching script", c.custom_command(["EVALSHA", "0" * 40, "1", k, "4"]))
        own = Script(f"{ADD} -- {k}")
        assert now(c.invoke_script(own, [k], ["4"])) == 7  # EVALSHA, SCRIPT LOAD, EVALSHA
        assert now(c.get(k)) == b"7"

    def reconnect(self):
        channel, listener = key("news"), another()
        now(listener.subscribe({channel}, 20_000))
        for how in "restart", "crash":
            now(self.client.get(key("before")))
            print(how, flush=True)
            assert sys.stdin.readline() == "done\n"
            errors = []

            def answered(errors=errors, how=how):
                try:
                    return now(self.client.set(key("after"), how)) == "OK"
                except GlideError as error:
                    errors.append(error)

            # A command that meets the lost connection fails; the library connects again by itself.
            until("a command", answered)
            assert len(errors) <= 1, errors
            assert now(self.client.get(key("after"))) == how.encode()
            # It subscribes again, too.
            until("the subscription", lambda: now(self.client.publish(how, channel)) == 1)
            assert message(listener) == (channel.encode(), how.encode())


class Caching:
    """One client with a cache that the server invalidates (CLIENT TRACKING ON BCAST), and one without."""

    def __init__(self):
        cache = ClientSideCache.create(max_cache_kb=10_000, entry_ttl_ms=0, server_assisted=True)
        self.cached = another(client_side_cache=cache)
        self.client = another()

    def _until(self, k, value):
        until(f"{k} is {value}", lambda: now(self.cached.get(k)) == value)

    def _calls(self):
        lines = now(self.client.custom_command(["INFO", "commandstats"])).splitlines()
        calls = [line for line in lines if line.startswith(b"cmdstat_get:")]
        return calls[0].split(b"=")[1].split(b",")[0] if calls else b"0"

    def local(self):
        k = key("local")
        now(self.client.set(k, "value"))
        self._until(k, b"value")
        before = self._calls()
        for _ in range(50):
            assert now(self.cached.get(k)) == b"value"
        assert self._calls() == before

    def change(self):
        k = key("change")
        changes = [(["SET", k, "1"], b"1"), (["INCR", k], b"2"), (["APPEND", k, "0"], b"20"), (["GETSET", k, "4"], b"4")]
        for command, value in [*changes, (["DEL", k], None), (["SET", k, "again"], b"again")]:
            now(self.client.custom_command(command))
            self._until(k, value)

    def expiry(self):
        k = key("expiry")
        now(self.client.set(k, "v"))
        self._until(k, b"v")
        now(self.client.pexpire(k, 50))
        self._until(k, None)

    def many(self):
        keys = [key(f"many{i}") for i in range(200)]
        for value in "old", "new":
            now(self.client.mset({k: value for k in keys}))
            for k in keys:
                self._until(k, value.encode())

    def flush(self):
        k = key("flush")
        now(self.client.set(k, "v"))
        self._until(k, b"v")
        now(self.client.flushall())
        self._until(k, None)


run(Caching() if script == "caching" else Checks(), f"valkey-glide {version('valkey-glide')}", SCRIPTS[script].split())
