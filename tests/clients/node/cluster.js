// ioredis' cluster class through the commands that an application sends: cluster.js HOST:PORT PREFIX
import assert from 'node:assert/strict'
import Redis from 'ioredis'
import { address, key, run } from './matrix.js'

const cluster = new Redis.Cluster([address])

await run('ioredis', {
  async nodes() {
    assert.equal(await cluster.set(key('first'), '1'), 'OK')
    assert.deepEqual(cluster.nodes('master').map(node => node.options.port), [address.port])
  },
  async strings() {
    for (let i = 0; i < 100; i++) assert.equal(await cluster.set(key(i), i, 'EX', 100), 'OK')
    for (let i = 0; i < 100; i++) assert.equal(await cluster.get(key(i)), String(i))
  },
  async tagged() {
    const [one, two] = [key('{tag}1'), key('{tag}2')]
    assert.equal(await cluster.mset(one, '1', two, '2'), 'OK')
    assert.deepEqual(await cluster.mget(one, two), ['1', '2'])
    assert.equal(await cluster.del(one, two), 2)
  },
  async severalSlots() {
    await assert.rejects(cluster.mget(key('a'), key('b')), /CROSSSLOT/)
  },
  async pipeline() {
    const pipe = cluster.pipeline()
    for (let i = 0; i < 100; i++) pipe.incrby(key('counter'), i)
    assert.deepEqual((await pipe.exec()).at(-1), [null, 4950])
  },
  async transaction() {
    const replies = await cluster.multi().set(key('{tx}1'), '1').get(key('{tx}1')).exec()
    assert.deepEqual(replies, [[null, 'OK'], [null, '1']])
  },
})
