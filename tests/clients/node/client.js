// ioredis with its default settings against the server at HOST:PORT. The checks: ../README.md.
import assert from 'node:assert/strict'
import Redis from 'ioredis'
import { address, allBytes, key, run } from './matrix.js'

const connect = (options) => new Redis({ ...address, ...options })
const redis = connect()

await run('ioredis', {
  async handshake() {
    assert.equal(await redis.ping(), 'PONG')
    const hello = await redis.call('HELLO')
    const proto = Array.isArray(hello) ? hello[hello.indexOf('proto') + 1] : (hello.get?.('proto') ?? hello.proto)
    assert.equal(proto, 3)
    assert.ok((await redis.client('ID')) > 0)
    const named = connect({ connectionName: 'larder-test' })
    assert.equal(await named.client('GETNAME'), 'larder-test')
    await named.quit()
  },
  async strings() {
    const k = key('string')
    assert.equal(await redis.get(k), null)
    assert.equal(await redis.set(k, 'value'), 'OK')
    assert.equal(await redis.get(k), 'value')
    assert.equal(await redis.set(k, 'other', 'NX'), null)
    assert.equal(await redis.set(key('absent'), 'other', 'XX'), null)
    assert.equal(await redis.set(k, 'value 2', 'XX'), 'OK')
    assert.equal(await redis.append(k, '!'), 8)
    assert.equal(await redis.getrange(k, 0, 4), 'value')
    assert.equal(await redis.strlen(k), 8)
    assert.equal(await redis.getset(k, '3'), 'value 2!')
    assert.equal(await redis.getdel(k), '3')
    assert.equal(await redis.get(k), null)
  },
  async many() {
    const pairs = Array.from({ length: 50 }, (_, i) => [key(`many${i}`), `v${i}`])
    assert.equal(await redis.mset(new Map(pairs)), 'OK')
    const keys = pairs.map(([k]) => k)
    const values = pairs.map(([, v]) => v)
    keys.splice(7, 0, key('absent'))
    values.splice(7, 0, null)
    assert.deepEqual(await redis.mget(keys), values)
  },
  async expiry() {
    const k = key('expiry')
    const between = (value, low, high) => assert.ok(low <= value && value <= high, `${value}`)
    assert.equal(await redis.set(k, '1', 'EX', 100), 'OK')
    between(await redis.ttl(k), 98, 100)
    assert.equal(await redis.expire(k, 50), 1)
    between(await redis.ttl(k), 48, 50)
    assert.equal(await redis.persist(k), 1)
    assert.equal(await redis.ttl(k), -1)
    assert.equal(await redis.ttl(key('absent')), -2)
    assert.equal(await redis.pexpire(k, 60), 1)
    const end = Date.now() + 20_000
    while ((await redis.get(k)) !== null) {
      assert.ok(Date.now() < end, 'does not expire')
      await new Promise((done) => setTimeout(done, 5))
    }
    assert.equal(await redis.exists(k), 0)
  },
  async delete() {
    const [a, b] = [key('a'), key('b')]
    await redis.mset(a, '1', b, '2')
    assert.equal(await redis.exists(a, b, key('absent')), 2)
    assert.equal(await redis.del(a, key('absent')), 1)
    assert.equal(await redis.get(a), null)
    assert.equal(await redis.unlink(b), 1)
    assert.equal(await redis.exists(a, b), 0)
  },
  async counters() {
    const k = key('counter')
    assert.equal(await redis.incr(k), 1)
    assert.equal(await redis.incrby(k, 41), 42)
    assert.equal(await redis.decr(k), 41)
    assert.equal(await redis.get(k), '41')
    assert.equal(Number(await redis.incrbyfloat(k, 0.5)), 41.5)
    await assert.rejects(redis.incr(k), { message: 'ERR value is not an integer or out of range' })
  },
  async binary() {
    const k = Buffer.concat([Buffer.from(key('binary')), allBytes])
    const value = Buffer.concat([allBytes, allBytes, allBytes])
    assert.equal(await redis.set(k, value), 'OK')
    assert.deepEqual(await redis.getBuffer(k), value)
    assert.equal(await redis.set(k, ''), 'OK')
    assert.equal(await redis.get(k), '')
  },
  async large() {
    const k = key('large')
    const value = Buffer.alloc(8 * 1024 * 1024, allBytes)
    assert.equal(await redis.set(k, value), 'OK')
    assert.ok((await redis.getBuffer(k)).equals(value))
    assert.equal(await redis.del(k), 1)
  },
  async pipeline() {
    const pipe = redis.pipeline()
    const expected = []
    for (let i = 0; i < 500; i++) {
      pipe.set(key(`pipe${i}`), i).get(key(`pipe${i}`))
      expected.push([null, 'OK'], [null, String(i)])
    }
    assert.deepEqual(await pipe.exec(), expected)
    const k = key('word')
    const [set, incr, get] = await redis.pipeline().set(k, 'x').incr(k).get(k).exec()
    assert.deepEqual([set, get], [[null, 'OK'], [null, 'x']])
    assert.match(incr[0].message, /not an integer/)
  },
  async transaction() {
    const k = key('balance')
    await redis.set(k, 10)
    const replies = await redis.multi().incrby(k, 5).get(k).mget(k, key('absent')).exec()
    assert.deepEqual(replies, [[null, 15], [null, '15'], [null, ['15', null]]])
    const other = connect()
    for (const [meanwhile, expected] of [[true, null], [false, [[null, 'OK']]]]) {
      await redis.watch(k)
      const seen = Number(await redis.get(k))
      if (meanwhile) await other.set(k, 100)
      assert.deepEqual(await redis.multi().set(k, seen * 2).exec(), expected)
    }
    assert.equal(await redis.get(k), '200')
    await other.quit()
  },
  async errors() {
    await assert.rejects(redis.call('NOSUCHCOMMAND', 'a'), (error) =>
      error.message.startsWith("ERR unknown command 'NOSUCHCOMMAND'"))
    assert.equal(await redis.ping(), 'PONG')
  },
  async parallel() {
    const work = async (worker) => {
      const own = connect()
      for (let i = 0; i < 50; i++) {
        await own.incr(key('parallel'))
        const k = key(`parallel${worker}:${i}`)
        await own.set(k, i)
        assert.equal(await own.get(k), String(i))
      }
      await own.quit()
    }
    await Promise.all(Array.from({ length: 16 }, (_, worker) => work(worker)))
    assert.equal(await redis.get(key('parallel')), '800')
  },
})
