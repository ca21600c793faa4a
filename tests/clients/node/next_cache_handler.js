import Redis from 'ioredis'

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6380')

// Pages have maps and buffers, which JSON does not keep.
function pack(_, value) {
  if (value instanceof Map) return { $map: [...value] }
  if (value?.type === 'Buffer') return { $bytes: Buffer.from(value.data).toString('base64') }
  return value
}

function unpack(_, value) {
  if (value?.$map) return new Map(value.$map)
  if (value?.$bytes !== undefined) return Buffer.from(value.$bytes, 'base64')
  return value
}

export default class CacheHandler {
  async get(key, { softTags = [] } = {}) {
    const text = await redis.get(`next:${key}`)
    if (!text) return null
    const entry = JSON.parse(text, unpack)
    const tags = [...entry.tags, ...softTags].map((tag) => `next-tag:${tag}`)
    const cleared = tags.length ? await redis.mget(tags) : []
    return cleared.some((time) => Number(time) >= entry.lastModified) ? null : entry
  }

  async set(key, value, { tags, cacheControl } = {}) {
    tags ??= value?.headers?.['x-next-cache-tags']?.split(',') ?? []
    const entry = { value, tags, cacheControl, lastModified: Date.now() }
    await redis.set(`next:${key}`, JSON.stringify(entry, pack), 'EX', cacheControl?.expire ?? 2592000)
  }

  async revalidateTag(tags) {
    await redis.mset([tags].flat().flatMap((tag) => [`next-tag:${tag}`, Date.now()]))
  }

  resetRequestCache() {}
}
