import os

import redis

r = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1:6380"), decode_responses=True)
r.set("user:1", "Ada", ex=60)
print(r.get("user:1"))
print(r.incr("visits"))
