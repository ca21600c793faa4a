// @upstash/redis, @upstash/ratelimit and @vercel/kv with their default settings against Redis over HTTP at
// HOST:PORT/redis.
import assert from 'node:assert/strict'
import { Ratelimit } from '@upstash/ratelimit'
import { Redis } from '@upstash/redis'
import { createClient } from '@vercel/kv'
import { address, inbox, key, run, until } from './matrix.js'

const hasRedis = process.argv[4] === 'redis'
const token = 'secret'
const url = `http://${address.host}:${address.port}/redis`
const connect = (options) => new Redis({ url, token, enableTelemetry: false, retry: false, ...options })
const redis = connect()

await run('@upstash/redis', {
  async strings() {
    const k = key('string')
    assert.equal(await redis.get(k), null)
    assert.equal(await redis.set(k, 'value "ü\n"'), 'OK')
    assert.equal(await redis.get(k), 'value "ü\n"')
    assert.equal(await redis.set(k, 'other', { nx: true }), null)
    assert.equal(await redis.set(k, 'OK', { ex: 100 }), 'OK')
    assert.equal(await redis.get(k), 'OK')
    assert.equal(await redis.ttl(k), 100)
    assert.equal(await redis.append(k, '!'), 3)
    assert.equal(await redis.getdel(k), 'OK!')
    assert.equal(await redis.exists(k), 0)
  },
  async values() {
    const k = key('json')
    const value = { name: 'Ada', tags: ['a', 1, null], is: true }
    await redis.set(k, value)
    assert.deepEqual(await redis.get(k), value)
    const plain = connect({ responseEncoding: false, automaticDeserialization: false })
    assert.equal(await plain.get(k), JSON.stringify(value))
    await redis.mset({ [key('a')]: 1, [key('b')]: 'x' })
    assert.deepEqual(await redis.mget(key('a'), key('absent'), key('b')), [1, null, 'x'])
  },
  async counters() {
    const k = key('counter')
    assert.deepEqual(await Promise.all(Array.from({ length: 50 }, () => redis.incr(k))).then((n) => n.at(-1)), 50)
    assert.equal(await redis.incrby(k, 5), 55)
    assert.equal(await redis.incrbyfloat(k, 0.5), 55.5)
  },
  async large() {
    const value = 'x'.repeat(3_000_000)
    await redis.set(key('large'), value)
    assert.equal(await redis.get(key('large')), value)
  },
  async pipelines() {
    const k = key('pipe')
    const pipe = redis.pipeline()
    for (let i = 0; i < 500; i++) pipe.set(`${k}${i}`, i)
    pipe.get(`${k}499`)
    assert.deepEqual((await pipe.exec()).slice(-2), ['OK', 499])
    const auto = connect({ enableAutoPipelining: true })
    assert.deepEqual(await Promise.all([auto.get(`${k}1`), auto.get(`${k}2`)]), [1, 2])
    await redis.set(k, 'text')
    const failed = await redis.pipeline().incr(k).get(k).exec({ keepErrors: true })
    assert.match(failed[0].error, /^ERR value is not an integer/)
    assert.equal(failed[1].result, 'text')
  },
  async transactions() {
    const k = key('transaction')
    const all = await redis.multi().set(k, 1).incr(k).get(k).exec()
    assert.deepEqual(all, ['OK', 2, 2])
  },
  async errors() {
    await redis.set(key('text'), 'text')
    await assert.rejects(redis.incr(key('text')), /ERR value is not an integer/)
    await assert.rejects(redis.exec(['NOSUCHCOMMAND']), /ERR unknown command/)
    await assert.rejects(connect({ token: 'wrong' }).get('k'), (error) => error.name === 'UpstashError')
  },
  async scan() {
    for (let i = 0; i < 30; i++) await redis.set(key(`scan:${i}`), i)
    const found = new Set()
    let cursor = '0'
    do {
      const [next, keys] = await redis.scan(cursor, { match: key('scan:*'), count: 10 })
      keys.forEach((k) => found.add(k))
      cursor = next
    } while (cursor !== '0')
    assert.equal(found.size, 30)
  },
  async subscriptions() {
    const heard = inbox()
    const channel = key('channel')
    const subscriber = redis.subscribe([channel])
    subscriber.on('message', ({ message }) => heard.put(message))
    const patterns = redis.psubscribe([key('chan*')])
    patterns.on('pmessage', ({ message }) => heard.put(message))
    await until('both are subscribed', async () => (await redis.publish(channel, '"first"')) === 2)
    assert.deepEqual([await heard.take(), await heard.take()], ['first', 'first'])
    await subscriber.unsubscribe()
    await patterns.unsubscribe()
    await until('both are gone', async () => (await redis.publish(channel, 'second')) === 0)
  },
  async types() {
    if (!hasRedis) return
    await redis.hset(key('hash'), { a: 1, b: 'x' })
    assert.deepEqual(await redis.hgetall(key('hash')), { a: 1, b: 'x' })
    await redis.zadd(key('zset'), { score: 1, member: 'one' }, { score: 2.5, member: 'two' })
    assert.deepEqual(await redis.zrange(key('zset'), 0, -1, { withScores: true }), ['one', 1, 'two', 2.5])
    await redis.rpush(key('list'), 'a', 'b')
    assert.deepEqual(await redis.lrange(key('list'), 0, -1), ['a', 'b'])
    assert.equal(await redis.eval('return ARGV[1]', [], ['seven']), 'seven')
  },
  async vercel() {
    const kv = createClient({ url, token })
    await kv.set(key('vercel'), { n: 1 }, { ex: 100 })
    assert.deepEqual(await kv.get(key('vercel')), { n: 1 })
    assert.equal(await kv.del(key('vercel')), 1)
  },
  async ratelimit() {
    // Its scripts need a Redis.
    if (!hasRedis) return
    const limit = new Ratelimit({ redis, limiter: Ratelimit.fixedWindow(3, '1000 s'), prefix: key('limit') })
    const answers = []
    for (let i = 0; i < 5; i++) answers.push((await limit.limit('ada')).success)
    assert.deepEqual(answers, [true, true, true, false, false])
  },
})
