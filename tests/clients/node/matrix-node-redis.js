// node-redis with its default settings through the script of the matrix (../README.md).
import assert from 'node:assert/strict'
import { createClient, defineScript, WatchError } from 'redis'
import { address, allBytes, inbox, key, run, serverIsBackAfter, until } from './matrix.js'

const ADD = "return redis.call('INCRBY', KEYS[1], ARGV[1])"
const add = defineScript({
  SCRIPT: `${ADD} -- ${key('script')}`,
  NUMBER_OF_KEYS: 1,
  parseCommand(parser, k, by) {
    parser.pushKey(k)
    parser.push(String(by))
  },
  transformReply: (reply) => reply,
})
const redis = createClient({ socket: address, scripts: { add } })
// The library says with this event that it has lost the server, and connects again.
redis.on('error', () => {})
const another = async (options) => {
  const client = createClient({ socket: address, ...options })
  client.on('error', () => {})
  return client.connect()
}

await run('redis', {
  async connect() {
    await redis.connect()
    assert.equal(await redis.ping(), 'PONG')
    assert.ok((await redis.clientId()) > 0)
    // By default a refusal is overlooked, so this asks for it; redis-server 7 does not have it.
    if ((await redis.info()).includes('larder_version')) {
      const told = await another({ maintNotifications: 'enabled' })
      assert.equal(await told.ping(), 'PONG')
      await told.close()
    }
  },
  async strings() {
    const k = key('string')
    assert.equal(await redis.get(k), null)
    assert.equal(await redis.set(k, 'value'), 'OK')
    assert.equal(await redis.get(k), 'value')
    assert.equal(await redis.append(k, '!'), 6)
    assert.equal(await redis.get(k), 'value!')
    assert.deepEqual(await redis.mGet([k, key('absent')]), ['value!', null])
    assert.equal(await redis.del(k), 1)
    assert.equal(await redis.get(k), null)
  },
  async expiry() {
    const k = key('expiry')
    assert.equal(await redis.set(k, '1', { expiration: { type: 'EX', value: 100 } }), 'OK')
    const left = await redis.ttl(k)
    assert.ok(98 <= left && left <= 100, left)
    assert.equal(await redis.pExpire(k, 60), 1)
    await until('the key to expire', async () => (await redis.get(k)) === null)
    assert.equal(await redis.ttl(k), -2)
  },
  async pipeline() {
    // What is asked in one turn of the loop leaves in one write.
    const k = key('pipe')
    const asked = []
    const expected = []
    for (let i = 0; i < 200; i++) {
      asked.push(redis.set(k + i, i), redis.get(k + i))
      expected.push('OK', String(i))
    }
    const [push, incr, range] = [redis.rPush(k, ['a', 'b']), redis.incr(k), redis.lRange(k, 0, -1)]
    await assert.rejects(incr, { message: /^WRONGTYPE/ })
    assert.deepEqual(await Promise.all(asked), expected)
    assert.deepEqual([await push, await range], [2, ['a', 'b']])
  },
  async transaction() {
    const k = key('balance')
    await redis.set(k, 10)
    assert.deepEqual(await redis.multi().incrBy(k, 5).get(k).rPush(key('log'), 'a').exec(), [15, '15', 1])
    const other = await another()
    for (const meanwhile of [true, false]) {
      await redis.watch(k)
      const seen = Number(await redis.get(k))
      if (meanwhile) await other.set(k, 100)
      const done = redis.multi().set(k, seen * 2).exec()
      if (meanwhile) await assert.rejects(done, WatchError)
      else assert.deepEqual(await done, ['OK'])
    }
    assert.equal(await redis.get(k), '200')
    await other.close()
  },
  async pubsub() {
    const channel = key('channel')
    const subscriber = await another()
    const messages = inbox()
    await subscriber.subscribe(channel, (message, from) => messages.put([from.toString(), message]), true)
    assert.equal(await redis.publish(channel, 'hello'), 1)
    assert.equal(await redis.publish(channel, allBytes), 1)
    assert.deepEqual(await messages.take(), [channel, Buffer.from('hello')])
    assert.deepEqual(await messages.take(), [channel, allBytes])
    await subscriber.unsubscribe(channel)
    assert.equal(await redis.publish(channel, 'nobody'), 0)
    await subscriber.close()
  },
  async blocking_pop() {
    const [ask, answer] = [key('ask'), key('answer')]
    const [one, two] = [await another(), await another()]
    assert.equal(await one.blPop(ask, 0.05), null)
    const echo = async () => {
      for (let i = 0; i < 20; i++) await redis.rPush(answer, (await two.brPop(ask, 20)).element)
    }
    const echoing = echo()
    for (let i = 0; i < 20; i++) {
      assert.equal(await redis.lPush(ask, String(i)), 1)
      assert.deepEqual({ ...(await one.blPop(answer, 20)) }, { key: answer, element: String(i) })
    }
    await echoing
    await Promise.all([one.close(), two.close()])
  },
  async hash() {
    const k = key('hash')
    assert.equal(await redis.hSet(k, { name: 'Ada', age: 36 }), 2)
    assert.equal(await redis.hGet(k, 'name'), 'Ada')
    assert.deepEqual({ ...(await redis.hGetAll(k)) }, { name: 'Ada', age: '36' })
    assert.equal(await redis.hIncrBy(k, 'age', 1), 37)
    assert.deepEqual(await redis.hmGet(k, ['age', 'absent']), ['37', null])
    assert.equal(await redis.hDel(k, 'name'), 1)
    assert.deepEqual({ ...(await redis.hGetAll(k)) }, { age: '37' })
  },
  async script() {
    const k = key('script')
    const keysAndArguments = (by) => ({ keys: [k], arguments: [String(by)] })
    await redis.set(k, 1)
    assert.equal(await redis.get(k), '1')
    assert.equal(await redis.eval(ADD, keysAndArguments(2)), 3)
    assert.equal(await redis.get(k), '3')
    await assert.rejects(redis.evalSha('0'.repeat(40), keysAndArguments(4)), { message: /^NOSCRIPT/ })
    assert.equal(await redis.add(k, 4), 7) // EVALSHA, then EVAL
    assert.equal(await redis.add(k, 4), 11) // EVALSHA
    assert.equal(await redis.get(k), '11')
  },
  async reconnect() {
    const channel = key('news')
    const subscriber = await another()
    const messages = inbox()
    await subscriber.subscribe(channel, (message) => messages.put(message))
    for (const how of ['restart', 'crash']) {
      await serverIsBackAfter(how)
      assert.equal(await redis.set(key('after'), how), 'OK') // no error is seen
      assert.equal(await redis.get(key('after')), how)
      // The library subscribes again by itself.
      await until('the subscription', async () => (await redis.publish(channel, how)) === 1)
      assert.equal(await messages.take(), how)
    }
    await subscriber.close()
  },
})
