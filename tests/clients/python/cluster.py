"""redis-py's cluster class through the commands that an application sends: cluster.py HOST:PORT PREFIX"""

import sys

from harness import redis_py, run
from redis.cluster import RedisCluster
from redis.exceptions import RedisClusterException, ResponseError

host, port = sys.argv[1].rsplit(":", 1)
client = RedisCluster(host=host, port=int(port), decode_responses=True)


def key(name):
    return f"{sys.argv[2]}:{name}"


class Checks:
    def nodes(self):
        [node] = client.get_nodes()
        assert (node.host, node.port, node.server_type) == (host, int(port), "primary"), node

    def strings(self):
        for number in range(100):
            assert client.set(key(number), number, ex=100)
        assert [client.get(key(number)) for number in range(100)] == [str(number) for number in range(100)]

    def tagged(self):
        one, two = key("{tag}1"), key("{tag}2")
        assert client.mset({one: "1", two: "2"})
        assert client.mget(one, two) == ["1", "2"]
        assert client.delete(one, two) == 2

    def several_slots(self):
        assert client.mset_nonatomic({key("a"): "1", key("b"): "2"})
        assert client.mget_nonatomic(key("a"), key("b")) == ["1", "2"]
        try:
            client.execute_command("MGET", key("a"), key("b"))
            raise AssertionError("the keys have several slots")
        except (RedisClusterException, ResponseError):
            pass

    def pipeline(self):
        with client.pipeline() as pipe:
            for number in range(100):
                pipe.incr(key("counter"), number)
            assert pipe.execute()[-1] == sum(range(100))

    def scan(self):
        client.set(key("scanned"), "1")
        assert key("scanned") in set(client.scan_iter(match=key("*"), count=1000))


run(Checks(), "cluster, " + redis_py())
