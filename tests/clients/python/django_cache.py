import os

from django.conf import settings
from django.core.cache import cache

url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6380")
settings.configure(CACHES={"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": url}})

cache.set("user:1", "Ada", 60)
print(cache.get("user:1"))
cache.add("visits", 0)
print(cache.incr("visits"))
