// Calls the cache handler of docs/quick-starts.md as Next.js does.
import assert from 'node:assert'
import Redis from 'ioredis'
import CacheHandler from './next_cache_handler.js'

const handler = new CacheHandler()
const page = {
  kind: 'APP_PAGE',
  html: 'Ada',
  rscData: Buffer.from([0, 255]),
  segmentData: new Map([['/_tree', Buffer.from('tree')]]),
  headers: { 'x-next-cache-tags': 'shop,_N_T_/layout' },
}
await handler.set('/', page, { cacheControl: { revalidate: 60, expire: 120 } })
const { value, cacheControl, lastModified } = await handler.get('/')
assert.deepStrictEqual(value, page)
assert.deepStrictEqual(cacheControl, { revalidate: 60, expire: 120 })
assert(Math.abs(Date.now() - lastModified) < 60_000)
await handler.set('prices', { kind: 'FETCH', data: {} }, { tags: ['prices'] })

await handler.revalidateTag(['shop'], { expire: 0 })
assert.strictEqual(await handler.get('/'), null)
assert(await handler.get('prices', { softTags: ['_N_T_/'] }))
assert.strictEqual(await handler.get('prices', { softTags: ['shop'] }), null)
assert.strictEqual(await handler.get('absent'), null)

console.log(value.html)
const redis = new Redis(process.env.REDIS_URL)
console.log(await redis.incr('visits'))
process.exit()
