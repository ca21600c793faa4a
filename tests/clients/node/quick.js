import Redis from 'ioredis'

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6380')
await redis.set('user:1', 'Ada', 'EX', 60)
console.log(await redis.get('user:1'))
console.log(await redis.incr('visits'))
redis.disconnect()
