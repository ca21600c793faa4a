// Goes through checks (../README.md) and reports them.
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

const [host, port] = process.argv[2].split(':')
export const address = { host, port: Number(port) }
export const key = (name) => `${process.argv[3]}:${name}`
export const allBytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i))

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

// Has the server gone ('restart' in good order, 'crash') and waits until it is back.
export async function serverIsBackAfter(how) {
  console.log(how)
  const { value } = await answers.next()
  if (value !== 'done') throw new Error(`told ${value}`)
}

// A queue between a listener and a check that awaits what it hears.
export function inbox() {
  const heard = []
  const waiting = []
  return {
    put: (item) => (waiting.length ? waiting.shift()(item) : heard.push(item)),
    take: () => new Promise((resolve, reject) => {
      if (heard.length) return resolve(heard.shift())
      const timer = setTimeout(() => reject(new Error('nothing was heard')), 20_000)
      waiting.push((item) => (clearTimeout(timer), resolve(item)))
    }),
  }
}

export async function until(what, done) {
  const end = Date.now() + 20_000
  while (!(await done())) {
    if (Date.now() > end) throw new Error(`waited too long: ${what}`)
    await new Promise((next) => setTimeout(next, 5))
  }
}

export async function run(library, checks) {
  let failed = 0
  for (const [name, check] of Object.entries(checks)) {
    let timer
    const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error('takes too long')), 30_000) })
    try {
      await Promise.race([check(), late])
      console.log(`ok ${name}`)
    } catch (error) {
      failed++
      console.log(`FAILED ${name}: ${error.stack}`)
    }
    clearTimeout(timer)
  }
  const { version } = JSON.parse(readFileSync(new URL(`./node_modules/${library}/package.json`, import.meta.url)))
  console.log(`${library} ${version}: ${Object.keys(checks).length - failed} passed, ${failed} failed`)
  process.exit(failed ? 1 : 0)
}
