// Runs the public suite http-cache-tests through Larder, which knows keys where the suite knows URLs.
//
// It prints the port of an origin, for a source `http://127.0.0.1:PORT/{key}`, and reads the port of
// a Larder that has it. Then it prints the results, one a line: kind, name, and what failed.
//
// A key is the path of the suite's URL. Clients and the suite's origin talk about each request in
// fields that Larder does not pass on: they go past it here. Everything that Larder says counts; of
// the origin's fields the client gets those that Larder leaves out.
import http from 'node:http'
import readline from 'node:readline'
import fetch from 'node-fetch'
import handleConfig from 'http-cache-tests/server/handle-config.mjs'
import handleState from 'http-cache-tests/server/handle-state.mjs'
import handleTest from 'http-cache-tests/server/handle-test.mjs'
import tests from 'http-cache-tests/tests/index.mjs'
import { runTests, getResults } from 'http-cache-tests/client/runner.mjs'

const AT_ONCE = 40
// The other suites are about methods, statuses, parts and failures of the origin, which keys do not
// have or which the tests of the source cover.
const CHOSEN = new Set([
  'cc-freshness', 'cc-parse', 'cc-response', 'age-parse', 'expires', 'expires-parse', 'vary', 'vary-parse',
  'conditional-lm', 'conditional-inm', 'update304', 'other'
])
// Bodies of another length than their answers say, which no key can have.
const NOT_HTTP = new Set(['304-etag-update-response-Content-Length', '304-etag-update-response-Content-Encoding'])
const OF_CONNECTION = new Set(['connection', 'keep-alive', 'transfer-encoding', 'content-length'])
const PAST_LARDER = ['req-num', 'test-id', 'test-name']

/** The latest request of a client, by key. */
const asked = new Map()
/** What the origin answered, by the number that precedes the body. */
const answers = new Map()
/** The latest answer, by key; null: none came. */
const latest = new Map()

console.warn = () => {}
const log = console.log
console.log = () => {}

const listen = handler => new Promise(resolve => {
  const server = http.createServer(handler).listen(0, '127.0.0.1', () => resolve(server.address().port))
  // Longer than the pauses of the suite.
  server.keepAliveTimeout = 60_000
})
const bodyOf = async stream => {
  const parts = []
  for await (const part of stream) parts.push(part)
  return Buffer.concat(parts)
}
const ask = (port, method, path, headers, body) => new Promise((resolve, reject) => {
  const request = http.request({ host: '127.0.0.1', port, method, path, headers, agent: false }, async response => {
    const raw = response.rawHeaders
    const pairs = raw.flatMap((name, at) => at % 2 ? [] : [[name.toLowerCase(), raw[at + 1]]])
    const fields = pairs.filter(([name]) => !OF_CONNECTION.has(name))
    try {
      resolve({ status: response.statusCode, reason: response.statusMessage, fields, body: await bodyOf(response) })
    } catch (error) {
      reject(error)
    }
  })
  request.on('error', reject)
  request.end(body)
})
const namesOf = fields => new Set(fields.map(([name]) => name))
const without = (fields, names) => fields.filter(([name]) => !names.has(name))

const suite = await listen((request, response) => {
  const [, kind, ...segments] = new URL(request.url, 'http://suite').pathname.split('/')
  const handler = { config: handleConfig, state: handleState, test: handleTest }[kind]
  handler(segments, request, response)
})

/** What Larder takes for the API. */
const origin = await listen(async (request, response) => {
  const key = decodeURIComponent(request.url.slice(1))
  const headers = { ...request.headers, host: 'suite' }
  delete headers.connection
  for (const name of PAST_LARDER) if (asked.get(key)?.[name]) headers[name] = asked.get(key)[name]
  let answer
  try {
    answer = await ask(suite, request.method, '/' + key, headers, await bodyOf(request))
  } catch {
    latest.set(key, null)
    return request.socket.destroy()
  }
  const held = answers.get(latest.get(key))
  const isSame = answer.status === 304 && held
  const number = String(answers.size + 1)
  const all = isSame ? [...without(held.fields, namesOf(answer.fields)), ...answer.fields] : answer.fields
  answers.set(number, { ...answer, fields: all, status: isSame ? held.status : answer.status })
  // A renewed copy keeps the number in its body.
  if (isSame) answers.set(latest.get(key), answers.get(number))
  else latest.set(key, number)
  response.writeHead(answer.status, answer.reason, answer.fields.flat())
  response.end(isSame ? undefined : Buffer.concat([Buffer.from(number + '\n'), answer.body]))
})

log(origin)
const larder = await new Promise(resolve => readline.createInterface({ input: process.stdin }).once('line', resolve))

/** What the suite takes for the cache. */
const front = await listen(async (request, response) => {
  const body = await bodyOf(request)
  const send = (status, fields, bytes) => {
    response.writeHead(status, fields.flat())
    response.end(request.method === 'HEAD' ? undefined : bytes)
  }
  if (!request.url.startsWith('/test/')) {
    const answer = await ask(suite, request.method, request.url, request.headers, body)
    return send(answer.status, answer.fields, answer.body)
  }
  const key = request.url.slice(1)
  asked.set(key, request.headers)
  let found
  try {
    found = await ask(larder, request.method, '/v1/kv/' + encodeURIComponent(key), { ...request.headers, connection: 'close' }, body)
  } catch {
    return request.socket.destroy()
  }
  if (found.status === 304) return send(304, found.fields)
  const hasValue = found.status === 200 && request.method === 'GET'
  const at = found.body.indexOf('\n')
  const from = answers.get(hasValue ? found.body.subarray(0, at).toString() : latest.get(key))
  // The origin was asked, and broke the connection.
  if (!from) return send(found.status, [...found.fields, ['server-request-count', request.headers['req-num']]], found.body)
  const names = namesOf(found.fields)
  // An error of Larder stands for the origin's.
  if (!hasValue) names.delete('content-type')
  const own = found.fields.filter(([name]) => names.has(name))
  send(hasValue ? 200 : from.status, [...own, ...without(from.fields, names)], hasValue ? found.body.subarray(at + 1) : from.body)
})

const chosen = tests.filter(({ id }) => CHOSEN.has(id))
for (const suite of chosen) suite.tests = suite.tests.filter(({ id }) => !NOT_HTTP.has(id))
await runTests(chosen, fetch, false, `http://127.0.0.1:${front}`, AT_ONCE)
const results = getResults()
for (const { tests: cases } of chosen) {
  for (const { id, kind = 'required', browser_only: browserOnly } of cases) {
    if (!browserOnly) log(`${kind} ${id} ${results[id] === true ? 'passes' : results[id]?.[1]}`)
  }
}
process.exit(0)
