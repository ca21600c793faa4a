// node-redis with its default settings counts until it is told to stop, while its server tells it to move (../README.md).
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { createClient } from 'redis'

const [host, port] = process.argv[2].split(':')
const none = process.argv[3] === 'none' ? { maintNotifications: 'enabled', maintEndpointType: 'none' } : {}
const db = createClient({ socket: { host, port: Number(port) }, ...none })
// Lost connections are told with this event, and come back.
let lost = 0
db.on('error', () => lost++)
await db.connect()

let stopped = false
createInterface({ input: process.stdin }).once('line', () => { stopped = true })
let counted = 0
const errors = []
while (!stopped) {
  try {
    await db.incr('count')
    if (++counted === 1) console.log('counting')
  } catch (error) {
    errors.push(error)
  }
  await setTimeout(1)
}
const { version } = createRequire(import.meta.url)('redis/package.json')
console.log(`node-redis ${version}: ${counted} counted, ${errors.length} errors ${errors.slice(0, 3)}; connections lost: ${lost}`)
process.exit(0)
