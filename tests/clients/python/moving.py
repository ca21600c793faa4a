"""redis-py with its default settings counts until it is told to stop, while its server tells it to move (../README.md)."""

import os
import sys
import threading

import redis
from redis.maint_notifications import EndpointType, MaintNotificationsConfig

host, port = sys.argv[1].rsplit(":", 1)
options = {}
if sys.argv[2] == "none":
    options["maint_notifications_config"] = MaintNotificationsConfig(enabled=True, endpoint_type=EndpointType.NONE)
db = redis.Redis(host=host, port=int(port), **options)

stopped = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), stopped.set()), daemon=True).start()
db.incr("count")
print("counting", flush=True)
counted, errors = 1, []
while not stopped.wait(0.001):
    try:
        db.incr("count")
        counted += 1
    except redis.RedisError as error:
        errors.append(repr(error))
print(f"redis-py {redis.__version__}: {counted} counted, {len(errors)} errors {errors[:3]}", flush=True)
# The library's timer of the announced time would keep the process until then.
os._exit(0)
