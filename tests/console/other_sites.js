// What pages of other sites can do to Larder, in Chromium: a page elsewhere, a value that says it is a page, and a name that leads to this
// machine (DNS rebinding). Usage: other_sites.js DATA_PORT ADMIN_PORT. The server has the keys `stay` and `script`, whose value is a script
// that sets `stolen`. Its group `pages` has the key `page`, a page with a script that sets the log level to `trace`.
import { createRequire } from "node:module";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const puppeteer = createRequire(join(root, ".deps/console/package.json"))("puppeteer-core");

const [, , data, admin] = process.argv;
const BLANK = "<!doctype html><title>attack</title>";

function fail(text) {
  throw new Error(text);
}

/** A page at this address, whoever answers there: the site has served it before its name led to this machine. */
async function pageAt(browser, address, html = BLANK) {
  const page = await browser.newPage();
  await page.setRequestInterception(true);
  page.on("request", (request) => (request.url() === address ? request.respond({ contentType: "text/html", body: html }) : request.continue()));
  await page.goto(address);
  return page;
}

async function logLevel() {
  return (await fetch(`http://127.0.0.1:${admin}/v1/log-level`)).text();
}

async function isUnchanged(what, level) {
  const kept = await fetch(`http://127.0.0.1:${data}/v1/kv/stay`);
  if (kept.status !== 200 || (await kept.text()) !== "here") fail(`${what} changed a key`);
  if ((await logLevel()) !== level) fail(`${what} changed the log level`);
}

/** Statuses of requests that the page sends; 0: it may not see the answer. */
function send(page, requests) {
  return page.evaluate(async (all) => {
    const send = ([method, url, body, mode]) => fetch(url, { method, body, mode }).then((answer) => answer.status, () => 0);
    const statuses = [];
    for (const request of all) statuses.push(await send(request));
    return statuses;
  }, requests);
}

async function changeFromElsewhere(browser, level) {
  const page = await pageAt(browser, "http://elsewhere.example/");
  const item = '{"key":"stay","value":"x","ttl":60}';
  const requests = [["POST", `http://127.0.0.1:${data}/_groupcache/default/_clear/?prefix=`, "x"], ["POST", `http://127.0.0.1:${data}/cache/v1/item`, item]];
  const control = [["POST", `http://127.0.0.1:${admin}/v1/config/reload`, ""], ["POST", `http://127.0.0.1:${admin}/v1/snapshot`, ""]];
  await send(page, [...requests, ...control].map(([method, url, body]) => [method, url, body, "no-cors"]));
  await isUnchanged("a page elsewhere", level);
  await page.close();
}

/** A value that is a script: as `<script>` of a page elsewhere it would show itself to the page. */
async function includeValues(browser) {
  const places = [
    `${data}/v1/kv/script`, `${data}/v0/entity?id=script`, `${data}/data/script`, `${data}/?key=script`, `${admin}/v1/kv/script`,
  ];
  for (const place of places) {
    const page = await pageAt(browser, "http://elsewhere.example/");
    const stolen = await page.evaluate((src) => new Promise((resolve) => {
      const script = document.createElement("script");
      script.onload = script.onerror = () => resolve(window.stolen);
      script.src = src;
      document.head.append(script);
    }), `http://127.0.0.1:${place}`);
    if (stolen !== undefined) fail(`${place}: a page elsewhere has read the value: ${stolen}`);
    await page.close();
  }
}

/** A value that is a page must not run in the console's name, alone or in a frame. */
async function openValue(browser, level) {
  const value = `http://127.0.0.1:${admin}/v1/groups/pages/kv/page`;
  if (!(await (await fetch(value)).text()).includes("<script>")) fail("the value is not there");
  const page = await browser.newPage();
  // It may be saved instead of shown.
  await page.goto(value).catch((error) => error.message.includes("ERR_ABORTED") || fail(error));
  await new Promise((resolve) => setTimeout(resolve, 500));
  await isUnchanged("a value", level);
  await page.close();
  const framing = await pageAt(browser, "http://elsewhere.example/", `${BLANK}<iframe src="${value}"></iframe>`);
  await new Promise((resolve) => setTimeout(resolve, 500));
  await isUnchanged("a value in a frame", level);
  await framing.close();
}

async function rebind(browser, level) {
  const changes = [["PUT", "/v1/kv/stay", "x"], ["DELETE", "/v1/kv/stay"], ["POST", "/cache/v1/item", '{"key":"stay","value":"x","ttl":60}'], ["DELETE", "/v1/groups/default"]];
  const control = [["PUT", "/v1/log-level", "trace"], ["POST", "/v1/config/reload"]];
  for (const [port, requests] of [[data, changes], [admin, control]]) {
    const page = await pageAt(browser, `http://rebound.example:${port}/attack`);
    const reads = [["GET", "/v1/kv/stay"], ["GET", "/v1/keys"], ["GET", "/"]];
    const statuses = await send(page, [...requests, ...reads]);
    if (statuses.some((status) => status !== 403)) fail(`by another name, port ${port}: ${statuses}`);
    await isUnchanged("a page of another name", level);
    await page.close();
  }
}

/** The console itself, by its usual names. */
async function useOwnPage(browser, level) {
  for (const host of ["127.0.0.1", "localhost"]) {
    const page = await browser.newPage();
    const opened = await page.goto(`http://${host}:${admin}/`);
    const statuses = await send(page, [["PUT", "v1/log-level", level], ["GET", "v1/keys"], ["GET", "v1/kv/stay"]]);
    if (opened.status() !== 200 || statuses.some((status) => status !== 200)) fail(`${host}: ${opened.status()}, ${statuses}`);
    await page.close();
  }
}

const executablePath = process.env.PATH.split(":").map((part) => join(part, "chromium")).find(existsSync);
const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--host-resolver-rules=MAP *.example 127.0.0.1"];
// Larder's own guards are tested, not the browser's.
args.push("--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests,PrivateNetworkAccessSendPreflights");
const browser = await puppeteer.launch({ executablePath, args });
const failures = [];
try {
  const level = await logLevel();
  for (const step of [changeFromElsewhere, includeValues, openValue, rebind, useOwnPage]) {
    await step(browser, level).then(() => console.log(`${step.name}: ok`), (error) => failures.push(`${step.name}: ${error.message}`));
  }
} finally {
  await browser.close();
}
if (failures.length > 0) fail(failures.join("\n"));
