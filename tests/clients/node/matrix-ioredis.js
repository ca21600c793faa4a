// ioredis with its default settings through the script of the matrix (../README.md).
import assert from 'node:assert/strict'
import Redis from 'ioredis'
import { address, allBytes, inbox, key, run, serverIsBackAfter, until } from './matrix.js'

const redis = new Redis(address)
const ADD = "return redis.call('INCRBY', KEYS[1], ARGV[1])"
// The library says with this event that it has lost the server, and connects again.
redis.on('error', () => {})

await run('ioredis', {
  async connect() {
    assert.equal(await redis.ping(), 'PONG')
    assert.ok((await redis.client('ID')) > 0)
  },
  async strings() {
    const k = key('string')
    assert.equal(await redis.get(k), null)
    assert.equal(await redis.set(k, 'value'), 'OK')
    assert.equal(await redis.get(k), 'value')
    assert.equal(await redis.append(k, '!'), 6)
    assert.equal(await redis.get(k), 'value!')
    assert.deepEqual(await redis.mget(k, key('absent')), ['value!', null])
    assert.equal(await redis.del(k), 1)
    assert.equal(await redis.get(k), null)
  },
  async expiry() {
    const k = key('expiry')
    assert.equal(await redis.set(k, '1', 'EX', 100), 'OK')
    const left = await redis.ttl(k)
    assert.ok(98 <= left && left <= 100, left)
    assert.equal(await redis.pexpire(k, 60), 1)
    await until('the key to expire', async () => (await redis.get(k)) === null)
    assert.equal(await redis.ttl(k), -2)
  },
  async pipeline() {
    const k = key('pipe')
    const pipe = redis.pipeline()
    const expected = []
    for (let i = 0; i < 200; i++) {
      pipe.set(k + i, i).get(k + i)
      expected.push([null, 'OK'], [null, String(i)])
    }
    const replies = await pipe.rpush(k, 'a', 'b').incr(k).lrange(k, 0, -1).exec()
    assert.deepEqual(replies.slice(0, 400), expected)
    const [push, incr, range] = replies.slice(400)
    assert.deepEqual([push, range], [[null, 2], [null, ['a', 'b']]])
    assert.match(incr[0].message, /^WRONGTYPE/)
  },
  async transaction() {
    const k = key('balance')
    await redis.set(k, 10)
    const replies = await redis.multi().incrby(k, 5).get(k).rpush(key('log'), 'a').exec()
    assert.deepEqual(replies, [[null, 15], [null, '15'], [null, 1]])
    const other = redis.duplicate()
    for (const [meanwhile, expected] of [[true, null], [false, [[null, 'OK']]]]) {
      await redis.watch(k)
      const seen = Number(await redis.get(k))
      if (meanwhile) await other.set(k, 100)
      assert.deepEqual(await redis.multi().set(k, seen * 2).exec(), expected)
    }
    assert.equal(await redis.get(k), '200')
    await other.quit()
  },
  async pubsub() {
    const channel = key('channel')
    const subscriber = redis.duplicate()
    const messages = inbox()
    subscriber.on('messageBuffer', (from, message) => messages.put([from.toString(), message]))
    assert.equal(await subscriber.subscribe(channel), 1)
    assert.equal(await redis.publish(channel, 'hello'), 1)
    assert.equal(await redis.publish(channel, allBytes), 1)
    assert.deepEqual(await messages.take(), [channel, Buffer.from('hello')])
    assert.deepEqual(await messages.take(), [channel, allBytes])
    assert.equal(await subscriber.unsubscribe(channel), 0)
    assert.equal(await redis.publish(channel, 'nobody'), 0)
    await subscriber.quit()
  },
  async blocking_pop() {
    const [ask, answer] = [key('ask'), key('answer')]
    const [one, two] = [redis.duplicate(), redis.duplicate()]
    assert.equal(await one.blpop(ask, 0.05), null)
    const echo = async () => {
      for (let i = 0; i < 20; i++) await redis.rpush(answer, (await two.brpop(ask, 20))[1])
    }
    const echoing = echo()
    for (let i = 0; i < 20; i++) {
      assert.equal(await redis.lpush(ask, i), 1)
      assert.deepEqual(await one.blpop(answer, 20), [answer, String(i)])
    }
    await echoing
    await Promise.all([one.quit(), two.quit()])
  },
  async hash() {
    const k = key('hash')
    assert.equal(await redis.hset(k, { name: 'Ada', age: 36 }), 2)
    assert.equal(await redis.hget(k, 'name'), 'Ada')
    assert.deepEqual({ ...(await redis.hgetall(k)) }, { name: 'Ada', age: '36' })
    assert.equal(await redis.hincrby(k, 'age', 1), 37)
    assert.deepEqual(await redis.hmget(k, 'age', 'absent'), ['37', null])
    assert.equal(await redis.hdel(k, 'name'), 1)
    assert.deepEqual({ ...(await redis.hgetall(k)) }, { age: '37' })
  },
  async script() {
    const k = key('script')
    await redis.set(k, 1)
    assert.equal(await redis.get(k), '1')
    assert.equal(await redis.eval(ADD, 1, k, 2), 3)
    assert.equal(await redis.get(k), '3')
    await assert.rejects(redis.evalsha('0'.repeat(40), 1, k, 4), { message: /^NOSCRIPT/ })
    redis.defineCommand('add', { numberOfKeys: 1, lua: `${ADD} -- ${k}` })
    assert.equal(await redis.add(k, 4), 7) // EVALSHA, then EVAL
    assert.equal(await redis.add(k, 4), 11) // EVALSHA
    assert.equal(await redis.get(k), '11')
  },
  async reconnect() {
    const channel = key('news')
    const subscriber = redis.duplicate()
    subscriber.on('error', () => {})
    const messages = inbox()
    subscriber.on('message', (_, message) => messages.put(message))
    await subscriber.subscribe(channel)
    for (const how of ['restart', 'crash']) {
      await serverIsBackAfter(how)
      assert.equal(await redis.set(key('after'), how), 'OK') // no error is seen
      assert.equal(await redis.get(key('after')), how)
      // The library subscribes again by itself.
      await until('the subscription', async () => (await redis.publish(channel, how)) === 1)
      assert.equal(await messages.take(), how)
    }
    await subscriber.quit()
  },
})
