// The console in Chromium, as a person has it: every view on a desktop and a phone, light and dark, by keyboard, held to its policy and to
// the rules of axe-core. Usage: check.js FOLDER ADMIN_URL PID, with a folder for pictures and the process of the server; a user `admin`
// with the password `a` may do everything.
import { createRequire } from "node:module";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const require = createRequire(join(root, ".deps/console/package.json"));
const puppeteer = require("puppeteer-core");
const axe = require.resolve("axe-core/axe.min.js");

const [, , folder, url] = process.argv;
const server = Number(process.argv[4]);
const VIEWS = ["overview", "groups", "connections", "keys", "events", "settings"];
const SIZES = { desktop: { width: 1280, height: 900 }, phone: { width: 320, height: 700, isMobile: true, hasTouch: true } };
/** What the heat map shows; the other list has the groups. */
const TIMED = ".bar:not(:has(fieldset)) label select";
/** Milliseconds; far beyond what anything takes on the busiest machine. */
const PATIENCE = 120_000;
mkdirSync(folder, { recursive: true });

function fail(text) {
  throw new Error(text);
}

/** A page that fails the check for whatever a browser complains about. */
async function openPage(browser, size, scheme) {
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE);
  const complaints = [];
  page.on("error", (error) => complaints.push(`the page crashed: ${error}`));
  page.on("console", (message) => { if (["error", "warn"].includes(message.type())) complaints.push(message.text()); });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => { if (new URL(request.url()).origin !== new URL(url).origin) complaints.push(`asks ${request.url()}`); });
  await page.exposeFunction("complain", (text) => complaints.push(text));
  await page.evaluateOnNewDocument(() => {
    document.addEventListener("securitypolicyviolation", (event) => window.complain(`policy: ${event.violatedDirective} ${event.blockedURI}`));
  });
  await page.setViewport(SIZES[size]);
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.authenticate({ username: "admin", password: "a" });
  return { page, complaints };
}

/** Opens an address by a load: another fragment alone would be none. */
async function load(page, address) {
  await page.goto("about:blank");
  return page.goto(address);
}

async function openView(page, view) {
  await load(page, `${url}#${view}`);
  await page.waitForFunction((wanted) => document.querySelector("main").dataset.ready === wanted, {}, view);
  await page.waitForFunction(() => document.getElementById("live").textContent === "live");
}

/** axe-core does not pass the page's policy: its source runs by the debugger, which is outside of the page. */
async function checkAccess(page, name) {
  await page.evaluate(readFileSync(axe, "utf8"));
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const told = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join("\n")}`);
  if (told.length > 0) fail(`${name}: ${told.join("\n")}`);
}

async function lookAtViews(browser) {
  for (const size of Object.keys(SIZES)) {
    for (const scheme of ["light", "dark"]) {
      const { page, complaints } = await openPage(browser, size, scheme);
      for (const view of VIEWS) {
        const name = `${view}-${size}-${scheme}`;
        await openView(page, view);
        if (view === "overview") {
          await page.waitForFunction(() => document.querySelectorAll("figure path").length >= 8);
          await waitForText(page, "main", "GET\tread");
          await waitForText(page, ".tiles", "p99 of Redis commands");
          await page.select(TIMED, "redis_read_seconds");
          await page.waitForFunction(() => Number(document.querySelector("figure.heat .legend b").textContent) >= 1);
          // Somebody calls PING all the time.
          await page.select(TIMED, "command:ping");
          await page.waitForFunction(() => Number(document.querySelector("figure.heat .legend b")?.textContent) >= 1);
        }
        if (view === "keys") {
          await page.$eval("form button.main", (button) => button.click());
          await page.waitForSelector(".keys button");
          await page.$eval(".keys button", (button) => button.click());
          await page.waitForSelector("dl");
          await waitForText(page, "main", "Keys that took the most");
          // The hit ratio of a prefix: 310 reads, of which the first missed. Counts are halved each minute, down to no miss.
          await page.waitForFunction(() => /page:\t\d+\t[\d.]+ %\t(99\.\d+|100) %/.test(document.querySelector("main").innerText));
          await page.waitForFunction(() => document.querySelector("table")?.innerText.includes("page:<img"));
          // What cannot be seen in a key has its number, and a long one is cut.
          await waitForText(page, ".keys", "line\\nend\\u202etxt");
          await waitForText(page, ".keys", "… (5,000 characters)");
          await page.$$eval(".keys button", (buttons) => buttons.find((button) => button.innerText.startsWith("long")).click());
          await waitForText(page, "section.card h3", "longlong");
          // Of more groups than those with a history.
          const groups = await page.$$eval("form select option", (options) => options.length);
          if (groups !== 10) fail(`${name}: keys of ${groups} groups can be seen`);
        }
        if (view === "groups") {
          await waitForText(page, "main", "Sizes of default");
          await waitForText(page, "section[aria-label=Prefixes]", "user:");
          await page.waitForFunction(() => document.querySelectorAll("section[aria-label='Other sizes'] figure path").length === 2);
        }
        if (view === "events") {
          await waitForText(page, "main", "Faults in force");
          await waitForText(page, "#faults", "rehearsal: 1 fault ordered");
        }
        await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
        await checkAccess(page, name);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth) - SIZES[size].width;
        if (wide > 0) fail(`${name}: the page is ${wide} pixels wider than the screen`);
        // The long name of a group leaves room for what each setting does.
        const tables = await page.$$eval(".scroll", (all) => all.filter((one) => one.scrollWidth > one.clientWidth).length);
        if (view === "settings" && size === "desktop" && tables > 0) fail(`${name}: the table is wider than the screen`);
        const unseen = await page.$$eval("nav a", (links) => {
          const places = links.map((link) => link.getBoundingClientRect());
          return places.filter(({ left, right }) => left < 0 || right > document.documentElement.clientWidth).length;
        });
        if (unseen > 0) fail(`${name}: ${unseen} views are not seen in their list`);
        const dark = await page.evaluate(() => document.documentElement.dataset.theme);
        if (dark !== scheme) fail(`${name}: the theme is ${dark}`);
      }
      if (complaints.length > 0) fail(`${size} ${scheme}: ${complaints.join("\n")}`);
      await page.close();
    }
  }
}

/** Presses Tab until the element with the focus has this text or label. */
async function tabTo(page, wanted) {
  for (let presses = 0; presses < 80; presses += 1) {
    await page.keyboard.press("Tab");
    const text = await page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent);
    if (text.trim().startsWith(wanted)) return;
  }
  fail(`Tab does not reach ${wanted}`);
}

const text = (page, selector) => page.$eval(selector, (element) => element.innerText);
async function waitForText(page, selector, wanted) {
  const has = (at, part) => document.querySelector(at)?.innerText.includes(part);
  await page.waitForFunction(has, {}, selector, wanted).catch(async () => fail(`no ${wanted} in ${selector}: ${await text(page, "body")}`));
}

async function useKeyboard(browser) {
  const { page, complaints } = await openPage(browser, "desktop", "light");
  await openView(page, "overview");
  await tabTo(page, "Skip to the content");
  await page.keyboard.press("Enter");
  await tabTo(page, "Requests/s");
  await page.keyboard.press("ArrowLeft");
  await waitForText(page, "figure .legend", "at ");
  // Live: without a key pressed, the charts go on.
  const points = () => page.$eval("figure path", (path) => path.getAttribute("d"));
  const before = await points();
  await page.waitForFunction((was) => document.querySelector("figure path").getAttribute("d") !== was, {}, before);

  // A connection is ended by keys alone.
  await page.focus(".skip");
  await tabTo(page, "Connections");
  await page.keyboard.press("Enter");
  await waitForText(page, "main", "shop-worker");
  await tabTo(page, "Name");
  await page.keyboard.press("Enter");
  await page.waitForSelector("th[aria-sort]");
  const row = await page.$$eval("tbody tr", (rows) => rows.find((one) => one.innerText.includes("shop-worker")).querySelector("button").getAttribute("aria-label"));
  await tabTo(page, row);
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog[open]");
  await checkAccess(page, "dialog");
  // Cancel comes first.
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("dialog") === null);
  await waitForText(page, "main", "shop-worker");
  await page.focus(`[aria-label="${row}"]`);
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog[open]");
  await tabTo(page, "End it");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => !document.querySelector("tbody").innerText.includes("shop-worker"));

  // A key is found, explained and read; what is HTML in it stays text.
  await page.focus(".skip");
  await tabTo(page, "Keys");
  await page.keyboard.press("Enter");
  await page.waitForSelector("main[data-ready=keys]");
  await page.focus("input[type=search]");
  await page.keyboard.down("Control");
  await page.keyboard.press("a");
  await page.keyboard.up("Control");
  await page.keyboard.type("page:*");
  await page.keyboard.press("Enter");
  await waitForText(page, ".keys", "page:<img src=x onerror=complain('html')>");
  await tabTo(page, "page:<img");
  await page.keyboard.press("Enter");
  await waitForText(page, "dl", "fresh");
  await tabTo(page, "Read the value");
  await page.keyboard.press("Enter");
  await waitForText(page, "pre.value", '"price": 3');
  await page.select("section select", "hex");
  await waitForText(page, "pre.value", "00000000  7b 22");
  if ((await page.$("main img")) !== null) fail("a key became HTML");
  // Numbers are those of the value, and the first part of a long text ends within a character.
  const open = async (key) => {
    await page.$eval("input[type=search]", (input, wanted) => { input.value = wanted; }, key);
    await page.$$eval("form button", (buttons) => buttons.find((button) => button.textContent === "Show").click());
    await page.waitForFunction((wanted) => document.querySelector("section.card h3")?.textContent === wanted, {}, key);
    await page.$$eval("section.card button", (buttons) => buttons.find((button) => button.textContent === "Read the value").click());
  };
  await open("number");
  // It is in memory now.
  await waitForText(page, "dl", "value fresh");
  await waitForText(page, "pre.value", '"id": 12345678901234567890');
  await open("letters");
  await waitForText(page, "section.card", "the first 64.0 KiB");
  await waitForText(page, "pre.value", "aéééé");

  // An event arrives by the stream.
  await page.focus(".skip");
  await tabTo(page, "Events");
  await page.keyboard.press("Enter");
  await waitForText(page, "main", "has started");
  await page.evaluate(() => fetch("v1/config/reload", { method: "POST" }));
  await waitForText(page, "main", "the configuration was read again");

  // The fault that the test has ordered is ended by keys.
  await waitForText(page, "main", "Faults in force");
  await tabTo(page, "End fault");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => !document.querySelector("main").innerText.includes("Faults in force"));
  await page.waitForFunction(() => document.getElementById("faults").hidden);

  await page.focus(".skip");
  await tabTo(page, "Settings");
  await page.keyboard.press("Enter");
  await page.waitForSelector("main[data-ready=settings]");
  await page.focus("input[type=search]");
  await page.keyboard.type("flag --source");
  await waitForText(page, "tbody", "redis://");
  if (complaints.length > 0) fail(complaints.join("\n"));
  await page.close();
}

async function useAddressWithPassword(browser) {
  const page = await (await browser.createBrowserContext()).newPage();
  await page.goto(url.replace("://", "://admin:a@"));
  await page.waitForFunction(() => document.getElementById("live").textContent === "live");
  await page.close();
}

/** So many seconds of the server. */
function waitForSamples(page, wanted) {
  return page.evaluate((count) => new Promise((resolve) => {
    const stream = new EventSource("v1/live");
    let seen = 0;
    stream.addEventListener("sample", () => {
      seen += 1;
      if (seen < count) return;
      stream.close();
      resolve();
    });
  }), wanted);
}

async function beRefused(browser) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  const status = async (user) => {
    await page.setExtraHTTPHeaders(user === null ? {} : { authorization: `Basic ${btoa(user)}` });
    return (await load(page, url)).status();
  };
  for (const [user, wanted] of [[null, 401], ["admin:wrong", 401], ["nothing:n", 403]]) {
    const got = await status(user).catch((error) => (error.message.includes("ERR_INVALID_AUTH_CREDENTIALS") ? 401 : fail(error)));
    if (got !== wanted) fail(`${user}: ${got}`);
  }
  // Who may only look sees the page, and why a view is empty.
  await page.setExtraHTTPHeaders({ authorization: `Basic ${btoa("reader:r")}` });
  const asked = [];
  page.on("response", (response) => { if (response.status() === 403) asked.push(new URL(response.url()).pathname); });
  // An answer may take longer than the time after which a view that is not there is opened again.
  let isHeld = false;
  let early = 0;
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    if (new URL(request.url()).pathname !== "/v1/slow-log") return request.continue();
    if (isHeld) early += 1;
    isHeld = true;
    return setTimeout(() => {
      isHeld = false;
      request.continue();
    }, 6000);
  });
  await load(page, `${url}#connections`);
  await waitForText(page, "main", "client|list");
  // It is not asked for again and again, and goes with its view.
  await waitForSamples(page, 7);
  const twice = asked.filter((path, index) => asked.indexOf(path) !== index);
  if (twice.length > 0) fail(`refused and asked again: ${twice}`);
  await page.evaluate(() => { location.hash = "#events"; });
  await page.waitForSelector("main[data-ready=events]");
  await page.evaluate(() => { location.hash = "#overview"; });
  await page.waitForSelector("main[data-ready=overview]");
  await waitForSamples(page, 2);
  if ((await text(page, "#live")) !== "live") fail(`a refusal of another view is the state: ${await text(page, "#live")}`);
  if ((await text(page, "main")).includes("client|list")) fail("the refusal outlives its view");
  if (early > 0) fail("a view was opened again, though its first answer was still to come");
  await context.close();
}

/** A server that does not answer: the page says since when its numbers are old, and goes on when it is back. */
async function loseServer(browser) {
  const { page } = await openPage(browser, "desktop", "light");
  await openView(page, "overview");
  process.kill(server, "SIGSTOP");
  try {
    await waitForText(page, "#live", "no news for");
    await page.waitForSelector("main.old");
  } finally {
    process.kill(server, "SIGCONT");
  }
  await page.waitForFunction(() => document.getElementById("live").textContent === "live");
  await page.waitForSelector("main:not(.old)");
  await page.close();
}

const executablePath = process.env.PATH.split(":").map((part) => join(part, "chromium")).find(existsSync);
const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
try {
  for (const step of [beRefused, useAddressWithPassword, lookAtViews, useKeyboard, loseServer]) {
    await step(browser);
    console.log(`${step.name}: ok`);
  }
} finally {
  await browser.close();
}
