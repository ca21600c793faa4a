"""What applications do with a database, by redis-py: optimistic locks, walks, transactions, tracking."""
import sys
import threading
import redis

port = int(sys.argv[1])
client = redis.Redis(port=port, decode_responses=True)
client.flushall()

# The increment of redis-py's own documentation: WATCH, read, MULTI, EXEC, again if somebody was faster.
def increment(times):
    mine = redis.Redis(port=port, decode_responses=True)
    for _ in range(times):
        mine.transaction(lambda pipe: (lambda seen: (pipe.multi(), pipe.set("counter", seen + 1)))(int(pipe.get("counter") or 0)), "counter")

threads = [threading.Thread(target=increment, args=(25,)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert client.get("counter") == "100", client.get("counter")

with client.pipeline(transaction=True) as pipe:
    pipe.set("a", 1).incr("a").append("a", "x").get("a").dbsize().exists("a", "b", "counter")
    assert pipe.execute() == [True, 2, 2, "2x", 2, 2]
with client.pipeline(transaction=False) as pipe:
    for number in range(1000):
        pipe.set(f"user:{number}", number, ex=1000)
    assert all(pipe.execute())
assert len(set(client.scan_iter(match="user:*", count=7))) == 1000
assert client.dbsize() == 1002
assert client.mget(["user:1", "none", "user:999"]) == ["1", None, "999"]
assert 990 <= client.ttl("user:5") <= 1000
assert client.set("user:5", "new", nx=True) is None and client.set("user:5", "new", get=True) == "5"
assert client.ttl("user:5") == -1
assert client.getdel("user:5") == "new" and client.get("user:5") is None
assert client.randomkey() is not None
lock = client.lock("lock", timeout=10)  # SET NX PX, and a script to release: which there is not
assert lock.acquire(blocking=False)

# Client-side caching: what another client writes is seen.
from redis.cache import CacheConfig
cached = redis.Redis(port=port, protocol=3, cache_config=CacheConfig(), decode_responses=True)
assert cached.get("a") == "2x" and cached.get("a") == "2x"
assert cached.get_cache().size == 1
client.set("a", "changed")
cached.ping()
assert cached.get("a") == "changed"
