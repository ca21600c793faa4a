"""valkey-glide's cluster class through the commands that an application sends: glide_cluster.py HOST:PORT PREFIX"""

import asyncio
import sys
from importlib.metadata import version

from glide import (
    ClusterBatch,
    ExpirySet,
    ExpiryType,
    GlideClusterClient,
    GlideClusterClientConfiguration,
    NodeAddress,
    RequestError,
)
from harness import run

host, port = sys.argv[1].rsplit(":", 1)
loop = asyncio.new_event_loop()
now = loop.run_until_complete
client = now(GlideClusterClient.create(GlideClusterClientConfiguration([NodeAddress(host, int(port))])))


def key(name):
    return f"{sys.argv[2]}:{name}"


class Checks:
    def nodes(self):
        [slots] = now(client.custom_command(["CLUSTER", "SLOTS"]))
        assert slots[:2] == [0, 16383] and slots[2][1] == int(port), slots

    def strings(self):
        for number in range(100):
            assert now(client.set(key(number), str(number), expiry=ExpirySet(ExpiryType.SEC, 100))) == "OK"
        assert [now(client.get(key(number))) for number in range(100)] == [b"%d" % number for number in range(100)]

    def tagged(self):
        one, two = key("{tag}1"), key("{tag}2")
        assert now(client.mset({one: "1", two: "2"})) == "OK"
        assert now(client.mget([one, two])) == [b"1", b"2"]
        assert now(client.delete([one, two])) == 2

    def several_slots(self):
        # The class itself asks for each slot, or refuses.
        assert now(client.mset({key("a"): "1", key("b"): "2"})) == "OK"
        assert now(client.mget([key("a"), key("b")])) == [b"1", b"2"]
        try:
            now(client.rename(key("a"), key("b")))
            raise AssertionError("the keys have several slots")
        except RequestError as error:
            assert "slot" in str(error).lower(), error

    def transaction(self):
        batch = ClusterBatch(is_atomic=True)
        batch.set(key("{tx}1"), "1")
        batch.incr(key("{tx}1"))
        assert now(client.exec(batch, raise_on_error=True)) == ["OK", 2]

    def counter(self):
        assert now(client.incr(key("once"))) == 1


run(Checks(), f"valkey-glide {version('valkey-glide')}, cluster")
